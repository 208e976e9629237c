#!/usr/bin/env python3
"""`overlapbench compare`, under its older name."""

import sys

from overlapbench.cli import main

sys.exit(main(["compare", *sys.argv[1:]]))
