#!/usr/bin/env python3
"""`overlapbench soak` in a checkout: commands/soak.py there."""

import sys

from overlapbench.script import run_script

if __name__ == "__main__":
    sys.exit(run_script(__file__))
