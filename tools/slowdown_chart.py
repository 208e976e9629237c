#!/usr/bin/env python3
"""`overlapbench chart` in a checkout: cli/chart.py there."""

from overlapbench.cli.script import run_script

if __name__ == "__main__":
    run_script(__file__)
