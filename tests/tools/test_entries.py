"""The reader's columns: checked at once, they are what each value would be alone."""

import json
from dataclasses import astuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import samples
from overlapbench.output import ResultError
from overlapbench.reading import entries
from overlapbench.reading.counters import Counter, stored_table
from overlapbench.reading.entries import Entries, read_entries
from overlapbench.reading.rows import State
from samples import Json

_FIGURES = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2, 1e-200, 1e200, True, None, "x", float("nan")])
_FIELDS = {
    "run_type": st.sampled_from(["iteration", "aggregate", "other", 1, ""]),
    "time_unit": st.sampled_from(["ns", "s", "h", None]),
    "repetition_index": st.sampled_from([0, 1, 0.5, "x"]),
    "error_occurred": st.booleans(),
    "run_name": st.sampled_from(["Compute/Gemm/n:1", "Overlap/A+B/n:1", "x", "", 7]),
    "state": st.sampled_from(["ok", "serialized", "invalid", "error", "odd", 1]),
    "reason": st.sampled_from(["", "why", None, 1]),
} | dict.fromkeys(("real_time", *stored_table().keys), _FIGURES)


@st.composite
def rows(draw: st.DrawFn) -> list[Json]:
    """Rows of two layouts that are good, but for some fields of some rows."""
    interval = draw(st.sampled_from([{}, {"time_low_ms": 0.5, "time_high_ms": 1.5}]))
    made = [
        samples.overlap(f"A+B/n:{n}", efficiency=0.5) | interval
        if n % 2
        else samples.row(f"Comm/AllReduce/bytes:{n}", busbw_GBps=2.0)
        for n in range(draw(st.integers(1, 6)))
    ]
    for place in draw(st.lists(st.integers(0, len(made) - 1), max_size=2)):
        field = draw(st.sampled_from(sorted(_FIELDS)))
        made[place][field] = draw(_FIELDS[field])
    return made


def read(text: str) -> Entries | str:
    try:
        return read_entries("run.json", text)
    except ResultError as error:
        return str(error)


@given(rows())
@settings(max_examples=300, deadline=None)
def test_columns_are_what_their_values_are(made: list[Json]) -> None:
    text = json.dumps(samples.document(made))
    found = read(text)
    # Nothing is surely fine: so each value is looked at.
    with (
        mock.patch.object(entries, "LARGEST", -1.0),
        mock.patch.object(Counter, "surely_fine", return_value=(1.0, -1.0)),
    ):
        expected = read(text)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        return
    # As tuples: a NaN equals itself in these alone, from Python 3.13 on.
    assert [*map(astuple, found.rows)] == [*map(astuple, expected.rows)]


def test_a_whole_run_is_read_in_columns() -> None:
    text = json.dumps(samples.document(samples.full_run()))
    with mock.patch.object(entries, "_number", wraps=entries._number) as one_by_one:
        found = read_entries("run.json", text)
    assert {call.args[1] for call in one_by_one.call_args_list} == {"valid"}  # of the invalid row
    assert all(bool(row.figures) is (row.state is not State.ERROR) for row in found.rows)


def test_each_value_of_a_mixed_column_is_its_rows() -> None:
    """Reasons, units and states differ between rows of the same keys."""
    made = [
        samples.row(f"Compute/Gemm/n:{n}", time_unit=unit) | {"state": state, "reason": reason}
        for n, (unit, state, reason) in enumerate(
            [("ms", "ok", ""), ("us", "ok", "x"), ("ms", "noisy", "y"), ("s", "ok", "")]
        )
    ]
    found = read_entries("run.json", json.dumps(samples.document(made)))
    assert [row.unit for row in found.rows] == ["ms", "us", "ms", "s"]
    assert [row.reason for row in found.rows] == ["", "x", "y", ""]
    assert [row.state.value for row in found.rows] == ["ok", "ok", "noisy", "ok"]
    assert found.column("time") == pytest.approx([1.0, 1e-3, 1.0, 1e3])


def test_a_reversed_interval_of_the_time_is_refused() -> None:
    bounds = {"time_low_ms": 1.5, "time_high_ms": 0.5}
    document = samples.document([samples.row("Compute/Gemm/n:1") | bounds])
    assert read(json.dumps(document)) == (
        "run.json: benchmarks[0].time_low_ms: 1.5 is above time_high_ms: 0.5"
    )
