#!/usr/bin/env python3
"""`overlapbench gate` in a checkout: commands/perf_gate.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
