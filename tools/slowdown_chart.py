#!/usr/bin/env python3
"""`overlapbench chart`, under its older name."""

import sys

from overlapbench.cli import main

sys.exit(main(["chart", *sys.argv[1:]]))
