"""The chart of all families without their own: which rows it takes, and the figures it holds."""

from collections.abc import Iterator

import samples
from overlapbench.view import theme
from samples import Json
from test_chart import axis, draw, records


def families(rows: list[Json]) -> list[Json]:
    """Return the records of all panels, with the panel's title and the figure that it shows."""
    spec = draw(samples.document(rows))["families"].spec
    return [
        record
        | {"panel": " ".join(panel["title"]["text"])}
        | {"figure": record[panel["layer"][-1]["encoding"]["y"]["field"]]}
        for panel in spec.get("concat", [spec])
        for record in panel["data"]["values"]
    ]


def test_the_figure_stands_against_what_varies_most_beside_its_prediction() -> None:
    rows = samples.supplies()
    figures = ("batches_per_s", "predicted_batches_per_s")
    drawn = families(rows)
    assert {r["name"]: (r["size"], r["figure"], r["expected"]) for r in drawn} == {
        row["name"]: (int(axis(row["name"], "workers")), *(row[key] for key in figures))
        for row in rows
    }
    assert {record["series"] for record in drawn} == {"prefetch 2", "prefetch 8"}
    assert {record["panel"] for record in drawn} == {
        "Supply/Batches: batches_per_s against workers"
    }


def test_each_kind_has_a_panel_and_curves_of_its_own() -> None:
    drawn = families([*samples.copy_shares(), *samples.fragments()])
    kinds = {record["panel"].partition(":")[0] for record in drawn}
    assert kinds == {"Gelu/Fused", "Softmax/Fused", "Softmax/Unfused", "Copy/Fragmented"}
    series = {r["series"] for r in drawn if r["panel"].startswith("Copy/Fragmented")}
    assert series == {"loop", "batch"}
    assert {r["figure"] for r in drawn if r["panel"].startswith("Gelu")} == {
        row["pct_of_copy"] for row in samples.copy_shares() if row["name"].startswith("Gelu")
    }


def test_a_new_family_is_drawn_if_its_names_have_a_number() -> None:
    document = samples.document(
        [samples.row(f"Mine/Work/n:{n}/m:8", TFLOPs=float(n)) for n in (2, 4)]
    )
    document["families"].append({"name": "Mine", "about": "", "lead": ["time", "TFLOPs"]})
    drawn = records(draw(document)["families"], "size")
    assert [(record["size"], record["TFLOPs"]) for record in drawn] == [(2, 2.0), (4, 4.0)]
    assert draw(samples.document([samples.row("Compute/Gemm/form:a", TFLOPs=2.0)])) == {}


def test_pipelines_stand_beside_the_formula_and_sizes_without_a_place_are_left_out() -> None:
    rows = samples.bubbles()
    assert {r["name"]: (r["figure"], r["expected"]) for r in families(rows)} == {
        row["name"]: (row["bubble_share"], row["formula_bubble_share"]) for row in rows
    }
    odd = samples.row("Copy/Bandwidth/direction:peer/bytes:all/cache:cold", GBps=1.0)
    drawn = {record["name"] for record in families([*samples.copies(), odd])}
    assert drawn == {row["name"] for row in samples.copies()}


def test_transports_are_curves_of_a_collective() -> None:
    rows = samples.bandwidths()
    made = samples.row("Comm/AllReduce/bytes:1048576/transport:copy/cache:cold", busbw_GBps=20.0)
    drawn = families([*rows, made])
    panels = {record["panel"] for record in drawn}
    assert "Comm/AllReduce: busbw_GBps against bytes" in panels
    assert {r["series"] for r in drawn if "AllReduce" in r["panel"]} == {
        "nccl",
        "copy",
    }
    assert {r["name"]: (r["size"], r["figure"]) for r in families(rows)} == {
        row["name"]: (int(axis(row["name"], "bytes")), row["busbw_GBps"]) for row in rows
    }


def test_a_transport_has_one_colour_and_mark_in_all_panels_and_charts() -> None:
    names = [
        f"Comm/{what}/bytes:{size}" for what in ("AllGather", "SendRecv") for size in (64, 128)
    ]
    rows = [
        samples.row(f"{name}{way and f'/transport:{way}'}/cache:cold", busbw_GBps=20.0)
        for name in names
        for way in ("", "copy", *(["nccl_ce"] if "AllGather" in name else []))
    ]
    rows += [*samples.links(), *samples.layers()]
    scales = [
        scale
        for chart in draw(samples.document(rows)).values()
        for scale in scales_of(chart.spec, ("color", "shape"))
    ]
    for transport, (colour, mark) in theme.TRANSPORTS.items():
        found = {
            style
            for scale in scales
            for curve, style in zip(scale["domain"], scale["range"], strict=True)
            if curve.partition(":")[0].partition(" ")[0] == transport
        }
        assert found <= {colour, mark}, transport
    assert theme.TRANSPORTS["copy"][0] in str(scales)
    assert len(set(theme.TRANSPORTS.values())) == len(dict(theme.TRANSPORTS.values())) == 7


def test_a_file_without_another_transport_has_the_colours_of_nccl() -> None:
    names = [f"Comm/AllGather/bytes:{size}/cache:cold" for size in (64, 128)]
    copies = [name.replace("/cache", "/transport:copy/cache") for name in names]
    plain, chosen = (
        samples.document([samples.row(name, busbw_GBps=20.0) for name in given], backend=backend)
        for given, backend in ((names, "cuda"), ([*names, *copies], "cuda"))
    )
    host = samples.document(
        [samples.row(name, busbw_GBps=20.0) for name in names], backend="host", device=""
    )
    (scale, *_), (shape, *_) = (
        [*scales_of(draw(plain, chosen, host)["families"].spec, (channel,))]
        for channel in ("color", "shape")
    )
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    file = "(cuda, NVIDIA H200)"
    assert {name: colour for name, colour in colours.items() if "nccl" in name} == {
        f"nccl · run{number} {file}": theme.TRANSPORTS["nccl"][0] for number in (0, 1)
    }
    assert colours["run2 (backend: host)"] not in {theme.BLUE, theme.VERMILION}
    assert len({*zip(scale["range"], shape["range"], strict=True)}) == 4


def test_curves_of_one_transport_differ_in_shape() -> None:
    style = theme.curve_style({f"curve {n}": "nccl" for n in range(7)} | {"other": "copy"})
    assert {*style["color"]["scale"]["range"]} == {theme.BLUE, theme.VERMILION}
    assert len({*style["shape"]["scale"]["range"][:-1]}) == 7


def test_a_latency_that_leads_a_family_is_shown() -> None:
    rows = [
        samples.row(f"Decode/Layer/tokens:{n}", layer_us=90.0 + n, graph_gain=2.0) for n in (1, 16)
    ]
    assert [record["figure"] for record in families(rows)] == [91.0, 106.0]
    launches = {record["figure"] for record in families(samples.launches())}
    assert launches.isdisjoint(row.get("host_us_per_launch") for row in samples.launches())


def scales_of(node: object, channels: tuple[str, ...]) -> Iterator[Json]:
    """Yield the scales of some channels in a specification that name their styles."""
    if isinstance(node, list):
        for child in node:
            yield from scales_of(child, channels)
    elif isinstance(node, dict):
        for key, child in node.items():
            if key in channels and isinstance(child, dict) and "domain" in child.get("scale", {}):
                yield child["scale"]
            else:
                yield from scales_of(child, channels)


def test_rows_with_charts_of_their_own_are_left_out() -> None:
    own = [*samples.layers(), *samples.links(), *samples.matrix(), *samples.priorities()]
    assert "families" not in draw(samples.document([*own, *samples.sweep()]))
