#!/usr/bin/env python3
"""`overlapbench history` in a checkout: commands/history.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
