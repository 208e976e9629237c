"""Made-up histories: nightly runs with known noise and known changes of level.

    python tests/tools/histories.py FOLDER

writes the files of the example in docs/history.md.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import samples
from overlapbench.judge.history import Machine, Run
from overlapbench.judge.series import Point, Series
from overlapbench.reading.counters import TIME, stored_table
from overlapbench.statistics.distributions import Array
from samples import Json

START = datetime(2026, 1, 5, 3, tzinfo=UTC)
AXES = "bytes:67108864/n:4096/grid:16x16/cache:cold"
TIMES_MS = {"AllToAll": 0.44, "AllReduce": 0.61, "AllGather": 0.52}
# The run from which on a level is different -> its factor.
Steps = Mapping[int, float]
EXAMPLE: Mapping[str, Steps] = {"AllToAll": {24: 1.08}, "AllReduce": {15: 0.94, 33: 1.05}}


def nightly(runs: int, seed: int, steps: Mapping[str, Steps]) -> list[Json]:
    """Make results of pairs, three days apart, each of a revision of its own."""
    columns = [levels(runs, steps.get(name, {})) * noise(runs, seed + i)
               for i, name in enumerate(TIMES_MS)]  # fmt: skip
    return [
        samples.document(
            [
                samples.overlap(f"{name}+Gemm/{AXES}", comp=0.3, comm=0.2, efficiency=0.5)
                | {"real_time": float(time_ms * column[run])}
                for (name, time_ms), column in zip(TIMES_MS.items(), columns, strict=True)
            ],
            date=(START + timedelta(days=3 * run)).isoformat(),
            git_revision=revision(run),
            backend="host",
            device="simulated",
        )
        for run in range(runs)
    ]


def revision(run: int) -> str:
    return f"{(run + 1) * 2654435761 % 2**32:08x}"


def levels(runs: int, steps: Steps) -> Array:
    """Return the level of each run, 1 before the first step."""
    level = np.ones(runs)
    for start, factor in steps.items():
        level[start:] *= factor
    return level


def noise(runs: int, seed: int, deviation: float = 0.01, outliers: float = 0.02) -> Array:
    """Return factors of heavy-tailed noise, some of them 10 to 50 % too slow."""
    random = np.random.default_rng(seed)
    logs = deviation * random.standard_t(4, runs) / np.sqrt(2)
    slow = (random.random(runs) < outliers) * random.uniform(0.1, 0.5, runs)
    return np.asarray(np.exp(logs + slow))


def series(values: Sequence[float], metric: str = TIME) -> Series:
    """Make a series as the history would give it."""
    machine = Machine((("GPU", "NVIDIA H200"),))
    points = (
        Point(
            Run(f"{i}.json", f"{START + timedelta(days=i):%Y-%m-%dT%H:%M:%S+00:00}", revision(i),
                "node1", machine, "", (), i + 1),
            float(value),
            float(value),
        )
        for i, value in enumerate(values)
    )  # fmt: skip
    counter = stored_table().counters[metric]
    return Series(f"Overlap/AllToAll+Gemm/{AXES}", counter, machine, tuple(points))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run, document in enumerate(nightly(40, 1, EXAMPLE)):
        (folder / f"run-{run:02}.json").write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
