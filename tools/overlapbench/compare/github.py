"""The comparison as annotations of GitHub Actions: an error for whatever fails, else a notice."""

from overlapbench.compare.findings import Verdict
from overlapbench.compare.table import summary
from overlapbench.compare.verdicts import Comparison

_TOLD = frozenset({Verdict.FASTER, Verdict.TOO_NOISY})


def format_github(comparison: Comparison) -> str:
    lines = [
        _command("error" if row.fails else "notice", row.verdict.value, f"{row.name}: {row.reason}")
        for row in comparison.rows
        if row.fails or row.verdict in _TOLD
    ]
    level = "error" if comparison.status else "notice"
    return (
        "\n".join([*lines, _command(level, "overlapbench", "; ".join(summary(comparison)))]) + "\n"
    )


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escape(title, ':,')}::{_escape(message)}"


def _escape(text: str, besides: str = "") -> str:
    """Escape as GitHub's toolkit does: a message ends at a line's end, a title also at , and :."""
    for character in "%\r\n" + besides:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
