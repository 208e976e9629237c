#!/usr/bin/env python3
"""`overlapbench drill` in a checkout: commands/fault_drill.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
