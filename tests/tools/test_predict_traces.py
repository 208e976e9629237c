"""A recorded step under other conditions: traces of a machine whose answers are known."""

import json
from pathlib import Path

import pytest

import overlapbench as ob
import predictable
from overlapbench.cli import main
from overlapbench.output import ResultError
from overlapbench.prediction.schedules import Row
from overlapbench.prediction.traced import row_of
from predictable import LAYER_BYTES, RECORDED, Machine, ddp, fsdp

MACHINE = Machine()
SLOW = Machine(GBps=50)  # gathers take longer than what they run beside
MOST = 0.02


def wanted(row: Row) -> float:
    assert row.own.time
    return row.own.time.ms


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [ddp(MACHINE, 2, size, by) for by in ("nccl", "copy") for size in (1, 2)]
    rows += [fsdp(MACHINE, 2, ahead, by) for by in ("nccl", "copy") for ahead in (0, 1)]
    return predictable.write(tmp_path_factory.mktemp("results") / "results.json", rows)


@pytest.mark.parametrize("row", [ddp(MACHINE, 2, 1), ddp(MACHINE, 2, 3, "copy"),
                                 fsdp(MACHINE, 2, 0), fsdp(MACHINE, 2, 2)])  # fmt: skip
def test_an_unchanged_step_takes_its_own_time(row: Row, tmp_path: Path) -> None:
    (found,) = ob.predict(predictable.profiled(MACHINE, row, tmp_path / "trace.json"))
    assert found.measured == pytest.approx(wanted(row), rel=1e-4)
    assert found.error == pytest.approx(0, abs=1e-4)
    assert found.low < found.ms < found.high


@pytest.mark.parametrize("row", ["h200x2/traces/Moe*", "h200x2/traces/Tp*", "host/traces/Pp*1500*"])
def test_recorded_steps_take_their_own_time(row: str) -> None:
    for file in sorted(RECORDED.glob(row)):
        (found,) = ob.predict(file)
        assert found.error == pytest.approx(0, abs=0.01), file


@pytest.mark.parametrize("transport", ["nccl", "copy"])
@pytest.mark.parametrize(("recorded", "size"), [(1, 1), (1, 4), (2, 1)])
def test_other_buckets_and_transports(
    recorded: int, size: int, transport: str, results: str, tmp_path: Path
) -> None:
    trace = predictable.profiled(MACHINE, ddp(MACHINE, 2, recorded), tmp_path / "trace.json")
    bytes_ = size * LAYER_BYTES
    (found,) = ob.predict([trace, results], transport=transport, bucket_bytes=bytes_)
    assert found.ms == pytest.approx(wanted(ddp(MACHINE, 2, size, transport)), rel=MOST)


@pytest.mark.parametrize("transport", ["nccl", "copy"])
def test_other_prefetching_and_transports(transport: str, results: str, tmp_path: Path) -> None:
    trace = predictable.profiled(MACHINE, fsdp(MACHINE, 2, 1), tmp_path / "trace.json")
    for ahead in (0, 1):
        (found,) = ob.predict([trace, results], transport=transport, prefetch=ahead)
        assert found.ms == pytest.approx(wanted(fsdp(MACHINE, 2, ahead, transport)), rel=MOST)


def test_a_trace_tells_how_much_its_works_slow_each_other_down(tmp_path: Path) -> None:
    row = ddp(MACHINE, 2, 1)
    trace = predictable.profiled(MACHINE, row, tmp_path / "trace.json")
    _, pairs = row_of(ob.trace(trace).ranks)
    assert {round(pair.comp_slowdown or 0, 2) for pair in pairs} == {MACHINE.comp_slowdown}
    assert {round(pair.comm_slowdown, 2) for pair in pairs} == {MACHINE.comm_slowdown}
    (found,) = ob.predict(trace, bucket_bytes="64M")  # of a size that the trace has not
    assert found.ms == pytest.approx(wanted(ddp(MACHINE, 2, 2)), rel=MOST)


def test_a_hidden_gather_becomes_slower_only_if_it_is_stated_what_waits(tmp_path: Path) -> None:
    hidden = fsdp(MACHINE, 2, 1, "copy")
    slower = predictable.write(tmp_path / "slower.json", [fsdp(SLOW, 2, 1, "copy")])
    silent = predictable.profiled(MACHINE, hidden, tmp_path / "silent.json")
    with pytest.raises(ResultError, match=r"does not state what waits for AllGather .*: record it"):
        ob.predict([silent, slower], transport="copy")
    stated = predictable.profiled(MACHINE, hidden, tmp_path / "stated.json", stated=True)
    (found,) = ob.predict([stated, slower], transport="copy")
    assert found.ms == pytest.approx(wanted(fsdp(SLOW, 2, 1, "copy")), rel=MOST)


@pytest.mark.parametrize(
    ("row", "sizes", "asked", "why"),
    [
        (ddp(MACHINE, 2, 1), False, {"transport": "copy"}, "states no collective and size"),
        (ddp(MACHINE, 2, 1), False, {"bucket_bytes": "64M"}, "are not buckets of gradients"),
        (fsdp(MACHINE, 2, 0), True, {"prefetch": 1}, "slow each other down is not known: measure"),
        (ddp(MACHINE, 2, 1), True, {"transport": "copy"}, "AllReduce by copy was not measured"),
        (ddp(MACHINE, 2, 1), True, {"gpus": 8}, "tells nothing of other GPUs"),
        (ddp(MACHINE, 2, 1), True, {"prefetch": 1}, "gathers are not one for each use"),
        (ddp(MACHINE, 2, 1), True, {"step": 9}, "no step 9"),
    ],
)
def test_what_a_trace_does_not_tell_is_refused(
    row: Row, sizes: bool, asked: dict[str, int | str], why: str, tmp_path: Path
) -> None:
    trace = predictable.profiled(MACHINE, row, tmp_path / "trace.json", sizes=sizes)
    with pytest.raises(ResultError, match=why) as refusal:
        ob.predict(trace, **asked)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_the_command_reads_a_trace_and_results(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = predictable.profiled(MACHINE, ddp(MACHINE, 2, 1), tmp_path / "trace.json")
    given = ["predict", trace, results, "--transport=nccl,copy", "--bucket-bytes=64M", "--step=1"]
    assert main([*given, "--json"]) == 0
    names = [one["name"] for one in json.loads(capsys.readouterr().out)]
    assert names == [
        "Trace/trace.json ProfilerStep#1/bucket_bytes:67108864",
        "Trace/trace.json ProfilerStep#1/bucket_bytes:67108864/transport:copy",
    ]
