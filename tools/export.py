#!/usr/bin/env python3
"""`overlapbench export` in a checkout: commands/export.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
