#!/usr/bin/env python3
"""`overlapbench export` in a checkout: commands/export.py there."""

import sys

from overlapbench.script import run_script

if __name__ == "__main__":
    sys.exit(run_script(__file__))
