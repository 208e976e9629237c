#!/usr/bin/env python3
"""`overlapbench gate` in a checkout: cli/gate.py there."""

from overlapbench.cli.script import run_script

if __name__ == "__main__":
    run_script(__file__)
