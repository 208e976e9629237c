#!/usr/bin/env python3
"""`overlapbench peers` in a checkout: commands/peers.py there."""

from overlapbench.script import run_script

if __name__ == "__main__":
    run_script(__file__)
