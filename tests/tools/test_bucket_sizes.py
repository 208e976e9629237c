"""The size of buckets that a step's parts predict, in made sweeps and in recorded ones."""

import json
from pathlib import Path

import pytest

import samples
from overlapbench.cli import chart
from overlapbench.reading.result import Row, parse_result, read_results
from overlapbench.view.bucket_sizes import predict_bucket_sizes
from samples import Json

RECORDED = Path(__file__).parents[2] / "docs/results/h200x2"
MOST_LOSS_PCT = 2.0  # that a prediction may cost


def bucket_row(size: int, bound_ms: float, time_ms: float, valid: float = 1.0) -> Json:
    name = f"Ddp/Buckets/layers:24/bucket_bytes:{size << 20}/cache:cold"
    return samples.row(name, bound_ms=bound_ms, real_time=time_ms, valid=valid)


def rows_of(*rows: Json, interval: float = 0.0) -> list[Row]:
    document = samples.with_intervals(samples.stated(samples.document(list(rows))), interval)
    return list(parse_result("run.json", json.dumps(document)).rows)


def sizes(rows: list[Row]) -> list[tuple[str | None, str | None]]:
    return [
        (one.predicted.name.axis("bucket_bytes"), one.best.name.axis("bucket_bytes"))
        for one in predict_bucket_sizes(rows)
    ]


def mebibytes(count: int) -> str:
    return str(count << 20)


def test_the_least_bound_predicts_and_the_step_has_no_say() -> None:
    made = (bucket_row(1, 6.0, 8.0), bucket_row(32, 5.0, 7.7), bucket_row(256, 5.5, 7.0))
    assert sizes(rows_of(*made)) == [(mebibytes(32), mebibytes(256))]
    [prediction] = predict_bucket_sizes(rows_of(*made))
    assert prediction.loss_pct == pytest.approx(10)
    assert prediction.sentence == (
        "Ddp/Buckets · layers 24: the parts predict buckets of 32 MiB, 7.7 ms;"
        " the fastest are of 256 MiB, 7 ms; the prediction loses 10.0 %"
    )


@pytest.mark.parametrize(("interval", "predicted"), [(0.0, 1), (0.004, 1), (0.006, 32)])
def test_of_bounds_that_cannot_be_told_apart_the_largest_size_is_predicted(
    interval: float, predicted: int
) -> None:
    made = (bucket_row(1, 5.0, 7.0), bucket_row(32, 5.05, 7.0), bucket_row(256, 6.0, 7.0))
    [(size, _)] = sizes(rows_of(*made, interval=interval))
    assert size == mebibytes(predicted)


def test_a_sweep_is_two_trusted_sizes_with_all_else_alike() -> None:
    least = bucket_row(1, 4.0, 4.0)
    other = bucket_row(32, 5.0, 5.0)
    copied = samples.row(
        str(other["name"]).replace("/cache", "/transport:copy/cache"), bound_ms=5.0, real_time=5.0
    )
    assert sizes(rows_of(least)) == []
    assert sizes(rows_of(least, copied)) == []
    assert sizes(rows_of(least, other | {"valid": 0.0})) == []
    assert sizes(rows_of(least, other, copied)) == [(mebibytes(1), mebibytes(1))]
    assert sizes(rows_of(least, other, bucket_row(64, 3.0, 3.0, valid=0.0))) == [
        (mebibytes(1), mebibytes(1))
    ]


@pytest.mark.parametrize(
    ("file", "sweeps"),
    [("training.json", 2), ("training-long.json", 2), ("training-layers.json", 1)],
)
def test_what_was_recorded_is_predicted(file: str, sweeps: int) -> None:
    [result] = read_results([str(RECORDED / file)])
    predictions = predict_bucket_sizes(result.rows)
    assert len(predictions) == sweeps
    for prediction in predictions:
        assert prediction.loss_pct <= MOST_LOSS_PCT, prediction.sentence


def test_the_console_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = samples.write(tmp_path / "run.json", samples.document(samples.buckets()))
    assert chart.main([str(made), "-o", str(tmp_path / "charts")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "the parts predict" in line]
    assert [line.partition(":")[0] for line in lines] == [
        "Ddp/Buckets · layers 24 · width 4096",
        "Ddp/Buckets · layers 24 · width 4096 · transport copy",
    ]
