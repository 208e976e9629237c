"""Predictions of machines whose times alone and slowdowns are known, and what is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

import overlapbench as ob
import predictable
from overlapbench.cli import main
from overlapbench.output import ResultError
from overlapbench.prediction.answers import beside_measured
from overlapbench.prediction.factors import HANDOVER_MS, pairs_of, rules_of
from overlapbench.prediction.links import Asked, Network, time_of
from overlapbench.prediction.model import Book, Prediction, Question, inputs_of, replayed
from overlapbench.prediction.published import LLM_FOUNDRY, fit_scale
from overlapbench.prediction.schedules import read_rows
from overlapbench.reading.names import BenchmarkName
from overlapbench.view.console import Screen
from overlapbench.view.prediction import HEADS, specification, text_of
from predictable import LAYER_BYTES, LAYERS, RECORDED, Machine, ddp, fsdp, wanted

MACHINE = Machine()
OTHER = BenchmarkName.parse("Ddp/Overlap/layers:8/transport:copy/cache:cold")


# ---- predictions


@pytest.fixture(scope="module")
def steps_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [ddp(MACHINE, 2, size, by) for by in ("nccl", "copy") for size in (1, 2)]
    rows += [fsdp(MACHINE, 2, ahead) for ahead in (0, 1)]
    return predictable.write(tmp_path_factory.mktemp("steps") / "steps.json", rows)


def test_a_measured_row_is_predicted_from_its_parts(steps_file: str) -> None:
    found = ob.predict(steps_file)
    assert len(found) == 6
    for one in found:
        assert one.measured == pytest.approx(one.ms, rel=0.002)
        assert one.low < one.ms < one.high
        parts = one.computation + one.link + one.contention + one.prior
        assert parts == pytest.approx(one.ms)
        assert one.prior == 0


@pytest.mark.parametrize("size", [3, 4])
def test_other_buckets_are_predicted_from_those_measured(size: int, steps_file: str) -> None:
    (found,) = ob.predict(steps_file, "Ddp/.*transport:copy", bucket_bytes=size * LAYER_BYTES)
    assert found.measured is None
    # Sums of sizes that were not measured take as long as the line through those that were.
    assert found.ms == pytest.approx(wanted(ddp(MACHINE, 2, size, "copy")), rel=0.01)


def test_layers_gathered_further_ahead_are_predicted(steps_file: str) -> None:
    (found,) = ob.predict(steps_file, "Fsdp", prefetch=2)
    assert found.ms == pytest.approx(wanted(fsdp(MACHINE, 2, 2)), rel=0.01)


def test_another_transport_is_taken_from_the_rows_that_have_it(steps_file: str) -> None:
    found = ob.predict(steps_file, "Ddp/", transport=["copy", "nccl"], bucket_bytes="32M")
    assert ["transport:copy" in one.name for one in found] == [True, False]
    assert [one.measured for one in found] == [
        wanted(ddp(MACHINE, 2, 1, by)) for by in ("copy", "nccl")
    ]


def test_more_gpus_take_the_weight_of_their_collectives(tmp_path: Path) -> None:
    path = predictable.write(tmp_path / "few.json", [fsdp(MACHINE, 2, 1, "copy")])
    (found,) = ob.predict(path, gpus=4)
    assert found.ms == pytest.approx(wanted(fsdp(MACHINE, 4, 1, "copy")), rel=0.02)


def test_results_without_schedules_are_tables_of_collectives_and_pairs() -> None:
    rows = read_rows([str(RECORDED / "h200x2/overlap.json"), str(RECORDED / "h200x2/comm.json")])
    assert {row.name.family for row in rows} == {"Comm", "Overlap"}
    book = Book(rows)
    pairs = [row for row in rows if row.name.family == "Overlap"]
    assert len(pairs) == 64  # of collectives, without other settings
    off = [abs(replayed(book, row) / row.own.time.ms - 1) for row in pairs if row.own.time]
    assert mean(off) < 0.01
    assert max(off) < 0.05
    (small,) = (row for row in pairs if str(row.name).endswith("grid:1x1/work:tile/cache:cold"))
    assert [pair.waits for pair in pairs_of(small)] == [0]  # it leaves SMs free


def test_a_handover_is_the_measured_one_where_a_result_has_it(tmp_path: Path) -> None:
    document = predictable.document([ddp(MACHINE, 2, 1)])
    for told, handover_ms in (("1.66 us on the same stream, 2.29 us on another", 0.00229),
                              ("", HANDOVER_MS)):  # fmt: skip
        document["context"]["handover"] = told
        (tmp_path / "steps.json").write_text(json.dumps(document))
        (row,) = read_rows([str(tmp_path / "steps.json")])
        assert rules_of(row, [], []).handover_ms == pytest.approx(handover_ms)


def test_a_transport_whose_pairs_were_not_measured_is_refused(tmp_path: Path) -> None:
    steps_ = [ddp(MACHINE, 2, 1), ddp(MACHINE, 2, 1, "copy")]
    silent = replace(steps_[1], runs=tuple(r for r in steps_[1].runs if len(r.owners) == 1))
    path = predictable.write(tmp_path / "steps.json", [steps_[0]])
    sums = predictable.write(tmp_path / "sums.json", [replace(silent, name=OTHER)])
    with pytest.raises(ResultError, match=r"sum 1 by copy and computation .* not known: measure"):
        ob.predict([path, sums], "Ddp/", transport="copy")


def test_more_hosts_add_the_law_of_scale(steps_file: str) -> None:
    few, many = ob.predict(steps_file, "Fsdp.*prefetch:1", gpus=[16, 256], network=1e5)
    a_ms, b = fit_scale(LLM_FOUNDRY)
    for one, doublings in ((few, 1), (many, 5)):
        rest = one.ms - one.prior
        assert one.prior == pytest.approx(doublings * (a_ms * 2 * LAYERS + b * rest))
    (slow,) = ob.predict(steps_file, "Fsdp.*prefetch:1", gpus=16, network=1)
    assert slow.link > 5 * few.link
    assert slow.high / slow.ms < 2


def test_the_interval_follows_the_inputs_and_the_residual(tmp_path: Path) -> None:
    row = ddp(MACHINE, 2, 1)
    rough = replace(row, runs=tuple(
        replace(run, time=replace(run.time, spread=0.1) if run.time else None) for run in row.runs
    ))  # fmt: skip
    widths = []
    for place, one in enumerate((row, rough)):
        document = predictable.document([one])
        for run in document["benchmarks"][0]["schedules"]["runs"]:
            ms, share = run["ms"], 0.002 if one is row else 0.2
            run |= {"ms_low": ms * (1 - share), "ms_high": ms * (1 + share)}
        path = tmp_path / f"{place}.json"
        path.write_text(json.dumps(document))
        (found,) = ob.predict(path)
        widths.append((found.high - found.low) / found.ms)
    assert widths[0] == pytest.approx(0.2, abs=0.02)  # the usual residual, both ways
    assert widths[1] > widths[0] + 0.1


def test_a_slower_network_disturbs_what_moves_bytes_less_and_no_product() -> None:
    base = fsdp(MACHINE, 2, 1)
    bytes_ = replace(base.works[0], flops=0.0, moved_bytes=1e9)
    mixed = replace(base, works=(bytes_, *base.works[1:]))
    book = Book([mixed, fsdp(MACHINE, 8, 1)])
    network = Network(1.0, 1e-9)
    found = inputs_of(book, mixed, Question(gpus=16, network=network))
    inside, crossing = (time_of(book.links, Asked("AllGather", "nccl", LAYER_BYTES), *on, network)
                        for on in ((8, 1), (16, 2)))  # fmt: skip
    excess = (MACHINE.comp_slowdown - 1) * inside / crossing
    assert crossing > 4 * inside
    assert found.slowdown[0][2] == pytest.approx(1 + excess, rel=0.01)
    assert found.slowdown[1][2] == inputs_of(book, mixed, Question()).slowdown[1][2]


# ---- the command, and files that do not suffice


def test_the_command_prints_a_table_and_json(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", steps_file, "--benchmark", "Ddp", "--bucket-bytes", "32M,64M"]) == 0
    text = capsys.readouterr().out
    assert "contention" in text
    assert text.count("bucket_bytes:33554432") >= 2  # by NCCL and by copy
    assert main(["predict", steps_file, "--benchmark", "Fsdp", "--gpus=2,16", "--json"]) == 0
    printed = capsys.readouterr()
    assert [one["ranks"] for one in json.loads(printed.out)] == [2, 2]
    assert "not predicted: 2 nodes need a network" in printed.err


def test_the_chart_needs_two_curves_of_points(steps_file: str, tmp_path: Path) -> None:
    picture = tmp_path / "scaling.svg"
    given = ["predict", steps_file, "--benchmark", "Fsdp", "--gpus", "2,4", "-o", str(picture)]
    assert main(given) == 0
    assert "efficiency" in picture.read_text(encoding="utf-8")


def test_the_chart_divides_by_the_fewest_gpus_and_names_the_step_on_the_most() -> None:
    def on(ranks: int, ms: float, network: Network | None = None) -> Prediction:
        return Prediction("Fsdp/a", ranks, 1, network, ms, ms - 1, ms + 1, ms, 0, 0, 0)

    drawn = specification(
        [on(2, 10), on(8, 12.5), on(16, 20, Network(50)), on(64, 40, Network(50))]
    )
    panels = drawn["concat"]
    found = {one["gpus"]: one["efficiency"] for one in panels[1]["data"]["values"]}
    assert found == {2: 100, 8: 80, 16: 50, 64: 25}
    assert drawn["title"]["text"] == ["On 64 GPUs, the step takes 40.00 ms (39.00 to 41.00)"]


def test_a_prediction_takes_one_line_of_80_columns_and_no_column_is_empty() -> None:
    here = Prediction("Fsdp/a", 2, 1, None, 18.28, 15.94, 20.61, 13, 4.1, 1.1, 0, 20.5)
    far = Prediction("Fsdp/a", 1024, 128, Network(50), 1912, 1000, 2824, 133, 50, 19, 1710)
    head, _, *lines = text_of([here, far], Screen()).splitlines()
    assert [line.split()[0] for line in lines] == ["2", "1024"]
    assert "GB/s" in head
    heads = text_of([here], Screen(100)).splitlines()[0].split()
    assert heads == ["GPUs", "nodes", "ms", *HEADS[4:]]
    assert text_of([far], Screen(100)).splitlines()[0].split() == list(HEADS[:-2])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "version 2 is not supported"),
        ({"runs": []}, "a run has no steps"),
        ({"ranks": 0}, "0 is not at least 1"),
        ({"hosts": math.nan}, "nan is not at least 1"),
        ({"works": [{"name": "a", "class": "COMP", "flops": math.inf}]}, "inf is not at least 0"),
        ({"runs": [{"name": "a", "ms": math.nan, "lanes": [{}], "steps": []}]}, "nan is not"),
        ({"works": []}, "step 0 names what does not exist"),
        ({"runs": [{"name": "a", "lanes": [{}], "steps": [[0, 0, 0, 1, [0]]]}]}, "earlier one"),
    ],
)
def test_schedules_that_are_not_whole_are_refused(
    change: dict[str, object], why: str, tmp_path: Path
) -> None:
    document = predictable.document([ddp(MACHINE, 2, 1)])
    document["benchmarks"][0]["schedules"] |= change
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=f"entry 0: schedules: malformed: .*{why}"):
        read_rows([str(path)])


def test_a_report_leaves_out_rows_whose_schedules_it_cannot_read(tmp_path: Path) -> None:
    document = predictable.document([fsdp(MACHINE, 2, 1), ddp(MACHINE, 2, 1)])
    document["benchmarks"][0]["schedules"]["version"] = 2
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(document))
    found, unread = beside_measured([str(path)])
    assert [one.name for one in found] == [document["benchmarks"][1]["name"]]
    (line,) = unread
    assert line.startswith(f"{path}: entry 0: schedules: malformed: ")
    for entry in document["benchmarks"]:
        entry["state"] = "invalid"
    path.write_text(json.dumps(document))
    assert beside_measured([str(path)]) == ([], [])


def test_files_without_schedules_say_what_to_measure(tmp_path: Path) -> None:
    document = predictable.document([ddp(MACHINE, 2, 1)])
    del document["benchmarks"][0]["schedules"]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match="no row has schedules: measure with --predictable"):
        ob.predict(path)


def test_plans_have_schedules_without_times(tmp_path: Path) -> None:
    row = fsdp(MACHINE, 256, 1)
    planned = {"name": str(row.name), "schedules": predictable.schedules(row, planned=True)}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"planned": [planned]}))
    (read,) = read_rows([str(path)])
    assert read.own.time is None
    assert read.own.steps == row.own.steps
    assert not math.isnan(read.works[2].wire_bytes)
