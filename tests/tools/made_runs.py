"""Runs made up for the tests of comparing: sides of result files with known noise.

    python tests/tools/made_runs.py FOLDER

writes 200 files, to time a large comparison.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import samples
from samples import Json

NAMES = tuple(f"Compute/Gemm/n:{n}/cache:cold" for n in range(16, 16 * 13, 16))


def run(times: Mapping[str, float], **context: str) -> Json:
    """Make a result with a row for each time, in ms."""
    rows = [samples.row(name, real_time=time) for name, time in times.items()]
    return samples.document(rows, **context)


def side(
    runs: int, seed: int, slower: Mapping[str, float] | None = None, noise: float = 0.003
) -> list[Json]:
    """Make runs of NAMES; `slower` has factors."""
    random = np.random.default_rng(seed)
    return [
        run(
            {
                name: (slower or {}).get(name, 1.0) * float(np.exp(noise * random.normal()))
                for name in NAMES
            }
        )
        for _ in range(runs)
    ]


def write_side(folder: Path, name: str, documents: Sequence[Json]) -> list[str]:
    """Write runs as files and return their paths."""
    return [
        str(samples.write(folder / f"{name}{i}.json", document))
        for i, document in enumerate(documents)
    ]


def large(rows: int, seed: int) -> Json:
    """Make a run with all the counters that a row of a pair has."""
    random = np.random.default_rng(seed)
    made = []
    for n, factor in enumerate(np.exp(0.01 * random.normal(size=rows)).tolist()):
        counters: Json = dict.fromkeys(_COUNTERS, 0.5) | {"cv": 0.004, "samples": 60.0}
        counters["busbw_GBps"] = 240.0 * factor
        made.append(
            samples.overlap(f"AllToAll+Gemm/bytes:67108864/n:{n}/grid:16x16/cache:cold", **counters)
            | {"real_time": factor}
        )
    return samples.document(made)


_COUNTERS = (
    *("algbw_GBps", "comm_slowdown", "comp_slowdown", "coverage", "cv", "efficiency"),
    *("exposed_comm_ms", "hidden_comm", "max_rel_err", "p05_ms", "p95_ms", "samples"),
    *("skew_us", "speedup"),
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(200):
        samples.write(folder / f"{'base' if i < 100 else 'new'}-{i:03}.json", large(2000, i))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
