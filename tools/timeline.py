#!/usr/bin/env python3
"""`overlapbench timeline` in a checkout: commands/timeline.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
