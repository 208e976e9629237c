#!/usr/bin/env python3
"""`overlapbench timeline` in a checkout: commands/timeline.py there."""

import sys

from overlapbench.script import run_script

if __name__ == "__main__":
    sys.exit(run_script(__file__))
