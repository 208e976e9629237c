#!/usr/bin/env python3
"""Write what the doctor expects, from the recorded results.

    dev/update_doctor.py

Reads docs/results, and writes tools/overlapbench/doctor/references.json: the figures that checks
and tolerances use, each under its file. tests/tools/test_doctor.py fails while it is stale.

Exit status: 0 it is up to date now; 2 a result cannot be read.
"""

import argparse
import sys

from checkout import ROOT
from overlapbench.doctor.recordings import STORED, derived, written
from overlapbench.output import ResultError, replace_file

RESULTS = ROOT / "docs/results"


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        replace_file(STORED, written(derived(RESULTS)).encode())
    except ResultError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
