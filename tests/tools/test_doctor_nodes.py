"""The node that differs among many is found; equal nodes seldom differ; of two, nothing is said."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import doctor_machine
from overlapbench.doctor.nodes import compared, differences, require_comparable, striking
from overlapbench.doctor.recordings import Recording
from overlapbench.doctor.rules import Verdict
from overlapbench.output import ResultError
from test_doctor import LINK, REFERENCES

SLOW = {"factors": {"PeerCopy": 0.5}}


def nodes(count: int, faults: Mapping[int, Mapping[str, Any]], seed: int = 0) -> list[Recording]:
    return [
        doctor_machine.recording(faults.get(place), 1000 * seed + place, f"node{place}")
        for place in range(count)
    ]


def told(found: Sequence[Any]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.check, one.nodes, str(one.verdict)) for one in found]


@pytest.mark.parametrize("count", [3, 4, 7, 32])
def test_the_node_that_differs_is_found(count: int) -> None:
    found = differences(nodes(count, {1: SLOW}), REFERENCES)
    assert told(found) == [(LINK, ("node1",), "bad")]
    assert found[0].sentence == f"50 % worse than the median of {count} nodes"


def test_of_two_nodes_nothing_says_which_is_at_fault() -> None:
    found = differences(nodes(2, {1: SLOW}), REFERENCES)
    assert told(found) == [(LINK, ("node0", "node1"), "bad")]
    assert "nothing says which is at fault" in found[0].sentence


def test_up_to_half_of_the_nodes_may_be_at_fault() -> None:
    found = differences(nodes(5, {1: SLOW, 3: SLOW}), REFERENCES)
    assert {one.nodes[0] for one in found} == {"node1", "node3"}


def test_a_node_that_is_slow_in_everything_is_found() -> None:
    slow = {"factors": {"GBps|TFLOPs": 0.6, "_ms|time|_us|": 1 / 0.6}}
    found = differences(nodes(3, {2: slow}), REFERENCES)
    assert {one.nodes for one in found} == {("node2",)}
    assert len(found) >= 6


def test_a_fact_of_one_node_is_found() -> None:
    limited = {"context": {"env_NCCL_MAX_CTAS": "4"}}
    found = differences(nodes(4, {3: limited}), REFERENCES)
    assert told(found) == [("NCCL's variables", ("node3",), "suspicious")]
    assert found[0].sentence == "NCCL_MAX_CTAS is 4, on 3 of 4 nodes unset"


@pytest.mark.parametrize("count", [2, 3, 4, 8, 33])
@pytest.mark.parametrize("spread", [0.5, 4.0])
@pytest.mark.parametrize("tails", ["normal", "t of 5"])
@pytest.mark.parametrize("is_known", [True, False])
def test_equal_nodes_seldom_differ(count: int, spread: float, tails: str, is_known: bool) -> None:
    """At most 5 % of tables, and two standard errors, however much healthy nodes differ.

    Also where noise has heavier tails than a normal distribution, and where nothing is known of it.
    """
    random = np.random.default_rng(count)
    tables, checks, seen = 500, 13, 0
    for _ in range(tables):
        shape = checks, count
        noise = random.normal(size=shape) if tails == "normal" else random.standard_t(5, shape)
        wrong = np.exp((0.4 if is_known else 2.0) * random.normal(size=(checks, 1)))
        units = [*np.repeat((spread * wrong * noise)[..., np.newaxis], 3, axis=-1)]
        seen += any(one.any() for one in striking(units, [8.0 * is_known] * checks, 0.05))
    assert seen / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5


@pytest.mark.parametrize(("count", "away"), [(5, 200.0), (8, 40.0), (33, 15.0)])
def test_a_node_is_found_by_what_the_others_say_alone(count: int, away: float) -> None:
    random = np.random.default_rng(3)
    found = 0
    for _ in range(50):
        units = [*np.repeat(random.normal(size=(10, count, 1)), 3, axis=-1)]
        units[4][1] += away
        found += bool(striking(units, [0.0] * 10, 0.05)[4][1])
    assert found >= 40


def test_a_node_whose_figure_is_hardly_known_does_not_differ() -> None:
    wide = {"PeerCopy": {"GBps_high": 500.0}}
    found = differences(nodes(4, {1: SLOW | {"states": wide}}), REFERENCES)
    assert found == []
    noisy = {"PeerCopy": {"state": "noisy", "reason": "x"}}
    assert differences(nodes(4, {1: SLOW | {"states": noisy}}), REFERENCES) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_limits_tell_nodes_apart_if_most_are_within(backwards: bool) -> None:
    slow = {"factors": {"SecondDelay": 1.5}}
    found = differences(nodes(3, {1: slow} if not backwards else {0: slow, 1: slow}), REFERENCES)
    expected = [("streams at once", ("node1",), "bad")]
    assert told(found) == ([] if backwards else expected)


def test_what_is_told_of_limits_and_facts() -> None:
    slow = {"factors": {"SecondDelay": 1.5}}
    (found,) = differences(nodes(3, {1: slow}), REFERENCES)
    assert found.sentence == "1.50 ±0.00, and most nodes at most 1.05"
    assert found.action
    assert differences(nodes(4, {0: slow, 1: slow}), REFERENCES) == []  # half of them
    limited = {"context": {"env_NCCL_MAX_CTAS": "4"}}
    (found,) = differences(nodes(4, {0: limited, 3: limited}), REFERENCES)
    assert (found.nodes, found.sentence) == ((), "NCCL_MAX_CTAS differs: 4, unset")
    assert found.verdict is Verdict.SUSPICIOUS


def test_the_worst_difference_comes_first_and_a_better_node_is_none_to_mend() -> None:
    faults: dict[int, Any] = {
        0: {"context": {"env_NCCL_MAX_CTAS": "4"}},
        2: {"factors": {"PeerCopy": 1.4}},
    }
    faults |= {1: {"factors": {"SecondDelay": 1.5}}}
    found = differences(nodes(4, faults), REFERENCES)
    assert told(found) == [
        ("streams at once", ("node1",), "bad"),
        (LINK, ("node2",), "suspicious"),
        ("NCCL's variables", ("node0",), "suspicious"),
    ]
    assert found[1].sentence == "40 % better than the median of 4 nodes"
    assert found[1].action == ""


def test_a_little_difference_does_not_matter() -> None:
    assert differences(nodes(5, {1: {"factors": {"PeerCopy": 0.985}}}), REFERENCES) == []
    (found,) = differences(nodes(5, {1: {"factors": {"PeerCopy": 0.92}}}), REFERENCES)
    assert (found.verdict, found.sentence) == (
        Verdict.SUSPICIOUS,
        "8 % worse than the median of 5 nodes",
    )
    assert found.action.startswith("Look for a link that is down")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"context": {"device": "B300"}},
            "node1 is of 2 × B300, node0 of 2 × NVIDIA H200: compare",
        ),
        (
            {"context": {"ranks": "4"}},
            "node1 is of 4 × NVIDIA H200, node0 of 2 × NVIDIA H200: comp",
        ),
    ],
)
def test_only_nodes_of_one_model_and_size_are_compared(
    change: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(ResultError, match=told):
        require_comparable(nodes(2, {1: change}))


def test_one_measurement_is_not_two_nodes() -> None:
    one, other = nodes(2, {})
    require_comparable([one, other])
    with pytest.raises(ResultError, match="other is the same measurement as node0"):
        require_comparable([one, other, replace(one, file="other")])
    with pytest.raises(ResultError, match="needs the results of two nodes or more"):
        require_comparable([one])


def test_a_node_strikes_with_its_whole_interval() -> None:
    units = np.repeat(np.array([0.0, 1.0, 2.0, 3.0, 4.0])[:, np.newaxis], 3, axis=1)
    far = np.vstack([units, [[500.0, 500.0, 500.0]]])
    wide = np.vstack([units, [[2.5, 500.0, 900.0]]])
    for each, seen in ((far, True), (wide, False), (-far, True), (-wide[:, ::-1], False)):
        (found,) = striking([each], [8.0], 0.05)
        assert found.tolist() == [False] * 5 + [seen]
    assert not any(one.any() for one in striking([far[4:]] * 3, [0.0] * 3, 0.05))  # only two nodes


@pytest.mark.parametrize(
    ("count", "without", "is_compared"), [(4, 1, True), (4, 2, False), (2, 0, True)]
)
def test_a_check_is_compared_if_most_nodes_have_its_figure(
    count: int, without: int, is_compared: bool
) -> None:
    noisy = {"states": {"PeerCopy": {"state": "noisy", "reason": "x"}}}
    found = compared(nodes(count, dict.fromkeys(range(without), noisy)), REFERENCES)
    assert (LINK in found) is is_compared
    assert "device memory" in found
