#!/usr/bin/env python3
"""Write what the doctor expects, from the recorded results.

    dev/update_doctor.py

Reads docs/results, and writes tools/overlapbench/doctor/references.json: the figures that checks
and tolerances use, each under its file. tests/tools/test_doctor.py fails while it is stale. Draws
the picture of docs/doctor.md, of one of these results.

Exit status: 0 it is up to date now; 2 a result cannot be read.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checkout import ROOT
from overlapbench.cli.doctoring import specification
from overlapbench.doctor.checks import judge
from overlapbench.doctor.recordings import (
    SCHEMA,
    STORED,
    Recording,
    read_recording,
    recording_of,
)
from overlapbench.output import ResultError, replace_file
from overlapbench.reading.result import parse_result
from overlapbench.reading.source import load
from overlapbench.view.page import to_svg

RESULTS = ROOT / "docs/results"
DRAWN = "h200/families-again.json"


def derived(folder: Path) -> list[Recording]:
    """Return what the results below a folder have of the checks, on GPUs."""
    found = []
    for path in sorted(folder.glob("*/*.json*")):
        if path.parent.name == "host":  # no reference for other hosts
            continue
        one = _recorded(path, path.relative_to(folder).as_posix())
        kept = {row: x for row, x in one.figures.items() if row not in one.doubts}
        if kept:
            found.append(Recording(one.file, one.context, one.facts, kept))
    return sorted(found, key=lambda one: one.file)


def _recorded(path: Path, file: str) -> Recording:
    text = load(str(path))
    if '"doctor_schema"' in text[:100]:
        return replace(read_recording(str(path)), file=file)
    return recording_of(parse_result(str(path), text), file)


def written(recordings: Sequence[Recording]) -> str:
    """Write references.json: one figure in a line, so that changes can be read."""
    lines = [f'{{"doctor_schema": "{SCHEMA}", "recordings": [']
    for place, one in enumerate(recordings):
        head = json.dumps({"file": one.file, "context": one.context, "facts": one.facts})
        lines.append(f'{head[:-1]}, "figures": {{')
        rows = [f"{json.dumps(row)}: {json.dumps(found)}" for row, found in one.figures.items()]
        lines.append(",\n".join(f" {row}" for row in rows))
        lines.append("}}" + ("," if place + 1 < len(recordings) else ""))
    return "\n".join([*lines, "]}", ""])


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        found = derived(RESULTS)
        replace_file(STORED, written(found).encode())
        (one,) = [each for each in found if each.file == DRAWN]
        picture = to_svg(specification(judge(one, found), one))
        replace_file(RESULTS / "h200/doctor.svg", picture.encode())
    except ResultError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
