"""The command line: every verdict, every exit status, and refusals in one line.

What it shows of them is tested in test_compare_output.py.
"""

import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import made_runs
import samples
from comparing import SLOW, A, B, Capture, compared, one, run, sides
from made_runs import NAMES, write_side
from samples import Json


def verdicts(document: Json) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in document["rows"]}


def test_five_runs_find_one_slow_benchmark(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, made_runs.side(5, 1), made_runs.side(5, 2, {SLOW: 1.05}))
    status, document = compared(capsys, *arguments)
    assert status == 1
    assert verdicts(document) == dict.fromkeys(NAMES, "same") | {SLOW: "slower"}
    (finding,) = next(row for row in document["rows"] if row["name"] == SLOW)["findings"]
    assert 0 < finding["low"] < 0.05 < finding["high"]
    assert finding["change"] == pytest.approx(finding["new"] / finding["base"] - 1)
    assert document["geometric_mean"] == pytest.approx(1.05 ** (1 / len(NAMES)), abs=3e-3)


def test_improvements_never_fail(tmp_path: Path, capsys: Capture) -> None:
    new = made_runs.side(5, 2, dict.fromkeys(NAMES, 0.5))
    status, document = compared(capsys, *sides(tmp_path, made_runs.side(5, 1), new))
    assert status == 0
    assert set(verdicts(document).values()) == {"faster"}


def test_nothing_worse_is_status_0(tmp_path: Path, capsys: Capture) -> None:
    status, document = compared(
        capsys, *sides(tmp_path, made_runs.side(5, 1), made_runs.side(5, 2))
    )
    assert status == 0
    assert document["counts"]["same"] == len(NAMES)


@pytest.mark.parametrize(
    ("counter", "before", "after"),
    [("busbw_GBps", 300.0, 270.0), ("pct_of_copy", 90.0, 80.0), ("pct_of_bound", 90.0, 80.0)],
)
def test_a_falling_rate_is_a_regression(
    counter: str, before: float, after: float, tmp_path: Path, capsys: Capture
) -> None:
    def side(rate: float) -> list[Json]:
        noise = random.Random(rate)
        fields: list[Json] = [{counter: rate * noise.gauss(1, 0.002)} for _ in range(5)]
        return [samples.document([samples.row("Comm/AllReduce/bytes:1", **f)]) for f in fields]

    status, document = compared(capsys, *sides(tmp_path, side(before), side(after)))
    assert status == 1
    found = {f["metric"]: f["verdict"] for f in document["rows"][0]["findings"]}
    assert found == {"time": "same", counter: "slower"}


def overlaps(efficiency: float, comm: float, noise: float = 0.0) -> list[Json]:
    """Make runs of a pair whose C is 1 ms, with the T that the efficiency says."""
    made, noise_of = [], random.Random(1)
    for _ in range(5):
        shown = efficiency + noise_of.gauss(0, noise)
        both = 1.0 + comm - shown * min(1.0, comm)
        row = samples.overlap("AllToAll+Gemm/n:1", both / max(1.0, comm), 1.0, comm)
        made.append(samples.document([row | {"efficiency": shown, "real_time": both}]))
    return made


def test_a_falling_efficiency_is_a_regression(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, overlaps(0.9, 0.8, 0.002), overlaps(0.8, 0.8, 0.002))
    status, document = compared(capsys, *arguments)
    assert status == 1
    (row,) = document["rows"]
    assert row["not_judged"] == {
        "slowdown": {"base": pytest.approx(1.08, rel=0.01), "new": pytest.approx(1.16, rel=0.01)}
    }


def test_efficiency_beside_a_short_side_is_noise(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, overlaps(0.9, 0.004, 0.01), overlaps(0.2, 0.004, 0.01))
    status, document = compared(capsys, *arguments)
    assert (status, document["counts"]["same"]) == (0, 1)


WIDE = {"cv": 0.5, "samples": 9}
BAD = {"valid": 0, "label": "invalid: hot"}


@pytest.mark.parametrize(
    ("base", "new", "status", "expected"),
    [
        (one(A, B), one(A), 3, {"n:1": "same", "n:2": "missing"}),
        (one(A), one(A, B), 0, {"n:1": "same", "n:2": "new"}),
        (one(A), one(B), 3, {"n:1": "missing", "n:2": "new"}),
        (one(A), one(A | {"valid": 0}), 3, {"n:1": "invalid"}),
        (one(A | {"valid": 0}), one(A | {"valid": 0}), 3, {"n:1": "invalid"}),
        (one(A | {"valid": 0}), one(A), 3, {"n:1": "invalid"}),
        (one(A), one(A | {"error_occurred": True}), 3, {"n:1": "invalid"}),
        (one(A), one(A | {"time_unit": "us"}), 3, {"n:1": "incomparable"}),
        (one(A), one(A, device="NVIDIA B200"), 3, {"n:1": "incomparable"}),
        (one(A), one(A | {"real_time": 1.6}), 1, {"n:1": "slower"}),
        (one(A), one(A | {"real_time": 0.6}), 0, {"n:1": "faster"}),
        (one(A | WIDE), one(A | WIDE | {"real_time": 1.6}), 3, {"n:1": "inconclusive"}),
        (one(A | WIDE, B), one(A | WIDE, B), 0, {"n:1": "inconclusive", "n:2": "same"}),
        (one(A | WIDE), one(A | WIDE), 3, {"n:1": "inconclusive"}),
        (one(A), one(A | {"real_time": 1.005}), 0, {"n:1": "same"}),
        (one(A), one(A | {"real_time": 1.019}), 0, {"n:1": "same"}),
        (one(A | {"busbw_GBps": 2}), one(A), 3, {"n:1": "invalid"}),
        (one(A, B), one(B, A), 0, {"n:1": "same", "n:2": "same"}),
    ],
)
def test_verdicts_of_single_runs(
    base: list[Json],
    new: list[Json],
    status: int,
    expected: dict[str, str],
    tmp_path: Path,
    capsys: Capture,
) -> None:
    found, document = compared(capsys, *sides(tmp_path, base, new))
    assert {name.split("/")[-1]: v for name, v in verdicts(document).items()} == expected
    assert found == status


@pytest.mark.parametrize(
    ("base", "new", "reasons"),
    [
        (one(A), one(B), ["not in the new results", "not in the base results"]),
        (one(A), one(A | BAD), ["invalid: hot"]),
        (one(A | BAD), one(A | BAD), ["in base: invalid: hot; in new: invalid: hot"]),
        (one(A | BAD), one(A), ["in base: invalid: hot"]),
        (one(A), one(A, B | BAD), ["invalid: hot", ""]),
    ],
)
def test_rows_that_cannot_be_judged_have_a_reason(
    base: list[Json], new: list[Json], reasons: list[str], tmp_path: Path, capsys: Capture
) -> None:
    _, document = compared(capsys, *sides(tmp_path, base, new))
    assert [row["reason"] for row in document["rows"]] == reasons


def test_a_regression_outweighs_a_missing_row(tmp_path: Path, capsys: Capture) -> None:
    new = made_runs.side(5, 2, {SLOW: 1.2})
    for document in new:
        del document["benchmarks"][0]
    assert compared(capsys, *sides(tmp_path, made_runs.side(5, 1), new))[0] == 1


@pytest.mark.parametrize("side", ["base", "new"])
def test_a_run_that_ended_early_never_passes(side: str, tmp_path: Path, capsys: Capture) -> None:
    documents = {"base": made_runs.side(3, 1), "new": made_runs.side(3, 2)}
    documents[side][1]["incomplete"] = "ended by SIGTERM\x1b[2J"
    files = {name: write_side(tmp_path, name, made) for name, made in documents.items()}
    arguments = ["--base", *files["base"], "--new", *files["new"]]
    assert run(*arguments) == 3
    reason = f"{tmp_path}/{side}1.json: incomplete: ended by SIGTERM\N{REPLACEMENT CHARACTER}[2J"
    assert reason in " ".join(capsys.readouterr().out.split())
    assert run(*arguments, "--format", "junit") == 3
    suite = ElementTree.fromstring(capsys.readouterr().out)
    assert [failure.get("message") for failure in suite.iter("failure")] == [reason]


@pytest.mark.parametrize("side", ["base", "new"])
def test_a_run_with_a_failed_self_test_never_passes(
    side: str, tmp_path: Path, capsys: Capture
) -> None:
    documents = {"base": made_runs.side(3, 1), "new": made_runs.side(3, 2)}
    for document in (*documents["base"], *documents["new"]):
        document["context"]["self_test"] = "passed: slowdown 1.00 of 1.00"
    assert run(*sides(tmp_path, documents["base"], documents["new"])) == 0
    documents[side][1]["context"]["self_test"] = "failed: slowdown 1.39 of 1.00"
    capsys.readouterr()
    status, found = compared(capsys, *sides(tmp_path, documents["base"], documents["new"]))
    assert status == 3
    (line,) = found["doubts"]
    told = "not to be trusted: the self-test failed: slowdown 1.39 of 1.00"
    assert line.endswith(f"/{side[0]}1.json: {told}")


def test_other_units_can_be_allowed(tmp_path: Path, capsys: Capture) -> None:
    new = one(A | {"time_unit": "us", "real_time": 1000.0})
    arguments = sides(tmp_path, one(A), new)
    assert compared(capsys, *arguments)[1]["rows"][0]["reason"] == "unit: ms / us"
    status, document = compared(capsys, *arguments, "--across", "unit")
    assert (status, verdicts(document)) == (0, {A["name"]: "same"})


def test_plain_files_of_google_benchmark_are_compared(tmp_path: Path, capsys: Capture) -> None:
    def plain(time_ns: float) -> Json:
        row = {"run_name": "BM_Copy/8", "name": "BM_Copy/8", "run_type": "iteration"}
        return {
            "context": {"num_cpus": 2},
            "benchmarks": [row | {"real_time": time_ns, "time_unit": "ns"}],
        }

    new = [plain(120.0 + i / 10) for i in range(5)]
    status, document = compared(
        capsys, *sides(tmp_path, [plain(100.0 + i / 10) for i in range(5)], new)
    )
    assert (status, verdicts(document)) == (1, {"BM_Copy/8": "slower"})


def twice(document: Json) -> str:
    document["benchmarks"].append(document["benchmarks"][0])
    return json.dumps(document)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda d: json.dumps(d)[:-5], "not JSON, or cut short"),
        (lambda _: "[]", "context: missing"),
        (twice, "benchmarks[1].run_name: Compute/Gemm/n:1 is already at benchmarks[0]"),
    ],
)
def test_a_bad_file_is_status_2_and_one_line(
    make: Callable[[Json], str], complaint: str, tmp_path: Path, capsys: Capture
) -> None:
    good = samples.write(tmp_path / "good.json", samples.document([A]))
    bad = tmp_path / "bad.json"
    bad.write_text(make(samples.document([dict(A)])), encoding="utf-8")
    for pair in ((good, bad), (bad, good)):
        assert run(*pair, "--output", tmp_path / "out.md") == 2
        captured = capsys.readouterr()
        (line,) = captured.err.splitlines()
        assert line.startswith(f"overlapbench compare: {bad}: {complaint}")
        assert captured.out == ""
    assert not (tmp_path / "out.md").exists()


def test_bad_usage_is_status_2(tmp_path: Path, capsys: Capture) -> None:
    good = str(samples.write(tmp_path / "good.json", samples.document([A])))
    for arguments, complaint in (
        ([good], "give BASE.json and NEW.json"),
        ([good, good, good], "give BASE.json and NEW.json"),
        ([good, good, "--base", good], "give BASE.json and NEW.json"),
        ([good, good, "--new", good], "give BASE.json and NEW.json"),
        (["--base", good], "give BASE.json and NEW.json"),
        (["--new", good], "give BASE.json and NEW.json"),
        ([good, good, "--across", "weather"], "invalid choice: 'weather'"),
    ):
        with pytest.raises(SystemExit) as end:
            run(*arguments)
        assert end.value.code == 2
        assert complaint in capsys.readouterr().err
    for arguments, complaint in (
        ([good, good, "--output", "diff.pdf"], "-o diff.pdf: the name must end in"),
        ([good, good, "--output", f"{tmp_path}/no/x.md"], "cannot be written: No such file"),
        (["--base", good, good, "--new", good], "given twice as base"),
        (["-", "-"], "overlapbench compare: -: standard input can be read only once"),
        ([good, good, "--floors", f"{tmp_path}/no.toml"], "cannot be read: No such file"),
    ):
        assert run(*arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert complaint in line


def test_standard_input_is_a_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    good = samples.write(tmp_path / "good.json", samples.document([A]))
    data = json.dumps(samples.document([A])).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert compared(capsys, good, "-")[0] == 0


def test_a_floor_set_by_pattern_replaces_the_least(tmp_path: Path, capsys: Capture) -> None:
    arguments = sides(tmp_path, made_runs.side(5, 1), made_runs.side(5, 2, {SLOW: 1.05}))
    floors = tmp_path / "floors.toml"
    floors.write_text('[[floor]]\npattern = "Compute/"\npercent = 10\n')
    assert compared(capsys, *arguments, "--floors", floors)[0] == 0
    floors.write_text('[[floor]]\npattern = "Comm/"\npercent = 10\n')
    assert compared(capsys, *arguments, "--floors", floors)[0] == 1


@pytest.mark.parametrize("made", [5, 2])
def test_inconclusive_and_worse_than_the_limit_is_status_3(
    made: int, tmp_path: Path, capsys: Capture
) -> None:
    base = made_runs.side(made, 1, noise=0.15)
    new = made_runs.side(made, 2, dict.fromkeys(NAMES, 1.25), noise=0.15)
    status, document = compared(capsys, *sides(tmp_path, base, new))
    assert status == 3
    for row in document["rows"]:
        (finding,) = row["findings"]
        assert row["verdict"] == "inconclusive"
        assert row["fails"] == (finding["change"] > 0.10)
        assert row["reason"].endswith(" %; a change beyond the limit of 10 % is not ruled out")
    _, allowed = compared(capsys, *sides(tmp_path, base, new), "--allow-noise")
    failing = [sum(row["fails"] for row in one["rows"]) for one in (document, allowed)]
    assert failing[1] < failing[0]


def test_one_run_a_side_is_judged_by_row_intervals_and_known_spread(
    tmp_path: Path, capsys: Capture
) -> None:
    """The row's own interval decides before its samples do."""
    interval = {"time_low_ms": 0.999, "time_high_ms": 1.001}
    found = {}
    for label, fields in (("samples", WIDE), ("interval", WIDE | interval)):
        document = samples.document([A | fields])
        known = {counter["name"] for counter in document["counters"]}
        time = next(c for c in document["counters"] if c["name"] == "time")
        document["counters"] += [
            time | {"name": name, "judged": False} for name in interval if name not in known
        ]
        slow = json.loads(json.dumps(document))
        slow["benchmarks"][0]["real_time"] *= 1.1
        found[label] = compared(capsys, *sides(tmp_path, [document], [slow]))[0]
    assert found == {"samples": 3, "interval": 1}
