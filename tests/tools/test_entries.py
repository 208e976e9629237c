"""Rows read block by block are what they are one by one: the same figures, the same refusals."""

import json
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import samples
from overlapbench.reading import entries
from overlapbench.reading.columns import split_blocks
from overlapbench.reading.counters import stored_table
from overlapbench.reading.entries import Entries, Names, read_entries
from overlapbench.reading.result import read_contract
from overlapbench.reading.source import Document, ResultError
from samples import Json

_FIGURES = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2, 1e-200, 1e200, True, None, "x", float("nan")])
_FIELDS = {
    "run_type": st.sampled_from(["iteration", "aggregate", "other", 1]),
    "time_unit": st.sampled_from(["ns", "s", "h", None]),
    "repetition_index": st.sampled_from([0, 1, 0.5, "x"]),
    "error_occurred": st.booleans(),
    "run_name": st.sampled_from(["Compute/Gemm/n:1", "Overlap/A+B/n:1", "x", "", 7]),
    "label": st.text(max_size=3),
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
        document = Document.parse("run.json", text)
        return read_entries(document, read_contract(document), Names())
    except ResultError as error:
        return str(error)


@given(rows(), st.sampled_from(["", "1", "2"]))
@settings(max_examples=300, deadline=None)
def test_blocks_are_read_as_their_rows_are(made: list[Json], schema: str) -> None:
    document = samples.document(made)
    if schema == "2":
        document = samples.stated(document)
    elif not schema:
        del document["context"]["overlapbench_schema"]
    text = json.dumps(document)
    found = read(text)
    with mock.patch.object(entries._Reader, "_read_block", return_value=False):
        expected = read(text)
    if isinstance(found, str) or isinstance(expected, str):
        assert isinstance(found, str)
        assert isinstance(expected, str)
    else:
        np.testing.assert_array_equal(found.values, expected.values)
        for column in ("names", "numbers", "units", "problems"):
            assert getattr(found, column) == getattr(expected, column)


@pytest.mark.parametrize("form", [dict, samples.stated])
def test_a_whole_run_is_read_in_blocks(form: Callable[[Json], Json]) -> None:
    text = json.dumps(form(samples.document(samples.full_run())))
    document = Document.parse("run.json", text)
    blocks = split_blocks(document.entries)
    assert sorted(place for block in blocks for place in block.places) == list(
        range(len(document.entries))
    )
    with mock.patch.object(entries._Reader, "_read_entry") as one_by_one:
        read_entries(document, read_contract(document), Names())
    assert one_by_one.call_count == 2  # the row that failed, and the invalid one


def test_an_invalid_row_is_not_good() -> None:
    made = [samples.row(f"Compute/Gemm/n:{n}", valid=float(n != 1), label="bad") for n in range(3)]
    document = Document.parse("run.json", json.dumps(samples.document(made)))
    found = read_entries(document, read_contract(document), Names())
    assert found.problems == ["", "invalid: bad", ""]


def test_a_reversed_interval_of_the_time_is_refused() -> None:
    bounds = {"time_low_ms": 1.5, "time_high_ms": 0.5}
    document = samples.stated(samples.document([samples.row("Compute/Gemm/n:1") | bounds]))
    assert read(json.dumps(document)) == (
        "run.json: benchmarks[0].time_low_ms: 1.5 is above time_high_ms: 0.5 (line 1)"
    )
