#!/usr/bin/env python3
"""`overlapbench soak` in a checkout: commands/soak.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
