"""Importing this module first lets the scripts of this folder import this checkout's package."""

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parents[1]  # a link to this folder belongs to where it lies
sys.path.insert(0, str(ROOT / "tools"))
