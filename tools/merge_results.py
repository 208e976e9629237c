#!/usr/bin/env python3
"""`overlapbench merge` in a checkout: commands/merge_results.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
