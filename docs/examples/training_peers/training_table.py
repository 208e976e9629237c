"""A shape's outcomes as text: a line for each contestant, with its time and what it means.

    Ddp/Buckets/layers:24/width:4096/tokens:4096/bucket_bytes:26214400
      suite nccl        12.0000 ms ±0.1200, adds 20.0 %
      computation       10.0000 ms ±0.1000
      ddp               13.0000 ms ±0.1300, adds 30.0 %, 1.08 (1.06 to 1.11) of the suite's

Layers do not say what communication adds to the computation alone. The last figure compares with
the suite's fastest row, above 1 if that is faster. Its interval is the widest that the intervals of
both times allow, because the two rows were not sampled in turn.
"""

from collections.abc import Iterator, Mapping

from overlapbench import Row
from training_cases import COMPUTATION, Case

SUITE = "suite"


def lines_of(case: Case, outcomes: Mapping[str, Row | str]) -> Iterator[str]:
    """Yield the lines of a shape, from each contestant's row, or why it has none."""
    yield str(case)
    good = {
        name: row for name, row in outcomes.items() if not isinstance(row, str) and _is_timed(row)
    }
    fastest = min(
        (row for name, row in good.items() if name.startswith(SUITE)),
        key=lambda row: row.time_ms,
        default=None,
    )
    for name, outcome in outcomes.items():
        told = _problem(outcome)
        if name in good:
            told = ", ".join(_figures(name, good, fastest))
        yield f"  {name:<16}{told}"


def _is_timed(row: Row) -> bool:
    return row.state.comparable


def _problem(outcome: Row | str) -> str:
    return outcome if isinstance(outcome, str) else f"{outcome.state.value}: {outcome.reason}"


def _figures(name: str, good: Mapping[str, Row], fastest: Row | None) -> Iterator[str]:
    row, alone = good[name], good.get(COMPUTATION)
    low, high = row.intervals.get("time") or (row.time_ms, row.time_ms)
    yield f"{row.time_ms:9.4f} ms ±{(high - low) / 2:.4f}"
    if name.startswith(SUITE):
        if "chunks" in row.counters:
            directly = " directly" if row.counters.get("direct") else ""
            yield f"{row.counters['chunks']:.0f} chunks{directly}"
            yield f"{row.counters['sequential_ms']:.4f} ms without"
        elif "exposed_comm_ms" in row.counters:
            yield _adds(row.time_ms, row.time_ms - row.counters["exposed_comm_ms"])
        return
    if alone is not None and name != COMPUTATION:
        yield _adds(row.time_ms, alone.time_ms)
    if fastest is not None and name != COMPUTATION:
        least, most = fastest.intervals.get("time") or (fastest.time_ms, fastest.time_ms)
        interval = f"({low / most:.2f} to {high / least:.2f})"
        yield f"{row.time_ms / fastest.time_ms:.2f} {interval} of the suite's"


def _adds(time_ms: float, computation_ms: float) -> str:
    return f"adds {100 * (time_ms / computation_ms - 1):.1f} %"
