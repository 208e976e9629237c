#!/usr/bin/env python3
"""`overlapbench timeline` in a checkout: cli/timeline.py there."""

from overlapbench.cli.script import run_script

if __name__ == "__main__":
    run_script(__file__)
