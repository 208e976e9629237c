#!/usr/bin/env python3
"""`overlapbench gate`, under its older name."""

import sys

from overlapbench.cli import main

sys.exit(main(["gate", *sys.argv[1:]]))
