"""Figures with intervals in the documents are those of the recorded results."""

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pytest

import overlapbench as ob
from overlapbench.statistics.intervals import digits

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
Interval = tuple[float, float, float]  # the value, and the ends of its interval

# As 3.326 ±0.012 and 3.326 ms (3.317 to 3.342).
HALVES = re.compile(r"(?<![\d.])(-?\d+(?:\.\d+)?)(?: ms| GB/s| %)? ±(\d+(?:\.\d+)?)")
ENDS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(?: ms| %)? \((\d+(?:\.\d+)?) to (\d+(?:\.\d+)?)")
# Whose ends other commands compute: predictions, ratios of two rows, and rates of mutants.
COMPUTED = {"more-gpus", "peers", "trust"}


def recorded() -> Iterator[Interval]:
    """Yield every figure of the recorded rows, in ms as well as in us, and in percent."""
    for path in sorted((ROOT / "docs/results").glob("*/*.json*")):
        text = gzip.decompress(data) if (data := path.read_bytes())[:2] == b"\x1f\x8b" else data
        for row in json.loads(text)["benchmarks"]:
            figures = {**row, "time_ms": row.get("real_time")}
            ends = {key: row.get(f"{key}_low") for key in row} | {"time_ms": row.get("time_low_ms")}
            for key, low in ends.items():
                high = row.get("time_high_ms" if key == "time_ms" else f"{key}_high")
                if low is not None and high is not None:
                    yield from ((s * figures[key], s * low, s * high) for s in (1, 100, 1000))


@pytest.fixture(scope="module")
def figures() -> list[Interval]:
    return sorted(recorded())


def rounds(value: float, shown: str) -> bool:
    return abs(value - float(shown)) <= 0.5000001 * 10.0 ** -len(shown.partition(".")[2])


def alike(figures: list[Interval], shown: str) -> list[Interval]:
    """Return the figures that are written so."""
    slack = 10.0 ** -len(shown.partition(".")[2])
    first = bisect_left(figures, float(shown) - slack, key=itemgetter(0))
    last = bisect_right(figures, float(shown) + slack, key=itemgetter(0))
    return [one for one in figures[first:last] if rounds(one[0], shown)]


def test_figures_are_seen() -> None:
    assert sum(len(HALVES.findall(path.read_text(encoding="utf-8"))) for path in DOCUMENTS) > 150


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_figures_are_recorded(path: Path, figures: list[Interval]) -> None:
    text = (
        path.read_text(encoding="utf-8")
        .replace(",", "")
        .replace("**", "")
        .replace("\N{MINUS SIGN}", "-")
    )
    wrong = [
        f"{value} ±{half}"
        for value, half in HALVES.findall(text)
        if not any(
            rounds(max(high - middle, middle - low), half) or rounds((high - low) / 2, half)
            for middle, low, high in alike(figures, value)
        )
    ]
    if path.stem not in COMPUTED:
        wrong += [
            f"{value} ({first} to {last})"
            for value, first, last in ENDS.findall(text)
            if not any(
                rounds(low, first) and rounds(high, last) for _, low, high in alike(figures, value)
            )
        ]
    assert wrong == []


def test_the_page_about_more_gpus_has_what_is_predicted() -> None:
    """After a change of the model: the page's command prints its table, and draws its picture."""
    page = (ROOT / "docs/how-to/more-gpus.md").read_text(encoding="utf-8")
    results = ROOT / "docs/results/h100x2/predictions.json.gz"
    gpus = [2, 8, 16, 64, 256]
    for found in ob.predict(results, "Fsdp.*prefetch:1/cache", gpus=gpus, network=50):
        ends = f"({digits(found.low, 3)} to {digits(found.high, 3)})"
        assert f"| {found.ranks} | {found.hosts} | {digits(found.ms)} {ends} |" in page, found
