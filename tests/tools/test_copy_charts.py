"""The charts of copies: bandwidth and pipelines."""

from collections.abc import Sequence

import samples
from samples import Json
from test_chart import axis, draw, records, texts


def panels_of_copies(rows: Sequence[Json]) -> dict[str, list[Json]]:
    panels: dict[str, list[Json]] = {}
    for record in records(draw(samples.document(rows))["copy_bandwidth"], "size_bytes"):
        panels.setdefault(record["panel"], []).append(record)
    return panels


def test_copy_bandwidth_holds_the_figures_of_the_rows() -> None:
    rows = samples.copies()
    counters = {
        "host to device": ("host_to_device", "GBps"),
        "device to host": ("device_to_host", "GBps"),
        "host to device, both directions busy": ("both", "host_to_device_GBps"),
        "device to host, both directions busy": ("both", "device_to_host_GBps"),
        "within the device (read + written)": ("device_local", "GBps"),
    }
    panels = panels_of_copies(rows)
    assert list(panels) == list(counters)
    for title, (direction, counter) in counters.items():
        drawn = {r["name"]: (r["size_bytes"], r["GBps"]) for r in panels[title]}
        assert drawn == {
            row["name"]: (int(axis(row["name"], "bytes")), row[counter])
            for row in rows
            if axis(row["name"], "direction") == direction
        }, title


def test_copies_are_distinguished_by_memory_and_engine_including_defaults() -> None:
    panels = panels_of_copies(samples.copies())
    assert {record["series"] for record in panels["host to device"]} == {
        "pinned · engine copy",
        "pageable · engine copy",
    }
    within = panels["within the device (read + written)"]
    assert {record["series"] for record in within} == {"engine copy", "engine sm"}


def test_the_highest_rate_in_a_title_is_a_trusted_one() -> None:
    name = "Copy/Bandwidth/direction:host_to_device/bytes:{}/cache:cold"
    rows = [
        samples.row(name.format(1024), GBps=12.34),
        samples.row(name.format(2048), GBps=99.0, valid=0.0),
    ]
    assert "host to device · at most 12.3 GB/s" in panel_titles(rows, "copy_bandwidth")
    only_bad = [row | {"valid": 0.0} for row in rows]
    assert panel_titles(only_bad, "copy_bandwidth") == ["host to device"]


def test_routes_stand_in_one_order_whatever_that_of_the_rows_is() -> None:
    rows = samples.copies()
    assert list(panels_of_copies(rows[::-1])) == list(panels_of_copies(rows))
    assert panel_titles(rows[::-1], "copy_bandwidth") == panel_titles(rows, "copy_bandwidth")


def test_the_routes_of_the_bus_have_one_scale_and_those_of_devices_another() -> None:
    panels = draw(samples.document(samples.copies()))["copy_bandwidth"].spec["concat"]
    ends = [panel["layer"][0]["encoding"]["y"]["scale"]["domain"] for panel in panels]
    *bus, device = ends
    assert all(domain == bus[0] for domain in bus)
    assert device != bus[0]


def test_a_size_of_zero_has_no_place_on_a_logarithmic_axis() -> None:
    rows = samples.copies()
    nothing = rows[0] | {"name": rows[0]["name"].replace(axis(rows[0]["name"], "bytes"), "0")}
    nothing["run_name"] = nothing["name"]
    chart = draw(samples.document([*rows, nothing]))["copy_bandwidth"]
    assert {str(row.name) for row in chart.rows} == {row["name"] for row in rows}


def panel_titles(rows: Sequence[Json], name: str) -> list[str]:
    panels = draw(samples.document(rows))[name].spec["concat"]
    return [" ".join(panel["title"]["text"]) for panel in panels]


def test_a_pipeline_stands_beside_its_bound() -> None:
    rows = samples.pipelines()
    drawn = {
        r["name"]: (r["streams"], r["speedup"], r["bound_speedup"], r["share"])
        for r in records(draw(samples.document(rows))["pipeline"], "bound_speedup")
    }
    assert drawn == {
        row["name"]: (
            int(axis(row["name"], "pipeline_streams")),
            row["speedup"],
            row["sequential_ms"] / row["bound_ms"],
            f"{row['pct_of_bound']:.0f} %",
        )
        for row in rows
    }
    assert panel_titles(rows, "pipeline") == ["intensity 16", "intensity 2048"]


def test_the_share_of_the_bound_is_in_the_tooltip_and_of_one_file_at_the_point() -> None:
    one, again = samples.document(samples.pipelines()), samples.document(samples.pipelines())
    alone, both = draw(one)["pipeline"].spec, draw(one, again)["pipeline"].spec
    for spec in (alone, both):
        assert "pct_of_bound" in texts(spec, "field")
    assert "share" in texts(alone, "field")
    assert "share" not in texts(both, "field")
