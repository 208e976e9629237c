"""A stored baseline: a folder of launches, and beside them the spreads that calibration found.

baseline/launch-1.json ...   results, each with its context
baseline/spreads.toml        floors.py
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from overlapbench.judge.known import known_prior, typical_ms
from overlapbench.judge.side import Side, distinct, within_of
from overlapbench.output import ResultError, replace_files
from overlapbench.reading.counters import TIME
from overlapbench.reading.launch import Launch, read_launches
from overlapbench.statistics import estimates

SPREADS = "spreads.toml"
_LAUNCHES = "launch-*.json"


def store(folder: Path, results: Sequence[bytes]) -> None:
    """Replace the launches in a folder; ResultError if it is not writable."""
    files = {f"launch-{i + 1}.json": content for i, content in enumerate(results)}
    before = {path.name for path in folder.glob(_LAUNCHES)}
    replace_files(folder, files, outdated=before - files.keys())


def files_of(folder: Path) -> list[Path]:
    """Return the files of a baseline, launches and spreads."""
    return [*folder.glob(_LAUNCHES), *spreads_of(folder)]


def spreads_of(folder: Path) -> list[Path]:
    """Return the file of spreads that calibration stored in a baseline, if it did."""
    return [path for path in (folder / SPREADS,) if path.exists()]


def read_baseline(folder: Path) -> list[Launch]:
    """Read the launches of a folder, without copies; ResultError if there is none."""
    paths = sorted(folder.glob(_LAUNCHES))
    if not paths:
        raise ResultError(
            f"{folder}: no baseline: there is no {_LAUNCHES};"
            " overlapbench gate baseline records one"
        )
    return distinct(read_launches(map(str, paths)))[0]


def calibrate(launches: Sequence[Launch]) -> Mapping[str, Mapping[str, float]]:
    """Return the deviation between launches of one build, by benchmark and metric.

    Alternate launches form two sides of an A/A comparison. Rows with a problem are left out.
    """
    side = Side.collect("calibration", launches)
    known = known_prior(side.context["backend"], [*side.benchmarks], typical_ms(side.badness(TIME)))
    spreads: dict[str, dict[str, float]] = {}
    for metric in side.table.judged:
        values = side.badness(metric)
        within = within_of(side.errors)
        found = estimates.estimate(values[:, ::2], values[:, 1::2], within, known)
        for name, deviation in zip(side.benchmarks, found.deviation, strict=True):
            if np.isfinite(deviation) and not side.problem(name):
                spreads.setdefault(name, {})[metric] = float(deviation)
    return spreads
