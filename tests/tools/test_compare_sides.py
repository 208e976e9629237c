"""What a side of a comparison is: its good runs, each counted once, on one machine."""

import copy
from pathlib import Path

import pytest

import made_runs
import samples
from comparing import SLOW, A, B, Capture, compared, one, run, sides
from made_runs import NAMES
from samples import Json

BAD: Json = {"valid": 0.0, "state": "invalid", "reason": "clocks were throttled"}
LOST: Json = {"error_occurred": True, "error_message": "lost"}


def side(count: int, seed: int, factor: float = 1.0) -> list[Json]:
    return made_runs.side(count, seed, dict.fromkeys(NAMES, factor))


def spoil(documents: list[Json], count: int, fault: Json) -> list[Json]:
    """Make all rows of the first runs bad."""
    for document in documents[:count]:
        for row in document["benchmarks"]:
            row |= fault
    return documents


@pytest.mark.parametrize("fault", [BAD, LOST])
@pytest.mark.parametrize(("bad", "status"), [(1, 1), (2, 1), (3, 3)])
def test_bad_runs_of_base_excuse_no_regression(
    fault: Json, bad: int, status: int, tmp_path: Path, capsys: Capture
) -> None:
    base = spoil(side(3, 1), bad, fault)
    found, document = compared(capsys, *sides(tmp_path, base, side(3, 2, 24.0)))
    assert found == status
    (verdict,) = {row["verdict"] for row in document["rows"]}
    assert verdict == ("slower" if status == 1 else "invalid")
    assert all(row["fails"] for row in document["rows"])
    (reason,) = {row["reason"].split("in base: ")[1] for row in document["rows"]}
    assert reason.startswith(f"{bad} of 3 runs: ")


def test_rows_that_are_bad_in_a_run_of_base_are_judged_from_the_others(
    tmp_path: Path, capsys: Capture
) -> None:
    """The bad runs are ten times slower: their figures must not count."""
    base = spoil([*side(3, 3, 10.0), *side(2, 1)], 3, BAD)
    status, document = compared(capsys, *sides(tmp_path, base, side(5, 2)))
    assert (status, document["counts"]["same"]) == (0, len(NAMES))
    assert all(0.98 < f["base"] < 1.02 for row in document["rows"] for f in row["findings"])


@pytest.mark.parametrize(
    ("base", "new", "verdict"),
    [(0, 1, "invalid"), (1, 1, "same"), (1, 2, "invalid"), (2, 1, "same"), (2, 5, "invalid")],
)
def test_more_bad_runs_than_in_base_are_a_fault(
    base: int, new: int, verdict: str, tmp_path: Path, capsys: Capture
) -> None:
    made = spoil(side(5, 1), base, BAD), spoil(side(5, 2), new, BAD)
    status, document = compared(capsys, *sides(tmp_path, *made))
    assert {row["verdict"] for row in document["rows"]} == {verdict}
    assert status == (3 if verdict == "invalid" else 0)


def test_a_copy_of_a_file_is_no_run(tmp_path: Path, capsys: Capture) -> None:
    """Three copies would show no spread, and call any difference a change."""
    base, (new,) = made_runs.side(3, 1, noise=0.05), made_runs.side(1, 2, noise=0.05)
    shuffled = copy.deepcopy(new)
    shuffled["benchmarks"].reverse()
    status, document = compared(capsys, *sides(tmp_path, base, [new, shuffled, new]))
    assert document["copies"] == [
        f"{tmp_path}/n{i}.json repeats {tmp_path}/n0.json: it counts once" for i in (1, 2)
    ]
    assert {tuple(row["launches"]) for row in document["rows"]} == {(3, 1)}
    assert len(document["new"]) == 1
    assert status != 1
    run(*sides(tmp_path, base, [new, new]))
    assert "repeats" in capsys.readouterr().out


def test_runs_with_equal_figures_at_different_times_are_no_copies(
    tmp_path: Path, capsys: Capture
) -> None:
    times = [f"2025-03-01T12:00:0{i}+00:00" for i in range(3)]
    documents = [samples.document([A], date=time) for time in times]
    _, document = compared(capsys, *sides(tmp_path, documents, one(A)))
    assert document["rows"][0]["launches"] == [3, 1]


@pytest.mark.parametrize(
    ("key", "base", "new", "told"),
    [
        ("backend", "cuda", "host", "backend: cuda / host"),
        ("device", "NVIDIA H200", "other", "GPU: NVIDIA H200 / other"),
        ("driver_version", "", "other", "driver: unset / other"),
        ("nccl_version", "", "other", "NCCL: unset / other"),
        ("ranks", "2", "4", "ranks: 2 / 4"),
        ("host_name", "node1", "node2", "host: node1 / node2"),
        ("hosts", "node1, node2", "node1, node3", "host: node1, node2 / node1, node3"),
        ("num_cpus", 64, 8, "cpus: 64 / 8"),
        ("host_cores", "2", "1", "cores: 2 / 1"),
        ("gate", "on", "off", "gate: on / off"),
        ("injected_fault", "", "throttle@make", "fault: unset / throttle@make"),
        ("env_NCCL_ALGO", "", "Tree", "variables: unset / NCCL_ALGO=Tree"),
        ("env_NCCL_ALGO", "Ring", "Tree", "variables: NCCL_ALGO=Ring / NCCL_ALGO=Tree"),
        ("env_CUDA_MODULE_LOADING", "LAZY", "", "variables: CUDA_MODULE_LOADING=LAZY / unset"),
    ],
)
def test_another_machine_or_setting_is_named_and_incomparable(
    key: str, base: object, new: object, told: str, tmp_path: Path, capsys: Capture
) -> None:
    made = one(A), one(A)
    for (document,), value in zip(made, (base, new), strict=True):
        document["context"] |= {"env_NCCL_PROTO": "LL"} | ({key: value} if value else {})
    arguments = sides(tmp_path, *made)
    status, document = compared(capsys, *arguments)
    (row,) = document["rows"]
    assert (status, row["verdict"], row["reason"]) == (3, "incomparable", told)
    status, document = compared(capsys, *arguments, "--across", told.split(":")[0])
    # The spread between runs of different backends is unknown.
    expected = (3, "inconclusive") if key == "backend" else (0, "same")
    assert (status, document["rows"][0]["verdict"]) == expected
    assert document["differences"] == [told]


@pytest.mark.parametrize("mixed", ["base", "new"])
def test_runs_of_one_side_on_different_gpus_are_incomparable(
    mixed: str, tmp_path: Path, capsys: Capture
) -> None:
    made = {name: side(3, seed) for seed, name in enumerate(("base", "new"))}
    made[mixed][1]["context"]["device"] = "NVIDIA B200"
    status, document = compared(capsys, *sides(tmp_path, made["base"], made["new"]))
    assert status == 3
    assert {row["verdict"] for row in document["rows"]} == {"incomparable"}
    both = "NVIDIA B200 and NVIDIA H200"
    expected = f"{both} / NVIDIA H200" if mixed == "base" else f"NVIDIA H200 / {both}"
    assert document["differences"] == [f"GPU: {expected}"]


def test_one_run_a_side_of_an_unrecorded_backend_decides_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    """A/A on a busy host once read +79 %."""
    made = one(A, B, backend="host"), one(A | {"real_time": 1.79}, B, backend="host")
    status, document = compared(capsys, *sides(tmp_path, *made))
    assert status == 3
    assert {row["verdict"] for row in document["rows"]} == {"inconclusive"}
    assert [row["fails"] for row in document["rows"]] == [True, False]
    assert run(*sides(tmp_path, made[0], made[0])) == 3
    reason = "time +79.0 %; the spread between runs is unknown: compare three or more per side"
    assert document["rows"][0]["reason"] == reason
    assert document["rows"][0]["findings"][0]["floor"] is None
    run(*sides(tmp_path, *made))
    out = capsys.readouterr().out
    assert "nothing was decided" in out
    assert "+79.0 %   unknown  unknown\n" in out


def test_a_wide_interval_that_includes_no_change_is_not_called_the_same(
    tmp_path: Path, capsys: Capture
) -> None:
    """The interval decides, not the change: 8 % may be 0, and may be 18."""
    made = made_runs.side(5, 1, noise=0.025), made_runs.side(5, 2, {SLOW: 1.055}, noise=0.025)
    status, document = compared(capsys, *sides(tmp_path, *made))
    (row,) = (row for row in document["rows"] if row["name"] == SLOW)
    (finding,) = row["findings"]
    assert finding["low"] < 0 < 0.02 < finding["change"] < 0.10 < finding["high"]
    assert (row["verdict"], status) == ("inconclusive", 0 if document["guarded"] else 3)
    assert row["reason"].endswith("; a change beyond the limit of 10 % is not ruled out")


def test_corrections_count_the_figures_of_all_metrics(tmp_path: Path, capsys: Capture) -> None:
    """Twice the figures: all of the time, and as many rates."""
    made = side(5, 1), side(5, 2)
    widths = []
    for rate in (False, True):
        for document in (*made[0], *made[1]):
            for row in document["benchmarks"] if rate else ():
                row["busbw_GBps"] = 100 / row["real_time"]
        _, document = compared(capsys, *sides(tmp_path, *made))
        finding = next(
            f
            for r in document["rows"]
            if r["name"] == SLOW
            for f in r["findings"]
            if f["metric"] == "time"
        )
        widths.append((finding["high"] - finding["low"]) / finding["error"])
    assert widths[1] > 1.02 * widths[0]
