#!/usr/bin/env python3
"""`overlapbench compare` in a checkout: commands/benchmark_compare.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
