"""Charts of the laboratory: links, shared SMs, who takes from whom, and causes of slowdowns."""

from collections import Counter
from collections.abc import Sequence

from overlapbench.reading.rows import Row
from overlapbench.statistics import intervals
from overlapbench.view import theme
from overlapbench.view.charts import axes, findings, finish, naming
from overlapbench.view.charts.bars import Bar, Bars
from overlapbench.view.charts.cells import Cells
from overlapbench.view.charts.curves import Curves, X, Y
from overlapbench.view.charts.naming import Name, file_names, joined
from overlapbench.view.charts.records import Rows, bounds, ratio_text, state_text, whole
from overlapbench.view.vega import Record


def _sms(row: Row) -> int:
    """Return the number of SMs that a row took, or else was given; 0 for a copy engine."""
    return round(row.counters.get("comm_sms", _sms_of_partner(row)))


def _fewest_sms(rows: Sequence[Row]) -> str:
    """Tell how few SMs surely carry KNEE_SHARE of the most that SMs carry."""
    rates = findings.known(rows, "GBps")
    on_sms = [row for row in rows if id(row) in rates and _sms(row)]
    most = max(on_sms, key=lambda row: rates[id(row)], default=None)
    if most is None:
        return ""
    enough = finish.KNEE_SHARE * rates[id(most)][0]
    least = min((row for row in on_sms if rates[id(row)][1] > enough), key=_sms, default=None)
    if least is None:
        return ""
    way = naming.transport_names(rows)(least) or least.name.workloads[0]
    figure, highest = (intervals.measured(*rates[id(row)]) for row in (least, most))
    return (
        f"{_sms(least)} SMs carry {figure} GB/s by {way}; the most, by {_sms(most)}, is {highest}"
    )


LINK = Curves(
    name="link",
    title="Link bandwidth against SMs",
    finding=_fewest_sms,
    reading=f"The ring marks the knee: the fewest SMs that reach {finish.KNEE_SHARE:.0%} of the"
    " plateau, the highest point. Copy engines use no SMs. SendRecv moves data both ways at once.",
    rows=Rows("Lab/Link/*", ["GBps"]),
    x=X("sms", "SMs (NCCL: CTAs) that the transport uses", axes.level_axis, _sms),
    y=Y("GBps", "GB/s", axes.FROM_ZERO),
    tooltip=["sms", "GBps_per_sm"],
    height=300,
    panel=naming.by_workload,
    series=naming.named("transport", *naming.SM_AXES, head=naming.transport_names),
    finish=finish.telling(finish.plateau_of),
    independent=["color", "shape"],
)


_SIDES = ("comp_slowdown", "comm_slowdown")


def _of_sides(row: Row, sides: Sequence[str] = _SIDES) -> str:
    return " | ".join(ratio_text(row, side) for side in sides)


MATRIX = Cells(
    name="matrix",
    title="Who takes from whom",
    finding=findings.instead(
        "{what}: by {to}, both take {best} × the longer side, by {was} {base}",
        "slowdown",
        "transport",
    ),
    reading="Each cell shows the slowdown of the pair, and below it those of the computation | of"
    " the communication. Hatched: not measured.",
    rows=Rows("Lab/Matrix/*"),
    across=naming.side(0, "transport", "first", head=naming.transport_names, alike=True),
    down=naming.side(1, "transport", "first", alike=True),
    panel=naming.together(naming.by_order, file_names),
    lines=[_of_sides],
    angle=-45,
    tooltip=_SIDES,
)


TRIPLE = Cells(
    name="triple",
    title="Two communications beside one computation",
    finding=findings.up_to("All three take up to {figure} × the longest: {what}", "slowdown"),
    reading="Each cell shows the slowdown of all three, in brackets what it would be if the"
    " slowdowns that two sides cause a third multiplied, and below it those of the computation |"
    " of the first communication | of the second. Hatched: not measured.",
    rows=Rows("*+*+*"),
    across=naming.together(
        naming.by(lambda row: " + ".join(row.name.workloads[:-1])), naming.transport_names
    ),
    down=naming.by(lambda row: row.name.workloads[-1]),
    panel=naming.together(naming.by_order, file_names),
    lines=[
        lambda row: f"({ratio_text(row, 'product_slowdown')})",
        lambda row: _of_sides(row, (*_SIDES, "second_slowdown")),
    ],
    angle=-45,
    tooltip=[*_SIDES, "second_slowdown", "product_slowdown", "product_error"],
    least_width=84,
)


def _sms_of_partner(row: Row) -> int:
    return next((sms for axis in naming.SM_AXES if (sms := whole(row, axis))), 0)


def _taken(rows: Sequence[Row]) -> Name:
    """Write a transport with its SMs or CTAs: `nccl 16 CTAs`."""
    transport = naming.transport_names(rows)

    def name(row: Row) -> str:
        unit = "CTAs" if row.name.axis("comm_ctas") else "SMs"
        head = transport(row) or row.name.workloads[0]
        return f"{head} {_sms_of_partner(row)} {unit}" if _sms_of_partner(row) else head

    return name


PARTITION = Cells(
    name="partition",
    title="Sharing the SMs between two sides",
    finding=findings.instead(
        "{what}: {best} ms by {to}, {base} by {was}",
        "overlap_ms",
        *("transport", "comp_sms", *naming.SM_AXES),
    ),
    reading="Each cell shows T, and below it the slowdowns of the computation | of the"
    " communication. The best T of a panel is white. Hatched: not measured.",
    rows=Rows("Lab/Partition/*"),
    measured="overlap_ms",
    across=naming.by(lambda row: str(whole(row, "comp_sms") or "all")),
    down=_taken,
    colour="T / the panel's best",
    panel=naming.named(  # the order, and other axes that distinguish panels
        "transport",
        "comp_sms",
        "first",
        *naming.SM_AXES,
        head=naming.together(naming.by_order, naming.by_workload),
    ),
    to_best=True,
    text=lambda row, counter: f"{intervals.digits(row.counters[counter], 3)} ms",
    lines=[_of_sides],
    across_order=lambda _: lambda row: whole(row, "comp_sms") or float("inf"),
    across_title="SMs of the computation",
    tooltip=_SIDES,
    least_width=66,
    most_width=110,
)


_MOSTLY = 0.5
LEAST_SLOWDOWN = 1.1  # below it, shares of the excess are shares of noise
_CAUSES = {
    "by_sm": ("SMs", theme.BLUE),
    "by_hbm": ("device memory", theme.ORANGE),
    "by_l2": ("L2", theme.GREEN),
    "by_clock": ("clock", theme.PURPLE),
    "by_lead": ("late start", theme.VERMILION),  # missing in results of earlier versions
    "residual": ("unexplained", theme.SKY),
}


def _excess(row: Row) -> Bar:
    """Divide slowdown - 1 into the measured shares of it."""
    tick = max(0.0, row.counters["slowdown"] - 1)
    parts: list[Record] = [
        {"part": cause, "adds": share * tick, "share": share} | bounds(row, counter, "share")
        for counter, (cause, _) in _CAUSES.items()
        if (share := row.counters.get(counter)) is not None
    ]
    figure = f"{row.counters['slowdown']:.2f}"
    if not row.trusted:
        return Bar(tick, joined(figure, state_text(row)))
    if row.counters["slowdown"] <= LEAST_SLOWDOWN:
        return Bar(0.0, f"{figure}: no slowdown to explain")
    return Bar(tick, figure, parts)


def _main_cause(rows: Sequence[Row]) -> str:
    """Tell which cause surely explains most of the excess of the most rows."""
    slowed = [row for row in rows if row.counters["slowdown"] > LEAST_SLOWDOWN]
    count = Counter(
        cause
        for row in slowed
        for counter, (cause, _) in _CAUSES.items()
        if counter in row.intervals and row.intervals[counter][0] > _MOSTLY
    )
    if not count:
        return ""
    cause, most = count.most_common(1)[0]
    return f"{most} of {len(slowed)} slowdowns come mostly from {cause}"


ATTRIBUTION = Bars(
    name="attribution",
    title="Where a slowdown comes from",
    finding=_main_cause,
    reading="The tick is the measured slowdown - 1. If the stand-ins take more than the"
    " communication does, the bar extends past the tick, and the negative rest is drawn left of"
    f" zero. Slowdowns of at most {LEAST_SLOWDOWN:g} are not explained.",
    rows=Rows("Lab/Attribution/*", ["slowdown"], known=[*({*_CAUSES} - {"by_lead"})]),
    group=naming.by(lambda row: row.name.workloads[1]),
    label=naming.named(
        "transport",
        "first",
        head=naming.together(
            naming.by(lambda row: row.name.workloads[0]), naming.transport_names, naming.by_order
        ),
        alike=lambda row: row.name.workloads,
    ),
    bar=_excess,
    colours=dict(_CAUSES.values()),
    x_title="slowdown - 1: cost of the overlap beyond the longer side",
    tooltip=["share", "share_low", "share_high"],
)

CHARTS = (LINK, PARTITION, MATRIX, TRIPLE, ATTRIBUTION)
