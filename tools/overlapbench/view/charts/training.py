"""Charts of training: layers, and what steps expose."""

from collections.abc import Sequence
from functools import partial

from overlapbench.reading.counters import TIME
from overlapbench.reading.rows import Row
from overlapbench.view import theme
from overlapbench.view.charts import axes, findings, finish, naming
from overlapbench.view.charts.bars import Bar, Bars
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import Name, file_names, joined
from overlapbench.view.charts.records import Rows, kind_of, state_text, whole


def _peer(row: Row) -> str:
    """Return the peer of PyTorch that a row measures; "" for the suite's rows."""
    return row.name.axis("peer") or ""


def _by_layer(rows: Sequence[Row]) -> Name:
    layers = [row for row in rows if not _peer(row)]
    transport = naming.transport_names(layers)
    head = naming.by(lambda row: transport(row) or "in chunks")
    own = naming.named("transport", "model", "chunks", "tokens", head=head)(layers)
    file = file_names([row for row in rows if _peer(row)] or rows)
    return lambda row: joined(f"PyTorch {_peer(row)}", file(row)) if _peer(row) else own(row)


def _in_chunks(row: Row) -> str:
    """Write the number of chunks, even if the row chose it itself, and the speedup: `4: 1.10×`."""
    chosen = row.counters.get("chunks")
    chunks = row.name.axis("chunks") if chosen is None else f"{chosen:.0f}"
    return f"{chunks}: {row.counters['speedup']:.2f}×"


LAYERS = Curves(
    name="tokens",
    title="Tensor-parallel layers against tokens",
    finding=findings.up_to("Chunks make a layer up to {figure} × as fast: {what}", "speedup"),
    reading="Each point is the fastest number of chunks, and 1 the fastest curve at so many tokens."
    " A single curve is labelled with that number and the speedup over the plain form, which is"
    " dashed. The bound is dotted.",
    rows=Rows(
        "Tp/*Parallel",
        ("sequential_ms", "bound_ms", "speedup"),
        when=lambda row: row.name.axis("chunks") is not None,
    ),
    beside=Rows(when=lambda row: _peer(row) != "" and row.time_ms > 0),
    x=X("tokens", "tokens of all ranks", axes.count_axis, partial(whole, axis="tokens")),
    y=Y("ratio", "time / the fastest", axes.CLOSE),
    reference="plain",
    bound="bound",
    tooltip=["time_ms", "sequential_ms", "bound_ms", "speedup"],
    interval=TIME,
    label="label",
    label_dy={"expr": "datum.speedup < 1 ? -14 : 17"},
    height=260,
    derived={
        **dict.fromkeys(("time_ms", "ratio"), lambda row: row.time_ms),
        "plain": lambda row: row.counters.get("sequential_ms"),
        "bound": lambda row: row.counters.get("bound_ms"),
        "label": lambda row: "" if _peer(row) else _in_chunks(row),
    },
    panel=naming.by(lambda r: joined("+".join(r.name.workloads), r.name.axis("model") or "")),
    independent=["y"],
    series=_by_layer,
    finish=finish.fastest,
)


# What a step costs beyond its computation. The order of the steps leaves no computation beside the
# first part: it is the bound, less the time of the pattern's computation. Cutting is the time of
# the pattern's computation beyond the plain form's; interference the slowdown of the sides by each
# other, and the cost of dependencies.
_EXPOSED = {
    "no computation beside it": theme.BLUE,
    "cutting": theme.GREEN,
    "interference": theme.ORANGE,
}
# Layers against tokens and pipelines have their own charts. Batches wait for the host or are many
# small sums beside one product: shares of the computation say little about them.
_NO_STEPS = ("Pp/", "Prefetch/", "Ddp/Batch")
_LAYERS = ("ColumnParallel", "RowParallel")


def _computation_ms(row: Row) -> float:
    return row.time_ms - row.counters["exposed_comm_ms"]


def _is_step(row: Row) -> bool:
    other = kind_of(row).startswith(_NO_STEPS) or row.name.workloads[0] in _LAYERS
    return not other and _computation_ms(row) > 0


def _exposed(row: Row) -> Bar:
    exposed_ms, cutting, interference, sequential_ms = (
        100 * row.counters[counter] / _computation_ms(row)
        for counter in ("exposed_comm_ms", "chunking_cost_ms", "interference_ms", "sequential_ms")
    )
    figure = f"{exposed_ms:.0f} %" if abs(exposed_ms) >= 10 else f"{exposed_ms:.1f} %"
    if not row.trusted:
        return Bar(max(0.0, exposed_ms), joined(figure, state_text(row)))
    lengths = (exposed_ms - cutting - interference, cutting, interference)
    parts = zip(_EXPOSED, lengths, strict=True)
    made = [{"part": part, "adds": adds} for part, adds in parts]
    return Bar(max(0.0, sequential_ms - 100), figure, made)


STEPS = Bars(
    name="steps",
    title="What training steps expose, and why",
    finding=findings.instead(
        "{what}: {to} exposes {best} ms of communication, {was} {base} ms",
        "exposed_comm_ms",
        "transport",
    ),
    reading="100 % is the step's computation alone. The tick marks the end of the plain form,"
    " in which nothing overlaps.",
    rows=Rows(
        known=("exposed_comm_ms", "chunking_cost_ms", "interference_ms", "sequential_ms"),
        when=_is_step,
    ),
    group=naming.by(lambda row: "/".join((row.name.family, *row.name.workloads))),
    label=naming.named("transport", head=naming.transport_names, alike=kind_of),
    scale_of_each=True,
    bar=_exposed,
    colours=_EXPOSED,
    x_title="time beyond the step's computation (%)",
)

CHARTS = (LAYERS, STEPS)
