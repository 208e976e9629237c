"""Launches made up for the tests of comparing: sides of result files with known noise."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import samples
from samples import Json

NAMES = tuple(f"Compute/Gemm/n:{n}/cache:cold" for n in range(16, 16 * 13, 16))


def launch(times: Mapping[str, float], **context: str) -> Json:
    """Make a result with a row for each time, in ms."""
    rows = [samples.row(name, real_time=time) for name, time in times.items()]
    return samples.document(rows, **context)


def side(
    launches: int, seed: int, slower: Mapping[str, float] | None = None, noise: float = 0.003
) -> list[Json]:
    """Make launches of NAMES; `slower` has factors."""
    random = np.random.default_rng(seed)
    return [
        launch(
            {
                name: (slower or {}).get(name, 1.0) * float(np.exp(noise * random.normal()))
                for name in NAMES
            }
        )
        for _ in range(launches)
    ]


def write_side(folder: Path, name: str, documents: Sequence[Json]) -> list[str]:
    """Write launches as files and return their paths."""
    return [
        str(samples.write(folder / f"{name}{i}.json", document))
        for i, document in enumerate(documents)
    ]
