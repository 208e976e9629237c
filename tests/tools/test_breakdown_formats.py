"""A breakdown as text and as data, as a whole: ranks with everything that there can be."""

from dataclasses import replace

import pytest

from overlapbench.traces.breakdown import PARTS, Breakdown, Difference
from overlapbench.traces.collectives import Waiting
from overlapbench.traces.model import Class
from overlapbench.traces.patterns import Shown
from overlapbench.view import trace_comparison
from overlapbench.view.breakdown import render, to_dict
from overlapbench.view.console import Screen

MS = 1_000_000
FIRST = Breakdown(
    rank=0,
    source="a.json",
    window="step 0 to 5, 6 in all",
    windows=6,
    parts_ns={part: (place + 1) * MS for place, part in enumerate(PARTS)},
    each_ns=[
        {part: (1 + n % 2 * place) * MS for place, part in enumerate(PARTS)} for n in range(6)
    ],
    overlap_pct=62.5,
    named_overlap_pct=12.25,
    differences=[
        Difference(f"name {i}\x1b", Class.COMM, Class.COMP, i, i * MS) for i in range(7, 0, -1)
    ],
    patterns=[Shown("late launches", 9 * MS, 12.5, "Launch earlier.")],
    notes=("of all", "of the first"),
    work_ns={(Class.FUSED, "gemm_all_gather"): 3 * MS, (Class.COMP, "gemm"): 8 * MS},
    waiting=Waiting(22 * MS, 5 * MS, 15 * MS, 8, 2, 1 * MS),
)
SECOND = replace(
    FIRST,
    rank=1,
    source="b.json",
    parts_ns=dict.fromkeys(PARTS, 0) | {PARTS[0]: 10 * MS, PARTS[3]: 20 * MS, PARTS[-1]: 30 * MS},
    each_ns=[],
    overlap_pct=None,
    named_overlap_pct=None,
    differences=[],
    patterns=[],
    notes=("of all",),
    work_ns={(Class.COMP, "gemm"): 20 * MS},
    waiting=Waiting(20 * MS, 0, 20 * MS, 8, 6, 5 * MS),
)

TEXT = """\
T is step 0 to 5, 6 in all. Shares of T in percent.

              COMP  COMM   MEM   COMP  COMP  COMM    all        over-
rank    T ms  only  only  only  +COMM  +MEM  +MEM  three  idle    lap
0     78.000   1.3   2.6   3.8    5.1   6.4   7.7    9.0  64.1   62.5
           ±   1.9   1.5   1.2    0.9   0.5   0.2    0.2   6.0    2.6
1     60.000  16.7   0.0   0.0   33.3   0.0   0.0    0.0  50.0      -

Communication in ms: waiting for the last rank to arrive, and moving data.

rank     all  waiting  moving  unmatched    last  others wait
0     22.000    5.000  15.000      2.000  2 of 8        1.000
1     20.000    0.000  20.000      0.000  6 of 8        5.000

Rank 0 computes least: idle, copying or communicating 78.2 % of T.
For 6.4 % of T it waits, in collectives, for the last rank to arrive.

Of the communication, 62.5 % ran beside computation.
Fused kernels compute and communicate at once: 3.000 ms, counted as both.
Tools that classify kernels by name say 12.2 %. They differ in
      7 ×     7.000 ms in all  COMM, not COMP  name 7\N{REPLACEMENT CHARACTER}
      6 ×     6.000 ms in all  COMM, not COMP  name 6\N{REPLACEMENT CHARACTER}
      5 ×     5.000 ms in all  COMM, not COMP  name 5\N{REPLACEMENT CHARACTER}
      4 ×     4.000 ms in all  COMM, not COMP  name 4\N{REPLACEMENT CHARACTER}
      3 ×     3.000 ms in all  COMM, not COMP  name 3\N{REPLACEMENT CHARACTER}
  and 2 more names; 28.000 ms together

Idle, waiting
  for a dependency             10.3 %       8.000 ms
  for other ranks              11.5 %       9.000 ms
  for the host to enqueue      12.8 %      10.000 ms
  for the gate                 14.1 %      11.000 ms
  unknown                      15.4 %      12.000 ms

Verdict: communication is exposed for 10.3 ±1.7 % of T on rank 0. Hiding all of it saves at most
10.3 % (8.000 ms).

Findings
 1. late launches: 12.5 % of T
    why  rank 0
    do   Launch earlier.

  note: of all

  note on rank 0: of the first
"""


def test_the_text_has_every_figure_of_every_rank() -> None:
    assert render([FIRST, SECOND], Screen(100)) == TEXT


def test_a_lone_rank_is_not_compared_with_others() -> None:
    text = render([SECOND], Screen(100))
    assert "computes least" not in text
    assert "waits, in collectives" not in text
    assert "There is no communication.\n" in text
    assert "Tools that" not in text
    assert "\n  note: of all\n" in text


def test_tools_that_see_communication_where_there_is_none_are_told() -> None:
    found = replace(SECOND, named_overlap_pct=25.0, differences=FIRST.differences[:5])
    text = render([found], Screen(100))
    assert "Tools that classify kernels by name say 25.0 %. They differ in\n" in text
    assert "more names" not in text
    unseen = replace(FIRST, named_overlap_pct=None)
    assert "by name say there is none. They differ in\n" in render([unseen], Screen(100))
    odd = [Difference("a" * 200, Class.MEM, None, 1, MS)]
    line = render([replace(FIRST, differences=odd)], Screen(80)).split("They differ in\n")[1]
    start = "      1 ×     1.000 ms in all  MEM, not nothing  "
    assert line.split("\n")[0] == f"{start}{'a' * (79 - len(start))}…"


def test_nobody_waits_for_a_rank_that_is_never_last() -> None:
    waiting = Waiting(22 * MS, 0, 22 * MS, 8, 0, 0)
    text = render([replace(FIRST, waiting=waiting), replace(SECOND, waiting=None)], Screen(100))
    assert "0     22.000    0.000  22.000      0.000  0 of 8        0.000\n" in text
    assert "The others wait" not in text
    assert "it waits, in collectives" not in text


@pytest.mark.parametrize(("ns", "text"), [(10**12 - 1000, "999999.999"), (10**12, "1.000e+06")])
def test_long_times_are_short(ns: int, text: str) -> None:
    parts = dict.fromkeys(PARTS, 0) | {PARTS[0]: ns}
    line = render([replace(SECOND, parts_ns=parts, waiting=None)], Screen(100)).splitlines()[4]
    assert line.split()[:2] == ["1", text]


KEYS = (
    *("COMP", "COMM", "MEM", "COMP+COMM", "COMP+MEM", "COMM+MEM", "COMP+COMM+MEM"),
    *("idle_dependency", "idle_ranks", "idle_host", "idle_gate", "idle_unknown"),
)
SHARES = (1.3, 2.6, 3.8, 5.1, 6.4, 7.7, 9.0, 10.3, 11.5, 12.8, 14.1, 15.4)
RECORD = {
    "rank": 0,
    "file": "a.json",
    "window": "step 0 to 5, 6 in all",
    "T_ms": 78.0,
    "windows": 6,
    "pct": dict(zip(KEYS, SHARES, strict=True)),
    "ms": {key: place + 1.0 for place, key in enumerate(KEYS)},
    "communication": {
        "ms": 22.0,
        "waiting_ms": 5.0,
        "moving_ms": 15.0,
        "collectives": 8,
        "last": 2,
        "others_waited_ms": 1.0,
    },
    "overlap_pct": 62.5,
    "overlap_pct_by_name": 12.25,
    "differences": [
        {
            "name": f"name {i}\x1b",
            "class": "COMM",
            "class_by_name": "COMP",
            "count": i,
            "ms": float(i),
        }
        for i in range(7, 0, -1)
    ],
    "patterns": [{"name": "late launches", "pct": 12.5, "ms": 9.0, "advice": "Launch earlier."}],
    "notes": ["of all", "of the first"],
}


def test_the_json_has_every_figure_of_every_rank() -> None:
    document = to_dict([FIRST, SECOND])
    first, second = document.pop("ranks")
    assert document.pop("verdict").endswith("saves at most 10.3 % (8.000 ms).")
    (finding,) = document.pop("findings")
    assert (finding["rule"], finding["action"]) == ("late launches", "Launch earlier.")
    assert finding["saves"]["share"] == 9 / 78
    assert document == {"overlapbench_trace": "1", "worst_rank": 0}
    margins = first.pop("pct_margin")
    assert first == RECORD
    assert margins == {key: FIRST.margin_pct([part]) for key, part in zip(KEYS, PARTS, strict=True)}
    assert (second["rank"], second["file"], second["overlap_pct"]) == (1, "b.json", None)
    assert set(second["pct_margin"].values()) == {None}
    assert to_dict([replace(SECOND, waiting=None)])["ranks"][0]["communication"] is None


COMPARED = """\
before: step 0 to 5, 6 in all, 1 rank
after: step 0 to 5, 6 in all, 2 ranks
Times are in ms per window, and means of the ranks.

T, and its parts:
                  before   after  change
T                 13.000  11.500  -1.500
COMP only          0.167   0.917  +0.750
COMM only          0.333   0.167  -0.167
MEM only           0.500   0.250  -0.250
COMP+COMM          0.667   2.000  +1.333
COMP+MEM           0.833   0.417  -0.417
COMM+MEM           1.000   0.500  -0.500
COMP+COMM+MEM      1.167   0.583  -0.583
idle: dependency   1.333   0.667  -0.667
idle: ranks        1.500   0.750  -0.750
idle: host         1.667   0.833  -0.833
idle: gate         1.833   0.917  -0.917
idle: unknown      2.000   3.500  +1.500

all communication:
                                     before  after  change
waiting for the last rank to arrive   0.833  0.417  -0.417
moving data                           2.500  2.917  +0.417
unmatched                             0.333  0.167  -0.167

the largest changes by name, times of parallel spans added:
                       before  after  change
COMP gemm               1.333  2.333  +1.000
FUSED gemm_all_gather   0.500  0.250  -0.250

  note: of all

  note: of the first
"""


def test_two_recordings_are_compared_by_window_and_rank() -> None:
    assert trace_comparison.render([FIRST], [SECOND, FIRST], Screen(100)) == COMPARED
    changes = [*trace_comparison.to_json([FIRST], [SECOND, FIRST])]
    assert len(changes) == 18
    assert changes[1] == {
        "group": "T, and its parts",
        "name": "COMP only",
        "before_ms": pytest.approx(1 / 6),
        "after_ms": pytest.approx(11 / 12),
        "change_ms": pytest.approx(0.75),
    }


def test_only_names_that_changed_most_are_compared() -> None:
    def named(times: dict[str, int]) -> Breakdown:
        work = {(Class.COMP, f"{name}\x1b"): ns * MS for name, ns in times.items()}
        return replace(FIRST, work_ns=work, windows=1, waiting=None)

    letters = "abcdefghijklm"
    before = named(dict.fromkeys(letters, 20) | {"gone": 3})
    after = named({name: 20 + place for place, name in enumerate(letters)} | {"new": 2})
    groups = trace_comparison.compare([before], [after])
    by_name = "the largest changes by name, times of parallel spans added"
    assert [*groups] == ["T, and its parts", by_name]
    assert [one[:-1] for one in groups[by_name]] == [
        (f"COMP {name}\N{REPLACEMENT CHARACTER}", 20, 20 + letters.index(name))
        for name in letters[:2:-1]
    ]
    fewer = trace_comparison.compare([named({"gone": 3, "b": 1})], [named({"new": 2, "b": 1})])
    assert [(name[5:-1], ms) for name, *_, ms in fewer[by_name]] == [("gone", -3), ("new", 2)]
