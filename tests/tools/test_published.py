"""Predictions beside tables that others published."""

import json

import pytest

import prediction_errors
from overlapbench.prediction.links import Asked, Point, links_of, time_of
from overlapbench.prediction.published import LLM_FOUNDRY, fit_scale
from overlapbench.prediction.schedules import read_rows
from overlapbench.reading.source import load
from predictable import Machine, fsdp
from prediction_errors import ASYNCHRONOUS, RESULTS, asynchronous_gain, at_scale

GIB = 1 << 30
COLLECTIVES = str(RESULTS / "h200x4/collectives.json.gz")
SLOWDOWN = 1.08  # of a product beside copies, as recorded on two H100


def test_what_a_step_gains_from_asynchronous_collectives_is_its_hidden_time() -> None:
    row = fsdp(Machine(), 8, 1)
    times = {("AllGather", "nccl"): (1, 3.0), ("AllGather", "copy"): (1, 2.0),
             ("ReduceScatter", "nccl"): (2, 6.0), ("ReduceScatter", "copy"): (2, 5.0)}  # fmt: skip
    links = {(*key, 8, 1): [Point(gib * GIB, ms, row)] for key, (gib, ms) in times.items()}
    layer = 16 * 8192 / 8 / 897 * 1e3 / 80
    product = (layer - 6 * 3 - 5 * 6) * 1024 / 48640  # beside a sum that takes longer
    saved = 6 * (3 - 2 * 0.2) + (6 - 5 * 0.2) + 2 * (product + 6 - (5 + product / 8))
    gain = asynchronous_gain(ASYNCHRONOUS[0], links, 1.25)
    assert gain == pytest.approx(layer / (layer - saved))
    moved = 2 * (6 * GIB + 3 * 2 * GIB) / 2400e6
    gain = asynchronous_gain(ASYNCHRONOUS[0], links, 1.25, saved=0.5, copies=1)
    assert gain == pytest.approx(layer / (layer - (saved + moved) / 2))


def test_the_published_gain_of_asynchronous_collectives_is_predicted_and_can_be_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = links_of(read_rows([str(RESULTS / "h200x8/collectives.json.gz")]))
    published = ASYNCHRONOUS[0]
    near = 0.3 * (published.gain - 1)
    gain = asynchronous_gain(published, links, SLOWDOWN)
    assert abs(gain - published.gain) < near
    assert asynchronous_gain(published, links, 1.0) > gain + 0.005  # copies disturb nothing
    # The sums of several products in chunks, too.
    whole = (*prediction_errors._CHUNKED, ("ReduceScatter", 7168, 1), ("ReduceScatter", 1280, 1))
    monkeypatch.setattr(prediction_errors, "_CHUNKED", whole)
    assert asynchronous_gain(published, links, SLOWDOWN) > published.gain + near


def test_without_the_rows_it_needs_no_gain_is_predicted() -> None:
    assert [*prediction_errors._asynchronous_gains(read_rows([COLLECTIVES]))] == []


def test_pytorch_saves_the_share_of_what_is_predicted_that_the_interval_assumes() -> None:
    source = str(RESULTS / "h200x4/training-peers.json.gz")
    entries = json.loads(load(source))["benchmarks"]
    measured = {entry["name"]: entry["real_time"] for entry in entries}
    links = links_of(read_rows([COLLECTIVES]))
    shares = []
    for layer, collective in (("Column", "AllGather"), ("Row", "ReduceScatter")):
        for tokens in (8192, 16384):
            sequence_ms, fused_ms = (
                measured[
                    f"Comm/{layer}Parallel/peer:{peer}/model:llama70b/tokens:{tokens}/cache:cold"
                ]
                for peer in ("sequence", "fused")
            )
            exposed_ms, copied_ms = (
                time_of(links, Asked(collective, by, 2 * 8192 * tokens), 4)
                for by in ("nccl", "copy")
            )
            hidden_ms = exposed_ms - copied_ms * (1 - 1 / SLOWDOWN)
            shares.append((sequence_ms - fused_ms) / hidden_ms)
    least, most = (ends["saved"] for ends in prediction_errors._ASSUMED)
    assert min(shares) == pytest.approx(least, abs=0.01)
    assert max(shares) < most


def test_the_law_of_scale_is_that_of_the_published_table() -> None:
    a_ms, b = fit_scale(LLM_FOUNDRY)
    assert (a_ms, b) == pytest.approx((0.3310166, 0.01410774), rel=1e-6)
    # 16,384 tokens at 1,058 a second, and 3 collectives in each of 80 layers.
    first = 16384e3 / 1058
    assert at_scale(LLM_FOUNDRY[0], 2, 0.3, 0.01) == first + 2 * (0.3 * 3 * 80 + 0.01 * first)
    off = [at_scale(one, 2, a_ms, b) / one.step_ms(512) - 1 for one in LLM_FOUNDRY]
    assert max(map(abs, off)) < 0.03
