"""Does hiding communication save energy, or only time? One answer for all rows that know both.

A row of --energy knows what share of the energy it saves against its sides, or steps, one after the
other (`energy_saved`), and what share of the time (1 - 1 / `speedup`).
"""

import statistics
from collections.abc import Sequence

from overlapbench.findings.rules import described
from overlapbench.reading.result import Result
from overlapbench.reading.rows import Row
from overlapbench.statistics.intervals import widened

SAVED = "energy_saved"
_SPEEDUP = "speedup"


def energy_answer(results: Sequence[Result]) -> str:
    """Return the answer; "" where no row measured energy."""
    rows = [
        row
        for result in results
        for row in result.rows
        if row.trusted and SAVED in row.intervals and row.counters.get(_SPEEDUP, 0) > 0
    ]
    if not rows:
        return ""
    # As one is told among many, each interval is wide enough for all.
    ends = [widened(row.intervals[SAVED], row.counters[SAVED], len(rows)) for row in rows]
    saves, costs = (sum(low > 0 for low, _ in ends), sum(high < 0 for _, high in ends))
    best = max(range(len(rows)), key=lambda place: ends[place][0])
    low, high = (100 * end for end in ends[best])
    example = (
        f"{described(rows[best])} saves {low:.1f} to {high:.1f} % of the energy and"
        f" {100 * _time_saved(rows[best]):.1f} % of the time."
    )
    if len(rows) == 1:
        return f"Hiding communication: {example}"
    counted = [f"costs energy in {costs}"] if costs else []
    counted += [f"{len(rows) - saves - costs} may save none"] if len(rows) > saves + costs else []
    time = 100 * statistics.median(map(_time_saved, rows))
    energy = 100 * statistics.median(row.counters[SAVED] for row in rows)
    return (
        f"Hiding communication saves energy in {saves} of {len(rows)} rows"
        f"{''.join(f', {one}' for one in counted)}. The median row saves {time:.1f} % of the time"
        f" and {energy:.1f} % of the energy. {example}"
    )


def _time_saved(row: Row) -> float:
    return 1 - 1 / row.counters[_SPEEDUP]
