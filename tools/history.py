#!/usr/bin/env python3
"""`overlapbench history` in a checkout: cli/history.py there."""

from overlapbench.cli.script import run_script

if __name__ == "__main__":
    run_script(__file__)
