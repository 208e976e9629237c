"""The comparison as Markdown, for a pull request or a job's summary.

Rows that are the same are counted, and listed only where asked for, since such places hold a
megabyte at most.
"""

import re

from overlapbench.compare.table import TITLES, cells, listed, shown, summary
from overlapbench.compare.verdicts import Comparison

_TITLES = ("verdict", "benchmark", *TITLES)


def format_markdown(comparison: Comparison, every: bool = False) -> str:
    lines = [f"- {escape(sentence)}" for sentence in summary(comparison)]
    rows = listed(comparison, every)
    if rows:
        lines += ["", f"| {' | '.join(_TITLES)} |", "|---|---|---|--:|--:|--:|--:|--:|"]
    for row in rows:
        name = f"{escape(row.name)}<br>{escape(row.reason)}"
        first = (f"**{row.verdict.value}**", name)
        for finding in shown(row, every) or (None,):
            figures = cells(finding) if finding else ("",) * 6
            lines.append(f"| {' | '.join((*first, *map(escape, figures)))} |")
            first = ("", "")
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Make text stand for itself: no link, no HTML, no end of a cell, no mention of a person."""
    text = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    )
    text = text.replace("://", "&#58;//").replace("www.", "www&#46;")
    return re.sub(r"([\\`*_{}\[\]()#|~!])", r"\\\1", text)
