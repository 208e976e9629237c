"""How findings are told: which, in what words, as text and as data."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import samples
from findable import PAIR, WAITED, pair, result, timed
from overlapbench.cli import findings as command_line
from overlapbench.findings.apply import ways_of
from overlapbench.findings.finding import MOST, Finding, Saving, largest, text_of
from overlapbench.findings.rules import find
from overlapbench.reading.names import BenchmarkName
from overlapbench.reading.result import read_results

ROOT = samples.TOOLS.parent


def test_nothing_to_find_is_told_of_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = "No findings: no change surely saves 2 % of a row's time.\n"
    for backend, told in (("cuda", nothing), ("host", "")):
        document = samples.document([timed(PAIR, 2.0)], backend=backend)
        path = str(samples.write(tmp_path / f"{backend}.json", document))
        for flag, text in ((), told), (["--quiet"], ""), (["--json"], "[]\n"):
            assert command_line.main([path, *flag]) == 0
            assert capsys.readouterr().out == text


def test_what_is_told_of_a_pair_of_rows_and_of_one() -> None:
    slow = timed(PAIR, 2.0, comp_slowdown=1.2, exposed_comm_ms=1.1)
    fast = timed(f"{PAIR}/transport:copy", 1.0, comp_slowdown=1.0, exposed_comm_ms=0.25)
    what = "AllGather beside CublasGemm, 1 GiB, n 8192"
    (one,) = find([result(slow, fast)])
    assert (one.sentence, one.reason, one.action) == (
        f"{what}, if copy engines move the data (copy instead of NCCL's kernels):"
        " 1.000 instead of 2.000 ms, saves 49.5 to 50.5 %",
        "comp_slowdown 1.200 → 1.000; comm_ms 1.000 → 0.5000; exposed_comm_ms 1.100 → 0.2500",
        "Move the data by copy engines.",
    )
    ends = (1 - 1.005 / 1.99, 1 - 0.995 / 2.01)
    assert (one.saving.low, one.saving.high) == pytest.approx(ends)
    assert (one.row, one.file, one.machine) == (PAIR, "made (cuda, NVIDIA H200)", "2 × NVIDIA H200")
    assert one.ways == ways_of({"transport": "copy"})
    (one,) = find([result(pair(1.4, 0.3, 0.2, **WAITED))])
    assert (one.sentence, one.reason) == (
        f"{what}: the communication waits for the computation to leave SMs, and together they take"
        " 1.40 × as long as the longer one alone; a change saves at most 28.6 % (27.8 to 29.3 %)",
        "communication waited for the other side (coverage 0.05); comp_slowdown 1.300;"
        " comm_slowdown 1.300; comm_sms 24",
    )
    settings = ({"first": "comm"}, {"sm_target": ""}, {"transport": "copy"})
    assert one.ways == [ways_of(each)[0] for each in settings]


def test_at_most_seven_findings_are_shown_the_surest_first() -> None:
    made = [
        Finding(f"rule {n}", f"sentence {n}", "reason", "Act.", Saving(0.5, n / 20, 0.9))
        for n in range(10)
    ]
    shown = largest(made)
    assert [one.rule for one in shown] == [f"rule {n}" for n in range(9, 9 - MOST, -1)]
    assert text_of([]) == ""


def told(number: int, machine: str = "2 × H200", ways: Sequence[str] = ()) -> Finding:
    saving = Saving(0.5, 0.41, 0.592, at_most=number == 2)
    sentence = f"sentence {number} is longer than a line"
    row = "Overlap/A+B/bytes:1048576/n:1"
    return Finding(f"rule {number}", sentence, "it is", "Act.", saving, row, "f", ways, machine)


WAYS = ("PyTorch: one way", "NCCL: another")

BODY = """\
 1. sentence 1 is longer
    than a line
    why  {}Overlap/A+B/
         bytes:1048576/n:1:
         it is
    do   Act.
         PyTorch: one way
"""

REST = "docs/apply.md says how to make these changes in other libraries.\n"


def test_the_text_of_findings_is_this() -> None:
    one = told(1, ways=WAYS)
    assert text_of([one], 28) == "Findings (2 × H200)\n" + BODY.format("") + REST
    assert text_of([one], 28, whole=True) == (
        "Findings (2 × H200)\n" + BODY.format("") + "         NCCL: another\n"
    )
    assert text_of([told(1, "")], 80) == (
        "Findings\n 1. sentence 1 is longer than a line\n"
        "    why  Overlap/A+B/bytes:1048576/n:1: it is\n    do   Act.\n"
    )
    assert max(map(len, text_of([told(1, ways=["way " * 60])]).splitlines())) in range(95, 101)
    several = text_of([told(1), told(2, "4 × H200")], 80)  # other findings hold on each
    assert several.startswith(
        "Findings\n 1. sentence 1 is longer than a line\n    why  2 × H200: O"
    )
    assert "\n 2. sentence 2 is longer than a line\n    why  4 × H200: Overlap/" in several


def test_a_saving_is_its_interval_or_a_bound() -> None:
    assert [str(told(number).saving) for number in (1, 2)] == [
        "41.0 to 59.2 %",
        "at most 50.0 % (41.0 to 59.2 %)",
    ]
    assert [Saving(0.5, low, 0.9).matters for low in (0.02, 0.0201)] == [False, True]


def test_a_finding_as_data_has_every_field() -> None:
    assert told(2, ways=WAYS).to_dict() == {
        "rule": "rule 2",
        "sentence": "sentence 2 is longer than a line",
        "reason": "it is",
        "action": "Act.",
        "ways": [*WAYS],
        "saves": {"share": 0.5, "low": 0.41, "high": 0.592, "at_most": True},
        "row": "Overlap/A+B/bytes:1048576/n:1",
        "file": "f",
        "machine": "2 × H200",
    }


def test_the_command_prints_text_or_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [timed(PAIR, 2.0), timed(f"{PAIR}/transport:copy", 1.0)]
    file = tmp_path / "result.json"
    file.write_text(json.dumps(samples.document(rows)))
    assert command_line.main([str(file)]) == 0
    assert capsys.readouterr().out.startswith(
        "Findings (2 × NVIDIA H200)\n 1. AllGather beside CublasGemm, 1 GiB"
    )
    assert command_line.main([str(file), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["rule"], one["saves"]["at_most"]) == ("copy engines", False)
    assert command_line.main([str(tmp_path)]) == 2


def test_what_the_recorded_results_say_is_in_their_figures() -> None:
    """Each finding's figures again, from the file's own entries."""
    told = 0
    for path in sorted((ROOT / "docs/results").glob("*/t*.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        times = {str(BenchmarkName.parse(one["run_name"])): one for one in entries}
        for one in find(read_results([str(path)])):
            told += 1
            entry = times[one.row]
            assert entry["state"] in ("ok", "serialized"), path
            assert one.saving.low > 0.02
            if pairs := re.search(r": ([\d.e-]+) instead of ([\d.e-]+) ms, saves", one.sentence):
                fast, slow = map(float, pairs.groups())
                assert 1 - fast / slow == pytest.approx(one.saving.share, abs=0.002), path
                assert slow == pytest.approx(
                    entry["real_time"] * UNIT[entry["time_unit"]], rel=1e-3
                )
                others = [
                    x["real_time"] * UNIT[x["time_unit"]] for x in entries if "real_time" in x
                ]
                assert any(fast == pytest.approx(x, rel=1e-3) for x in others), path
    assert told > 40


UNIT = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
