#!/usr/bin/env python3
"""`overlapbench peers` in a checkout: commands/peers.py there."""

import sys

from overlapbench.script import run_script

if __name__ == "__main__":
    sys.exit(run_script(__file__))
