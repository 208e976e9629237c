"""The outcomes of training steps as a table of 80 columns, one line per case.

Layers: times in ms, the suite's fastest and its plain form, then PyTorch's sequence and operator.
Steps: times, and the share that communication adds to the computation alone, in percent. The ratio
is PyTorch's best time over the suite's, above 1 if the suite is faster; its interval is the widest
that the intervals of both times allow.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap

from overlapbench.peers.training import COMPUTATION, DDP, FSDP, FUSED, PP, SEQUENCE, SUITE, Outcome
from overlapbench.reading.counters import TIME
from overlapbench.reading.rows import Row

# The axes that differ within a table.
_GROUPED_BY = {"Tp": "tokens", "Ddp": "bucket_bytes", "Fsdp": "prefetch", "Pp": "microbatches"}
_PEER = {"Ddp": DDP, "Fsdp": FSDP, "Pp": PP}
_NONE = "-"
_COLUMNS = 80
_MOST_LINES = 3  # per failure
_Rows = Mapping[str, Row]  # with figures, of one case, by contestant


def render_training(outcomes: Sequence[Outcome]) -> str:
    """Write a table for shapes that differ in one axis, and below it what was not measured."""
    tables = groupby(outcomes, key=_title)
    blocks = ["\n".join(_table(title, list(members))) for title, members in tables]
    return "\n\n".join(blocks) + "\n"


def _title(outcome: Outcome) -> str:
    case = outcome.case
    fixed = (f"{k}:{v}" for k, v in case.labels.items() if k != _GROUPED_BY[case.family])
    return "/".join([case.step, *fixed])


def _table(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    family = outcomes[0].case.family
    axis = _GROUPED_BY[family]
    yield title
    of_layers, of_steps = ("sequence", "PyTorch", "operator"), ("added %", "PyTorch", "added %")
    others = of_layers if family == "Tp" else of_steps
    yield _line(axis, ("suite ms", "by", *others), "ratio (95 %)")
    for case, members in groupby(outcomes, key=lambda outcome: outcome.case):
        rows = {one.contestant: one.row for one in members if one.row and not one.problem}
        by, suite = _fastest_of_suite(rows)
        cells = _layer_cells(rows, suite) if family == "Tp" else _step_cells(rows, suite, family)
        peers = [rows[name] for name in rows if name in (SEQUENCE, FUSED, *_PEER.values())]
        torch = min(peers, key=lambda row: row.time_ms, default=None)
        yield _line(str(case.labels[axis]), (_ms(suite), by, *cells), _ratio(torch, suite))
    for outcome in outcomes:
        if outcome.problem:
            line = f"{outcome.case.labels[axis]} {outcome.contestant}: {outcome.problem}"
            yield from wrap(
                line,
                _COLUMNS,
                initial_indent="  ",
                subsequent_indent="    ",
                max_lines=_MOST_LINES,
                placeholder=" ...",
            )


def _line(first: str, cells: Sequence[str], ratio: str) -> str:
    suite, by, *others = cells
    return f"{first:>12}{suite:>9} {by:<8}{''.join(f'{cell:>9}' for cell in others)}  {ratio}"


def _fastest_of_suite(rows: _Rows) -> tuple[str, Row | None]:
    """Return the suite's fastest row, and before it its transport and its chunks."""
    suite = {name.split()[1]: row for name, row in rows.items() if name.startswith(SUITE)}
    if not suite:
        return _NONE, None
    transport, row = min(suite.items(), key=lambda item: item[1].time_ms)
    return f"{transport} {row['chunks']:.0f}" if "chunks" in row.counters else transport, row


def _layer_cells(rows: _Rows, suite: Row | None) -> list[str]:
    plain = _NONE if suite is None else f"{suite['sequential_ms']:.4f}"
    return [plain, _ms(rows.get(SEQUENCE)), _ms(rows.get(FUSED))]


def _step_cells(rows: _Rows, suite: Row | None, family: str) -> list[str]:
    torch, alone = rows.get(_PEER[family]), rows.get(COMPUTATION)
    of_suite = suite and _added(suite.time_ms, suite.time_ms - suite["exposed_comm_ms"])
    of_torch = torch and alone and _added(torch.time_ms, alone.time_ms)
    return [of_suite or _NONE, _ms(torch), of_torch or _NONE]


def _added(time_ms: float, computation_ms: float) -> str:
    return f"{100 * (time_ms / computation_ms - 1):.1f}"


def _ms(row: Row | None) -> str:
    if row is None:
        return _NONE
    return f"{row.time_ms:.4f}" if row.time_ms < 1000 else f"{row.time_ms:.0f}"


def _ratio(torch: Row | None, suite: Row | None) -> str:
    if torch is None or suite is None:
        return _NONE
    ratio = f"{torch.time_ms / suite.time_ms:.2f}"
    bounds, own = torch.interval(TIME), suite.interval(TIME)
    if bounds is None or own is None:
        return ratio
    return f"{ratio} {bounds[0] / own[1]:.2f}-{bounds[1] / own[0]:.2f}"
