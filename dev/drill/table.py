"""The table of drills in Markdown: the fault, the outcome, the time."""

from collections.abc import Mapping, Sequence

from drill.verdict import Verdict

_HEADER = (
    "| Fault | Phase | Rank | What happened | Seconds | Status | Rows kept |\n"
    "|---|---|---|---|---:|---:|---|\n"
)


def markdown(verdicts: Sequence[Verdict], machine: str) -> str:
    """Return the table, with a line that says where it was made."""
    held = sum(not verdict.broken for verdict in verdicts)
    summary = f"{machine}: {len(verdicts)} drills, {held} kept their promise.\n\n"
    return summary + _HEADER + "".join(_row(verdict) for verdict in verdicts)


def _row(verdict: Verdict) -> str:
    drill, ended = verdict.drill, verdict.ended
    faults = [_parse(fault) for fault in drill.faults]
    carrier = f", `transport:{drill.transport}`" if drill.transport else ""
    broken = "**broken**: " + "; ".join(verdict.broken)
    cells = [
        " and ".join(map(_kind, faults)) + carrier,
        " and ".join(f"`{fault['phase']}`" for fault in faults),
        " and ".join(fault["rank"] for fault in faults),
        broken if verdict.broken else drill.outcome.value,
        f"{ended.seconds:.1f}",
        "none" if ended.status is None else str(ended.status),
        verdict.kept,
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _parse(fault: str) -> Mapping[str, str]:
    """Parse kind@phase,field=value,..."""
    struck, *fields = fault.split(",")
    kind, _, phase = struck.partition("@")
    given = dict(field.split("=") for field in fields)
    return {"kind": kind, "phase": phase, "rank": "0", **given}


def _kind(fault: Mapping[str, str]) -> str:
    amount = f" of {int(fault['ms']) / 1000:g} s" if "ms" in fault else ""
    if "bytes" in fault:
        amount = f" at {fault['bytes']} bytes"
    return f"`{fault['kind']}`{amount}"
