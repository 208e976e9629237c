#!/usr/bin/env python3
"""Update the files of the repository that repeat the program's tables of counters.

    dev/update_counters.py

The program defines every counter once (report/counters.h), and every pattern of timelines
(fixtures/patterns.h). Three files repeat its tables, and only this script writes them:

- tools/overlapbench/reading/counters.json, the table for result files without one:
  `--list_counters=json`. The axes of workloads stay as they are, since those files do not change.
- tools/overlapbench/traces/patterns.json, the patterns: `--list_counters=json` too.
- tools/overlapbench/reading/attributes.pyi, the counters as attributes of a row, for type checkers
  and completion.

tests/cli/test_counters.py fails while one is stale.

Exit status: 0 all are up to date now; 2 the program is not built, or a file is not as expected.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import checkout  # noqa: F401
from overlapbench.output import ResultError, replace_file

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tools/overlapbench/reading/counters.json"
ATTRIBUTES = STORED.with_name("attributes.pyi")
PATTERNS = ROOT / "tools/overlapbench/traces/patterns.json"


def up_to_date(binary: Path) -> Mapping[Path, str]:
    """Return what the files must contain."""
    command = [str(binary), "--list_counters=json"]
    tables = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    patterns = tables.pop("patterns")
    return {
        STORED: _with_counters(STORED.read_text(encoding="utf-8"), tables),
        ATTRIBUTES: _attributes(tables["counters"]),
        PATTERNS: f"{_lines(patterns)}\n",
    }


def _with_counters(stored: str, tables: Mapping[str, Sequence[object]]) -> str:
    parts = {**tables, "workloads": json.loads(stored)["workloads"]}
    lists = (f"{json.dumps(name)}: {_lines(entries)}" for name, entries in parts.items())
    return "{\n" + ",\n".join(lists) + "\n}\n"


def _attributes(counters: Sequence[Mapping[str, str]]) -> str:
    lines = (f"    {counter['name']}: Figure  # {counter['title']}" for counter in counters)
    return (
        "# The counters as attributes of a row; written by dev/update_counters.py.\n"
        "# ruff: noqa: N815\n\n"
        "from overlapbench.reading.rows import Figure\n\n"
        "class Attributes:\n" + "\n".join(lines) + "\n"
    )


def _lines(entries: Sequence[object]) -> str:
    lines = (json.dumps(entry, ensure_ascii=False) for entry in entries)
    return "[\n" + ",\n".join(lines) + "\n]"


def main(arguments: Sequence[str] | None = None) -> int:
    assert __doc__
    parser = argparse.ArgumentParser(prog="update_counters", description=__doc__.splitlines()[0])
    binary = ROOT / "build/release/overlapbench"
    parser.add_argument("--binary", type=Path, default=binary, help="build/release/overlapbench")
    options = parser.parse_args(arguments)
    try:
        for path, text in up_to_date(options.binary).items():
            replace_file(path, text.encode())
    except (OSError, ValueError, ResultError, subprocess.CalledProcessError) as error:
        print(f"update_counters: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
