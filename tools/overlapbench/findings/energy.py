"""Does hiding communication save energy, or only time? One answer for all rows that know both.

A row of --energy knows what share of the energy it saves against its sides, or steps, one after the
other (`energy_saved`), and what share of the time (`time_saved`). Pipelines are left out, because
ranks idle if their steps follow each other, and delays, because they communicate nothing.
"""

import statistics
from collections.abc import Sequence

from overlapbench.findings.rules import described
from overlapbench.reading.result import Result
from overlapbench.statistics.intervals import widened

SAVED = "energy_saved"
_TIME_SAVED = "time_saved"
_LEFT_OUT = ("Pp/", "Overlap/SecondDelay+")


def energy_answer(results: Sequence[Result]) -> str:
    """Return the answer; "" where no row measured energy."""
    rows = [
        row
        for result in results
        for row in result.rows
        if row.trusted and SAVED in row.intervals and _TIME_SAVED in row.counters
        if not row.name.startswith(_LEFT_OUT)
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
        f" {100 * rows[best].counters[_TIME_SAVED]:.1f} % of the time."
    )
    if len(rows) == 1:
        return f"Hiding communication: {example}"
    counted = [f"costs energy in {costs}"] if costs else []
    counted += [f"{len(rows) - saves - costs} may save none"] if len(rows) > saves + costs else []
    time = 100 * statistics.median(row.counters[_TIME_SAVED] for row in rows)
    energy = 100 * statistics.median(row.counters[SAVED] for row in rows)
    return (
        f"Hiding communication saves energy in {saves} of {len(rows)} rows"
        f"{''.join(f', {one}' for one in counted)}. The median row saves {time:.1f} % of the time"
        f" and {energy:.1f} % of the energy. {example}"
    )
