"""Whether a job that a fault struck kept the suite's promises.

In every case, the job ends in time; every row that it reported as finished is in its result; no row
has a number that was not verified; and the job leaves nothing behind. Each drill adds its own
promises.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drill.drills import AT_ONCE_S, Drill, Kept, Outcome
from drill.job import RESULT, Ended

_PLANNED = re.compile(r"^(\d+) benchmarks?; ", re.MULTILINE)
_BLOCK = re.compile(r"^[A-Z]\w*(/\S+)?(  .*)?\n(?:.+\n)*", re.MULTILINE)  # of the table of rows
_ROW = re.compile(r"(^|\s)(\d+(\.\d+)?|\?|ERROR:)(\s|$)")  # titles have no number of their own
# Far above the rounding error of float sums of this size, far below the effect of a flipped bit.
_MOST_ERROR = 1e-3

_FILE = {
    Kept.WHOLE: RESULT,
    Kept.MARKED: RESULT,
    Kept.NOTHING: "",
}
_STATUS = {  # for any other outcome: any status but 0
    Outcome.ROW_FAILS: 1,
    Outcome.ROWS_FAIL: 1,
    Outcome.INVALID: 0,
    Outcome.UNHARMED: 0,
}


@dataclass(frozen=True)
class Verdict:
    """The outcome of a drill."""

    drill: Drill
    ended: Ended
    rows: int  # in the result
    planned: int | None  # None: the job ended before it had a plan
    broken: list[str]  # descriptions of broken promises

    @property
    def kept(self) -> str:
        return "no plan yet" if self.planned is None else f"{self.rows} of {self.planned}"


def judge(drill: Drill, ended: Ended, busy_s: int = 0) -> Verdict:
    """Compare the outcome with the promise."""
    found = _PLANNED.search(ended.stdout)
    planned = int(found[1]) if found else None
    result, wrong_files = _read_result(drill, ended)
    rows: list[dict[str, Any]] = result.get("benchmarks", [])
    broken = [f"left behind: {thing}" for thing in ended.left]
    broken += [*_wrong_end(drill, ended, busy_s), *wrong_files]
    broken += _lost_rows(drill, ended, rows, planned)
    broken += [f"wrong number: {fault}" for row in rows if (fault := _wrong_number(row))]
    broken += _wrong_rows(drill, rows)
    return Verdict(drill, ended, len(rows), planned, broken)


def _wrong_end(drill: Drill, ended: Ended, busy_s: int) -> Iterator[str]:
    if ended.status is None:
        yield "it did not end"
        return
    promised = _STATUS.get(drill.outcome)
    if promised is None and ended.status == 0:
        yield "exit status 0"
    if promised is not None and ended.status != promised:
        yield f"exit status {ended.status}, not {promised}"
    at_once_s = AT_ONCE_S + busy_s
    if drill.at_once and ended.seconds > at_once_s:
        yield f"ended after {ended.seconds:.1f} s, not within {at_once_s} s"
    if not re.search(drill.names, " ".join(ended.stderr.split())):
        yield f"mpirun's words do not match {drill.names!r}: {ended.stderr[-500:]!r}"
    ours = "\n".join(ended.ours)
    if drill.outcome is Outcome.ENDS and not re.search(drill.says, ours, re.MULTILINE):
        yield f"no message of the suite matches {drill.says!r}: {ended.ours}"


def _lost_rows(
    drill: Drill, ended: Ended, rows: list[dict[str, Any]], planned: int | None
) -> Iterator[str]:
    table = ended.stdout.partition("\n\n")[2]
    lines = [line for block in _BLOCK.finditer(table) for line in block[0].splitlines()[1:]]
    shown = sum(bool(_ROW.search(line)) for line in lines)
    if shown > len(rows):
        yield f"lost rows: {shown} were shown, and {len(rows)} kept"
    if drill.kept is Kept.WHOLE and len(rows) != planned:
        yield f"{len(rows)} rows of {planned}"
    if drill.kept is Kept.MARKED and not 0 < len(rows) < (planned or 0):
        yield f"{len(rows)} rows of {planned}: the fault did not strike in the middle"


def _read_result(drill: Drill, ended: Ended) -> tuple[dict[str, Any], list[str]]:
    """Return the result, and the faults of the files."""
    expected = _FILE[drill.kept]
    wrong = [f"unexpected file {name}" for name in ended.files if name != expected]
    if not expected:
        return {}, wrong
    if expected not in ended.files:
        return {}, [*wrong, f"no {expected}"]
    try:
        result: dict[str, Any] = json.loads(ended.files[expected])
    except json.JSONDecodeError as error:
        return {}, [*wrong, f"{expected} is not JSON: {error}"]
    marked = bool(result.get("incomplete"))
    if marked != (drill.kept is not Kept.WHOLE):
        wrong.append("marked incomplete" if marked else "not marked incomplete")
    return result, wrong


def _wrong_number(row: dict[str, Any]) -> str:
    if row["state"] == "error":
        return ""
    sound = (
        math.isfinite(row["real_time"])
        and row["real_time"] > 0
        and 0 <= row["max_rel_err"] <= _MOST_ERROR
    )
    return "" if sound else f"{row['name']}: {row['real_time']}, error {row['max_rel_err']}"


def _wrong_rows(drill: Drill, rows: list[dict[str, Any]]) -> Iterator[str]:
    errors = [row["reason"] for row in rows if row["state"] == "error"]
    invalid = [row["reason"] for row in rows if row["state"] == "invalid"]
    if errors and drill.outcome not in (Outcome.ROW_FAILS, Outcome.ROWS_FAIL):
        yield f"error rows: {errors}"
    if invalid and drill.outcome is not Outcome.INVALID:
        yield f"invalid rows: {invalid}"
    if drill.outcome is Outcome.ROW_FAILS and len(errors) != 1:
        yield f"{len(errors)} error rows, not 1: {errors}"
    if drill.outcome is Outcome.ROWS_FAIL and not 0 < len(errors) < len(rows):
        yield f"{len(errors)} error rows of {len(rows)}"
    if drill.outcome is Outcome.INVALID and not 0 < len(invalid) < len(rows):
        yield f"{len(invalid)} invalid rows of {len(rows)}"
    for text in (invalid if drill.outcome is Outcome.INVALID else errors)[:1]:
        if not re.search(drill.says, text):
            yield f"{text!r} does not say {drill.says!r}"
