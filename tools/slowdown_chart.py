#!/usr/bin/env python3
"""`overlapbench chart` in a checkout: commands/slowdown_chart.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
