"""The table of drills in Markdown: what was done, what happened, how long it took."""

import re
from collections.abc import Sequence

from overlapbench.drill.drills import Drill
from overlapbench.drill.verdict import Verdict

_HEADER = (
    "| Fault | Phase | Rank | What happened | Seconds | Status | Rows kept |\n"
    "|---|---|---|---|---:|---:|---|\n"
)
_FAULT = re.compile(r"(?P<kind>\w+)@(?P<phase>\w+)(?P<fields>.*)")


def markdown(verdicts: Sequence[Verdict], machine: str) -> str:
    """Return the table, with a line that tells where it was made."""
    held = sum(not verdict.broken for verdict in verdicts)
    summary = f"{machine}: {len(verdicts)} drills, {held} kept their promise.\n\n"
    return summary + _HEADER + "".join(_row(verdict) for verdict in verdicts)


def _row(verdict: Verdict) -> str:
    parts = [_FAULT.fullmatch(fault) for fault in verdict.drill.faults]
    cells = [
        " and ".join(_kind(part) for part in parts if part) + _carrier(verdict.drill),
        " and ".join(f"`{part['phase']}`" for part in parts if part),
        " and ".join(str(_field(part, "rank") or 0) for part in parts if part),
        _happened(verdict),
        f"{verdict.ended.seconds:.1f}",
        "none" if verdict.ended.status is None else str(verdict.ended.status),
        verdict.kept,
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _carrier(drill: Drill) -> str:
    return f", `transport:{drill.transport}`" if drill.transport else ""


def _kind(part: "re.Match[str]") -> str:
    amount = ""
    if ms := _field(part, "ms"):
        amount = f" of {ms / 1000:g} s"
    if size := _field(part, "bytes"):
        amount = f" at {size} bytes"
    return f"`{part['kind']}`{amount}"


def _field(part: "re.Match[str]", name: str) -> int | None:
    found = re.search(rf",{name}=(\d+)", part["fields"])
    return int(found[1]) if found else None


def _happened(verdict: Verdict) -> str:
    if verdict.broken:
        return "**broken**: " + "; ".join(verdict.broken)
    return verdict.drill.outcome.value
