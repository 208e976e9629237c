"""`python -m overlapbench` is `overlapbench`."""

import sys

from overlapbench.cli import main

sys.exit(main())
