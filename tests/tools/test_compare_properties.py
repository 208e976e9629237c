"""Comparing, whatever the figures: identical is same, sides can be exchanged, order is nothing."""

import copy
import json
import math
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import samples
from overlapbench.judge.floors import Floors
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import Comparison, compare_sides
from overlapbench.output import ResultError
from overlapbench.reading.program_run import parse_program_run
from samples import Json

EXCHANGED = {"slower": "faster", "faster": "slower", "missing": "new", "new": "missing"}
_rates = st.floats(1e-3, 1e6)


@st.composite
def rows(draw: st.DrawFn) -> list[Json]:
    """Rows of one run, of which some lack figures or are invalid."""
    made = []
    for n in draw(st.lists(st.integers(1, 6), min_size=1, max_size=6, unique=True)):
        fields: Json = {"real_time": draw(_rates), "valid": float(draw(st.integers(0, 9)) > 0)}
        if n % 2:
            fields["busbw_GBps"] = draw(_rates)
        made.append(samples.row(f"Comm/AllReduce/bytes:{n}", **fields))
    return made


_side = st.lists(rows().map(samples.document), min_size=1, max_size=4)


def side(name: str, documents: list[Json]) -> Side:
    texts = [(f"{name}{i}.json", json.dumps(d)) for i, d in enumerate(documents)]
    return Side.collect(name, [parse_program_run(*text) for text in texts])


def comparison(base: list[Json], new: list[Json]) -> Comparison:
    return compare_sides(side("base", base), side("new", new), Floors())


def verdicts(compared: Comparison) -> dict[str, str]:
    return {row.name: row.verdict.value for row in compared.rows}


@given(_side)
@settings(max_examples=80, deadline=None)
def test_identical_sides_are_the_same(documents: list[Json]) -> None:
    compared = comparison(documents, documents)
    found = set(verdicts(compared).values())
    assert found <= {"same", "inconclusive", "invalid"}
    assert compared.status == (0 if "same" in found and "invalid" not in found else 3)


@given(_side, _side)
@settings(max_examples=80, deadline=None)
def test_a_verdict_follows_from_the_figures_shown(base: list[Json], new: list[Json]) -> None:
    for row in comparison(base, new).rows:
        for judgement in row.judgements:
            if judgement.verdict.value == "invalid":
                continue
            low, high = judgement.interval
            assert judgement.relative == pytest.approx(judgement.new / judgement.base - 1)
            assert low <= judgement.relative <= high
            called = judgement.verdict.value in ("slower", "faster")
            assert called <= (not low <= 0 <= high)
            ends = judgement.change - judgement.reach, judgement.change + judgement.reach
            inside = max(map(abs, ends)) <= math.log1p(judgement.limit)
            assert (judgement.verdict.value == "same") == (not called and inside)


@given(_side, _side)
@settings(max_examples=80, deadline=None)
def test_exchanging_the_sides_exchanges_the_verdicts(base: list[Json], new: list[Json]) -> None:
    there, back = (
        {row.name: row for row in comparison(*sides).rows} for sides in ((base, new), (new, base))
    )
    # Bad runs count against the new side only.
    assume(all(bool(row.judgements) == bool(back[name].judgements) for name, row in there.items()))
    for name, row in there.items():
        other = back[name]
        expected = [EXCHANGED.get(f.verdict.value, f.verdict.value) for f in row.judgements]
        assert [f.verdict.value for f in other.judgements] == expected
        if not row.judgements:
            assert other.verdict.value == EXCHANGED.get(row.verdict.value, row.verdict.value)


@given(_side, _side, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_order_of_files_and_rows_never_matters(
    base: list[Json], new: list[Json], random: Random
) -> None:
    expected = comparison(base, new)
    shuffled = copy.deepcopy((base, new))
    for documents in shuffled:
        random.shuffle(documents)
        for document in documents:
            random.shuffle(document["benchmarks"])
    found = comparison(*shuffled)
    assert verdicts(found) == verdicts(expected)
    assert found.status == expected.status
    assert str(found.geometric_mean) == str(expected.geometric_mean) or (
        abs(found.geometric_mean / expected.geometric_mean - 1) < 1e-12
    )


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["context", "benchmarks", "run_name", "real_time"]), inner
            )
        ),
    ).map(json.dumps)
)
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_run_or_refused_in_one_line(text: str) -> None:
    assert len(refusal(text).splitlines()) <= 1


def refusal(text: str) -> str:
    """Return why a text is refused; "" when it is taken."""
    try:
        parse_program_run("run.json", text)
    except ResultError as error:
        return str(error)
    return ""
