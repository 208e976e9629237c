"""The table of charts, and how an entry becomes pictures.

A new chart is one entry of CHARTS: its name (also of its files), its title, how to read it, the
rows it needs in words, the function that selects them, and the function that draws them with
Altair. Titles and notes are added here, alike for all; colours come from the theme.

Figures of rows that are not `trusted` are grey and hollow in every chart, and are never part of a
line, of a knee or of a worst value.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

from overlapbench import theme
from overlapbench.charts.attribution import (
    LEAST_SLOWDOWN,
    draw_attributions,
    select_attributions,
)
from overlapbench.charts.bandwidth import draw_bandwidth, select_bandwidths
from overlapbench.charts.bubbles import draw_bubbles, select_bubbles
from overlapbench.charts.buckets import draw_buckets, select_buckets
from overlapbench.charts.compute_transfer import draw_compute_transfers, select_compute_transfers
from overlapbench.charts.copy_bandwidth import draw_copies, select_copies
from overlapbench.charts.copy_share import draw_copy_shares, select_copy_shares
from overlapbench.charts.fragments import draw_fragments, select_fragments
from overlapbench.charts.launch import draw_launches, select_launches
from overlapbench.charts.link import KNEE_SHARE, draw_links, select_links
from overlapbench.charts.matrix import draw_matrix, select_matrix
from overlapbench.charts.mlp import draw_mlp, select_mlp
from overlapbench.charts.pairs import draw_pairs, select_pairs
from overlapbench.charts.partition import draw_partitions, select_partitions
from overlapbench.charts.pipeline import draw_pipelines, select_pipelines
from overlapbench.charts.plot import specification
from overlapbench.charts.priority import draw_priorities, select_priorities
from overlapbench.charts.slowdown import draw_slowdown
from overlapbench.charts.steps import draw_steps, select_steps
from overlapbench.charts.supply import draw_supplies, select_supplies
from overlapbench.charts.sweep import select_sweeps
from overlapbench.charts.times import draw_times
from overlapbench.charts.tokens import draw_tokens, select_tokens
from overlapbench.result import Result, Row
from overlapbench.series import KNEE_MEANING, SEPARATOR, describe, shared_axes

VEGA_LITE_VERSION = "6.4"  # what the pinned Altair writes
_SUBTITLE_LETTERS = 135  # that fit into a picture's width


@dataclass(frozen=True)
class ChartKind:
    """One entry of the table."""

    name: str
    title: str
    reading: str
    needs: str
    select: Callable[[Sequence[Row]], list[Row]]
    draw: Callable[[Sequence[Row]], theme.Drawing]
    wide: bool = False  # cannot be drawn narrower on a narrow screen


CHARTS = (
    ChartKind(
        name="slowdown",
        title="Slowdown against grid",
        reading=f"The ring marks the knee: {KNEE_MEANING}.",
        needs="Overlap rows at two grids or more",
        select=select_sweeps,
        draw=draw_slowdown,
    ),
    ChartKind(
        name="times",
        title="Times against grid",
        reading="T would lie on the higher of C and M if the overlap were perfect.",
        needs="Overlap rows at two grids or more",
        select=select_sweeps,
        draw=draw_times,
    ),
    ChartKind(
        name="pairs",
        title="Slowdown of pairs",
        reading="Of a pair measured at several grids, the worst stands in the cell, with its grid.",
        needs="Overlap rows",
        select=select_pairs,
        draw=draw_pairs,
        wide=True,
    ),
    ChartKind(
        name="bandwidth",
        title="Bus bandwidth against size",
        reading="Each communication alone, in the definition of nccl-tests.",
        needs="Comm rows with bytes and busbw_GBps",
        select=select_bandwidths,
        draw=draw_bandwidth,
    ),
    ChartKind(
        name="copy_bandwidth",
        title="Copy bandwidth against size",
        reading="Both axes are logarithmic. With both directions busy, the bus carries the sum of"
        " the two panels.",
        needs="Copy/Bandwidth rows",
        select=select_copies,
        draw=draw_copies,
    ),
    ChartKind(
        name="pipeline",
        title="Speedup of pipelines against streams",
        reading="Dashed is the ideal that the stages' own times allow; at a point stands the"
        " percentage of it that was reached.",
        needs="Copy/Pipelined rows",
        select=select_pipelines,
        draw=draw_pipelines,
    ),
    ChartKind(
        name="compute_transfer",
        title="Transfers beside a computation, against buffers",
        reading="Dashed is the same work in turn on one stream. The streams are tied by events, or"
        " by a host that waits.",
        needs="Copy/ComputeTransfer rows",
        select=select_compute_transfers,
        draw=draw_compute_transfers,
    ),
    ChartKind(
        name="fragments",
        title="One transfer cut into fragments",
        reading="Dashed is the same data in one transfer. Both axes are logarithmic.",
        needs="Copy/Fragmented rows",
        select=select_fragments,
        draw=draw_fragments,
    ),
    ChartKind(
        name="priority",
        title="Latency under a load, with and without priority",
        reading="gain is the second bar / the third: how much faster the work ends that matters.",
        needs="Priority rows",
        select=select_priorities,
        draw=draw_priorities,
    ),
    ChartKind(
        name="supply",
        title="Supply of batches against workers",
        reading="Dashed, or a stroke, is what making and consuming alone predict.",
        needs="Supply/Batches rows",
        select=select_supplies,
        draw=draw_supplies,
    ),
    ChartKind(
        name="launch",
        title="What launching kernels costs",
        reading="The axes are logarithmic. A round trip ends when the host knows that the kernel is"
        " done.",
        needs="Launch rows",
        select=select_launches,
        draw=draw_launches,
    ),
    ChartKind(
        name="copy_share",
        title="Share of a copy's bandwidth",
        reading="100 % is a copy of as many bytes as the kernel must move, in the same run.",
        needs="Gelu or Softmax rows",
        select=select_copy_shares,
        draw=draw_copy_shares,
    ),
    ChartKind(
        name="mlp",
        title="Training a network",
        reading="Lines are fitted by least squares: their slope is what one more costs.",
        needs="Mlp rows at three steps or three layers",
        select=select_mlp,
        draw=draw_mlp,
    ),
    ChartKind(
        name="bubbles",
        title="Bubbles of pipelines against micro-batches",
        reading="Dashed is the published formula, in which transfers take no time.",
        needs="Pp rows",
        select=select_bubbles,
        draw=draw_bubbles,
    ),
    ChartKind(
        name="tokens",
        title="Tensor-parallel layers against tokens",
        reading="Of several numbers of chunks the fastest is drawn; beside a point stand the"
        " chunks and the speedup over the plain form, which is dashed. Dotted is the bound. The"
        " axes are logarithmic.",
        needs="Tp rows",
        select=select_tokens,
        draw=draw_tokens,
    ),
    ChartKind(
        name="buckets",
        title="Exposed communication against the size of buckets",
        reading="What a data-parallel step takes longer than its computation alone. Dashed is what"
        " its parts, each measured alone, predict.",
        needs="Ddp/Buckets rows",
        select=select_buckets,
        draw=draw_buckets,
    ),
    ChartKind(
        name="steps",
        title="What training steps expose, and why",
        reading="100 % is the step's computation alone. The tick is where the plain form ends, in"
        " which nothing overlaps.",
        needs="rows of training steps",
        select=select_steps,
        draw=draw_steps,
        wide=True,
    ),
    ChartKind(
        name="link",
        title="Link bandwidth against SMs",
        reading=f"The ring marks the knee: the fewest SMs that reach {KNEE_SHARE:.0%} of the"
        " plateau, the highest point. Dashed is what takes no SMs.",
        needs="Lab/Link rows that take SMs",
        select=select_links,
        draw=draw_links,
    ),
    ChartKind(
        name="partition",
        title="Sharing the SMs between two sides",
        reading="In a cell stand T, and below it the slowdowns of the computation | of the"
        " communication. The frame marks the best T of a panel.",
        needs="Lab/Partition rows",
        select=select_partitions,
        draw=draw_partitions,
        wide=True,
    ),
    ChartKind(
        name="matrix",
        title="Who takes from whom",
        reading="Upper half of a cell: slowdown of the computation. Lower half: of the"
        " communication.",
        needs="Lab/Matrix rows",
        select=select_matrix,
        draw=draw_matrix,
        wide=True,
    ),
    ChartKind(
        name="attribution",
        title="Where a slowdown comes from",
        reading="The tick is the measured slowdown - 1. Where the stand-ins take more than the"
        " communication does, the bar passes it, and a negative rest stands left of zero. Up to a"
        f" slowdown of {LEAST_SLOWDOWN:g} there is nothing to explain.",
        needs="Lab/Attribution rows",
        select=select_attributions,
        draw=draw_attributions,
        wide=True,
    ),
)


@dataclass(frozen=True)
class Chart:
    """A drawn entry; `spec` is Vega-Lite with its data, and without a theme."""

    kind: ChartKind
    name: str  # unlike that of any other chart drawn with it
    rows: Sequence[Row]  # that it shows
    notes: Sequence[str]  # whose figures these are, and how to read them
    spec: dict[str, Any]

    @property
    def title(self) -> str:
        return self.kind.title

    @property
    def wide(self) -> bool:
        return self.kind.wide

    def untitled(self) -> dict[str, Any]:
        """Return the specification for a page that writes title and notes itself."""
        return {key: value for key, value in self.spec.items() if key != "title"}

    def pictures(self) -> dict[str, bytes]:
        """Render the files `NAME.png` and `NAME.svg`."""
        return pictures(self.name, self.spec)


def pictures(name: str, spec: dict[str, Any]) -> dict[str, bytes]:
    """Render Vega-Lite as the files `NAME.png` and `NAME.svg`, the one from the other."""
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE_VERSION, config=theme.LIGHT)
    png = vl_convert.svg_to_png(svg, scale=theme.SCALE)
    return {f"{name}.png": png, f"{name}.svg": svg.encode()}


def draw_charts(
    results: Sequence[Result], title: str, one_family_each: bool = False
) -> list[Chart]:
    """Draw every chart for which the results hold rows, in the order of the table.

    One that shows several families is drawn for each of them, where that is asked for. Peers, whose
    names have an axis `peer`, go with the family that they are compared with.
    """
    rows = [row for result in results for row in result.rows]
    charts = []
    for kind in CHARTS:
        selected = kind.select(rows)
        own = [row for row in selected if row.name.axis("peer") is None]
        families = list(dict.fromkeys(row.name.family for row in own))
        if len(families) > 1 and one_family_each:
            parts = {
                f"{kind.name}-{family.replace('/', '-')}": [
                    row for row in selected if row not in own or row.name.family == family
                ]
                for family in families
            }
        else:
            parts = {kind.name: selected} if selected else {}
        for name, part in parts.items():
            notes = _notes(kind, part, results)
            heading = _title(kind, [title, *notes])
            charts.append(Chart(kind, name, part, notes, _specification(kind, part, heading)))
    return charts


def _specification(
    kind: ChartKind, rows: Sequence[Row], heading: alt.TitleParams
) -> dict[str, Any]:
    return specification(lambda: kind.draw(rows).properties(title=heading))


def _title(kind: ChartKind, lines: Sequence[str]) -> alt.TitleParams:
    subtitle = [part for line in lines for part in textwrap.wrap(line, _SUBTITLE_LETTERS)]
    return alt.TitleParams(kind.title, subtitle=subtitle)


def _notes(kind: ChartKind, rows: Sequence[Row], results: Sequence[Result]) -> list[str]:
    """Say whose figures these are, what all have in common, how to read them, and what is bad."""
    drawn_from = {row.file for row in rows}
    files = [_origin(result) for result in results if result.label in drawn_from]
    common = SEPARATOR.join(describe(axis, value) for axis, value in shared_axes(rows).items())
    return [*filter(None, [*files, common, kind.reading, _warning(rows)])]


def _origin(result: Result) -> str:
    ranks = result.context.get("ranks")
    if not ranks:
        return result.label
    return f"{result.label}{SEPARATOR}{ranks} {'rank' if ranks == '1' else 'ranks'}"


def _warning(rows: Sequence[Row]) -> str:
    states = Counter(row.state.value for row in rows if row.bad)
    bad = ", ".join(f"{count} {state}" for state, count in states.items())
    controls = sum(row.passed_control and not row.trusted for row in rows)
    what = "grey, and no part of a line, a knee or a worst value"
    parts = [f"Not to be trusted: {bad} of {len(rows)} rows: {what}."] if bad else []
    parts += [f"Negative controls passed: {controls}; also grey."] if controls else []
    return " ".join(parts)
