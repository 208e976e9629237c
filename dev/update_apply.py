#!/usr/bin/env python3
"""Write the table of docs/apply.md from tools/overlapbench/findings/apply.toml.

    dev/update_apply.py

tests/tools/test_findings.py fails while the page is stale.

Exit status: 0 the page is up to date now; 2 it has no table, or is not writable.
"""

import argparse
import sys
from pathlib import Path

import checkout  # noqa: F401
from overlapbench.findings.apply import with_table
from overlapbench.output import ResultError, replace_file

PAGE = Path(__file__).resolve().parents[1] / "docs/apply.md"


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        replace_file(PAGE, with_table(PAGE.read_text(encoding="utf-8")).encode())
    except ResultError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
