#!/usr/bin/env python3
"""`overlapbench trace` in a checkout: commands/trace_breakdown.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
