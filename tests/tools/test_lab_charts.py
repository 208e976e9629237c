"""The charts of the laboratory: every figure is a row's, and what they mark is marked rightly."""

from collections.abc import Sequence

import pytest

import samples
import test_chart
from overlapbench.view.vega import Drawing
from samples import Json
from test_chart import records


def draw(name: str, *documents: Json) -> Drawing:
    return test_chart.draw(*documents)[name]


def drawn(name: str, rows: Sequence[Json], with_key: str) -> list[Json]:
    """Return the distinct records of a chart that have a key."""
    return records(draw(name, samples.document(rows)), with_key)


def panel_titles(chart: Drawing) -> list[str]:
    return [" ".join(panel["title"]["text"]) for panel in chart.spec["concat"]]


def bad(row: Json, reason: str = "throttled") -> Json:
    return row | {"valid": 0.0, "label": f"invalid: {reason}"}


# ---- link


def link(sms: int, rate: float, transport: str = "sm_load", way: str = "Broadcast") -> Json:
    name = f"Lab/Link/{way}/bytes:268435456/transport:{transport}"
    axis = f"/comm_sms:{sms}" if sms else ""
    return samples.row(f"{name}{axis}/cache:cold", GBps=rate, comm_sms=float(sms))


def test_a_link_has_a_panel_a_way_and_a_curve_a_transport() -> None:
    rows = samples.links()
    chart = draw("link", samples.document(rows))
    assert panel_titles(chart) == [
        "Broadcast",
        "SendRecv",
        "AllGather",
    ]
    points = records(chart, "sms")
    assert {(r["name"], r["sms"], r["GBps"]) for r in points} == {
        (row["name"], row["comm_sms"], row["GBps"]) for row in rows
    }
    curves = {r["series"] for r in points if r["panel"] == "AllGather" and r["sms"]}
    assert {curve.partition(":")[0] for curve in curves} == {"nccl", "nccl_sym"}


def test_the_ring_is_at_the_fewest_sms_that_reach_95_percent() -> None:
    rates = {1: 48.0, 2: 96.0, 4: 191.0, 8: 355.0, 16: 374.0, 32: 370.0}
    rows = [link(sms, rate) for sms, rate in rates.items()]
    (knee,) = drawn("link", rows, "ring")
    assert knee["series"] == "sm_load: knee at 16, plateau 374 GB/s"
    rows[3] |= {"GBps": 355.4}
    (knee,) = drawn("link", rows, "ring")
    assert (knee["sms"], knee["GBps"]) == (8, 355.4)
    assert knee["series"] == "sm_load: knee at 8, plateau 374 GB/s"


def test_a_point_not_to_be_trusted_is_no_knee_and_no_plateau() -> None:
    rows = [link(1, 48.0), bad(link(4, 500.0)), link(8, 356.0), link(16, 374.0)]
    (knee,) = drawn("link", rows, "ring")
    assert knee["series"] == "sm_load: knee at 8, plateau 374 GB/s"
    assert drawn("link", [link(8, 356.0), bad(link(16, 374.0))], "ring") == []


def test_a_transport_without_sms_is_a_point_at_0() -> None:
    rows = [link(1, 48.0), link(8, 370.0), link(0, 368.0, "copy")]
    (copy,) = [r for r in drawn("link", rows, "sms") if r["sms"] == 0]
    assert (copy["series"], copy["GBps"], "ring" in copy) == ("copy", 368.0, False)


def test_sms_are_those_that_were_seen_or_else_those_of_the_name() -> None:
    seen = link(8, 370.0) | {"comm_sms": 7.0}
    unseen = link(4, 191.0)
    del unseen["comm_sms"]
    assert {r["sms"] for r in drawn("link", [seen, unseen], "sms")} == {4, 7}


# ---- partition


def test_a_partition_has_its_times_and_losses_in_cells() -> None:
    rows = samples.partitions()
    chart = draw("partition", samples.document(rows))
    assert panel_titles(chart) == [
        f"{side} first · AllGather+CublasGemm" for side in ("computation", "communication")
    ]
    cells = {r["name"]: r for r in records(chart, "down")}
    assert {name: cell["overlap_ms"] for name, cell in cells.items()} == {
        row["name"]: row["overlap_ms"] for row in rows
    }
    limited = cells[
        next(name for name in cells if "comm_ctas:16" in name and "comp_sms:120" in name)
    ]
    assert (limited["down"], limited["across"]) == ("nccl 16 CTAs", "120")
    assert (limited["line0"], limited["line1"]) == ("2.02 ms", "1.02 | 1.16")
    assert {r["down"] for r in cells.values()} == {
        *("nccl", "nccl 8 CTAs", "nccl 16 CTAs", "copy"),
        *("sm_bulk 4 SMs", "sm_bulk 8 SMs", "sm_bulk 16 SMs"),
    }
    panel = chart.spec["concat"][0]
    first = panel["layer"][0]["encoding"]
    assert first["x"]["scale"]["domain"] == ["112", "120", "128", "all"]
    assert first["y"]["scale"]["domain"][:3] == ["nccl", "nccl 8 CTAs", "nccl 16 CTAs"]


def test_cells_are_compared_with_the_best_trusted_one_of_their_panel() -> None:
    rows = samples.partitions()
    best = min((row for row in rows if "first:comm" in row["name"]), key=lambda r: r["overlap_ms"])
    marked = [r["name"] for r in drawn("partition", rows, "down") if r["loss"] == 1]
    assert best["name"] in marked
    assert len(marked) == 2
    cells = drawn("partition", [bad(row) if row is best else row for row in rows], "down")
    for cell in cells:
        times = [r["overlap_ms"] for r in cells if r["panel"] == cell["panel"] and r["trusted"]]
        if cell["trusted"]:
            assert cell["loss"] == cell["overlap_ms"] / min(times)
    assert [r["line0"] for r in cells if not r["trusted"]] == ["invalid"]


def test_partitions_of_other_sizes_and_files_have_panels_of_their_own() -> None:
    rows = samples.partitions()
    other = [
        row | {"name": name, "run_name": name}
        for row in rows
        for name in [row["name"].replace("n:8192", "n:4096")]
    ]
    assert panel_titles(draw("partition", samples.document(rows + other))) == [
        f"{side} first · AllGather+CublasGemm · n {n}"
        for n in (8192, 4096)
        for side in ("computation", "communication")
    ]
    again = draw("partition", samples.document(rows[:3]), samples.document(rows[:3]))
    assert panel_titles(again) == [
        f"computation first · AllGather+CublasGemm · run{index} (cuda, NVIDIA H200)"
        for index in (0, 1)
    ]


# A name leaves out the side that starts first by default: the computation's on GPUs.
def test_the_side_that_a_name_leaves_out_is_told() -> None:
    def titles(given: str, left_out: str) -> set[str]:
        rows = [
            row | {"name": name, "run_name": name}
            for row in samples.partitions()
            for name in [row["name"].replace(f"/first:{left_out}", "")]
            if given in name or "first:" not in name
        ]
        titles = panel_titles(draw("partition", samples.document(rows)))
        return {title.partition(" · ")[0] for title in titles}

    assert titles("first:comm", left_out="comp") == {"computation first", "communication first"}
    assert titles("nothing", left_out="comp") == {"neither side first"}


# ---- matrix


def test_the_matrix_shows_each_sides_slowdown() -> None:
    rows = samples.matrix()
    chart = draw("matrix", samples.document(rows))
    assert panel_titles(chart) == ["computation first", "communication first"]
    cells = {r["name"]: (r["loss"], r["line1"]) for r in records(chart, "loss")}
    assert cells == {
        row["name"]: (
            row["slowdown"],
            f"{row['comp_slowdown']:.2f} | {row['comm_slowdown']:.2f}",
        )
        for row in rows
    }
    labels = {(r["across"], r["down"]) for r in records(chart, "loss")}
    assert len(labels) == len(rows) / 2
    assert ("AllGather · nccl", "CublasGemm") in labels
    assert ("AllGather · sm_bulk", "Attention") in labels
    assert ("HostToDevice", "L2Kernel") in labels


def test_sizes_of_one_workload_are_told_apart() -> None:
    name = "Matrix/AllGather+CublasGemm/bytes:{}/n:{}/cache:cold"
    losses = 1.1, 1.2
    rows = [
        samples.lab_pair(name.format(size, n), (1.0, 1.0, 1.1), losses)
        for size in (1 << 20, 1 << 30)
        for n in (64, 128)
    ]
    labels = {(r["across"], r["down"]) for r in drawn("matrix", rows, "loss")}
    assert labels == {
        (f"AllGather · {size}", f"CublasGemm · n {n}")
        for size in ("1 MiB", "1 GiB")
        for n in (64, 128)
    }


def test_a_cell_without_a_figure_is_grey_and_says_why() -> None:
    rows = samples.matrix()
    failed = rows[3]["name"]
    error: Json = {"error_occurred": True, "error_message": "needs 4 GPUs"}
    rows[3] = samples.row(failed, **error)
    grey = [cell for cell in drawn("matrix", rows, "loss") if not cell["trusted"]]
    assert [(c["name"], c["line0"], c["problem"]) for c in grey] == [
        (failed, "error", "needs 4 GPUs")
    ]


def test_a_side_without_a_slowdown_of_its_own_is_unknown() -> None:
    rows = samples.matrix()
    del rows[0]["comm_slowdown"]
    (cell,) = [c for c in drawn("matrix", rows, "loss") if c["name"] == rows[0]["name"]]
    assert cell["line1"] == "1.00 | ?"


# ---- triple


def test_three_sides_show_what_each_loses_and_the_product_rule() -> None:
    rows = samples.triples()
    free = "Overlap/AllReduce+AllGather+Gemm/bytes:1048576/cache:cold"  # of --pair
    rows.append({**rows[0], "name": free, "run_name": free})
    chart = draw("triple", samples.document(rows))
    cells = {r["name"]: r for r in records(chart, "loss")}
    assert {name: cell["loss"] for name, cell in cells.items()} == {
        row["name"]: row["slowdown"] for row in rows
    }
    for row in rows:
        sides = [row[f"{side}_slowdown"] for side in ("comp", "comm", "second")]
        cell = cells[row["name"]]
        assert cell["line1"] == f"({row['product_slowdown']:.2f})"
        assert cell["line2"] == " | ".join(f"{loss:.2f}" for loss in sides)
    labels = {(cell["across"], cell["down"]) for cell in cells.values()}
    assert ("AllGather + DeviceToHost · sm_bulk", "StreamKernel") in labels
    assert len(labels) == len(rows)
    drawn_pairs = test_chart.draw(samples.document([*samples.pairs(), *rows]))["pairs"]
    assert all("AllGather" not in cell["down"] for cell in records(drawn_pairs, "down"))


# ---- attribution


def parts_of(rows: Sequence[Json]) -> dict[str, list[Json]]:
    parts: dict[str, list[Json]] = {}
    for part in drawn("attribution", rows, "part"):
        parts.setdefault(part["name"], []).append(part)
    return parts


def test_shares_are_stacked_to_the_excess() -> None:
    rows = samples.attributions()
    parts = parts_of(rows)
    for row in rows[:4]:
        mine = parts[row["name"]]
        causes = ("by_sm", "by_hbm", "by_l2", "by_clock", "residual")
        assert [part["share"] for part in mine] == [row[cause] for cause in causes]
        excess = row["slowdown"] - 1
        assert sum(part["adds"] for part in mine) == pytest.approx(excess)
        for place, part in enumerate(mine):  # Vega-Lite stacks them in this order
            assert part["adds"] == pytest.approx(part["share"] * excess)
            assert part["place"] == place


def test_the_late_start_of_a_side_is_a_part_where_it_was_measured() -> None:
    rows = samples.attributions()[:2]
    rows[0] |= {"by_lead": 0.03}
    causes = {name: [part["part"] for part in mine] for name, mine in parts_of(rows).items()}
    assert "late start" in causes[rows[0]["name"]]
    assert "late start" not in causes[rows[1]["name"]]


def test_an_axis_that_only_some_rows_write_sets_bars_apart() -> None:
    row = samples.attributions()[0]
    other = samples.row(row["name"].replace("/cache", "/streams:1/cache"))
    rows = [row, row | {key: other[key] for key in ("name", "run_name")}]
    assert len({part["bar"] for part in drawn("attribution", rows, "part")}) == 2


def test_a_pair_without_slowdown_has_no_bar_but_a_note() -> None:
    rows = samples.attributions()
    rows[0] |= {"slowdown": 1.1}
    parts = parts_of(rows)
    assert set(parts) == {row["name"] for row in rows[1:4]}
    texts = {r["name"]: r["text"] for r in drawn("attribution", rows, "text") if "part" not in r}
    assert texts[rows[0]["name"]] == "1.10: no slowdown to explain"
    assert texts[rows[4]["name"]] == "1.02: no slowdown to explain"
    assert texts[rows[1]["name"]] == "1.25"


def test_shares_not_to_be_trusted_are_not_stacked() -> None:
    rows = samples.attributions()
    rows[0] = bad(rows[0])
    assert rows[0]["name"] not in parts_of(rows)
    (bar,) = [r for r in drawn("attribution", rows, "reach") if r["name"] == rows[0]["name"]]
    assert (bar["tick"], bar["text"]) == (pytest.approx(0.73), "1.73 · invalid")


def test_pairs_are_named_by_both_sides_and_their_differing_axes() -> None:
    drawn_bars = drawn("attribution", samples.attributions()[:3], "reach")
    names = [(r["panel"], r["bar"]) for r in drawn_bars if "part" not in r]
    assert names == [
        ("CublasGemm", "AllGather · nccl · neither side first"),
        ("CublasGemm", "AllGather · sm_bulk · neither side first"),
        ("StreamKernel", "AllGather · nccl · neither side first"),
    ]


def test_intervals_of_shares_are_told() -> None:
    document = samples.with_intervals(samples.document(samples.attributions()))
    parts = records(draw("attribution", document), "part")
    assert all(part["share_low"] <= part["share"] <= part["share_high"] for part in parts)
