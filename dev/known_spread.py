#!/usr/bin/env python3
"""Measure how much runs of one build differ, for comparisons of two files.

    dev/known_spread.py RUN.json AGAIN.json ...

Reads at least two runs of one build, with each row measured on one machine. Prints, for each
backend, the entry of KNOWN in tools/overlapbench/judge/known.py. Rows with a problem are ignored.

Exit status: 0, or 2 for bad usage, unreadable files, and a backend with a single run.
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

import checkout  # noqa: F401
from overlapbench.cli.command_line import manual_parser, refuse
from overlapbench.grouping import grouped
from overlapbench.judge.known import KNOWN, UNRECORDED, Spread, typical_ms
from overlapbench.judge.side import Side, within_of
from overlapbench.output import ResultError, print_text
from overlapbench.reading.counters import TIME
from overlapbench.reading.names import family_of
from overlapbench.reading.program_run import read_program_runs
from overlapbench.statistics.distributions import Array
from overlapbench.statistics.estimates import Prior, fit_prior

# Rows of at least this time show the relative part, rows of at most this time the absolute one.
_LONG_MS = 0.1
_SHORT_MS = 0.03
# Fewer rows do not determine the absolute part.
_LEAST_SHORT = 10

# A prior alone, with one run per side, must expect tails as heavy as these.
_MOST_FREEDOM = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = manual_parser("known_spread", __doc__)
    parser.add_argument("files", nargs="+", metavar="RUN.json", help="runs; globs")
    options = parser.parse_args(arguments)
    try:
        print_text(_measure(options.files))
    except ResultError as error:
        return refuse("known_spread", str(error))
    return 0


def _measure(files: Sequence[str]) -> str:
    runs = read_program_runs(files)
    lines = []
    for backend in dict.fromkeys(run.context["backend"] for run in runs):
        of_backend = [run for run in runs if run.context["backend"] == backend]
        if len(of_backend) < 2:
            raise ResultError(
                f"{of_backend[0].source}: only one run of {backend!r}: give at least 2"
            )
        lines.append(f'"{backend}": {{')
        spreads = measure_spreads(backend, Side.collect(backend, of_backend))
        for family, (spread, rows) in spreads.items():
            lines.append(
                f'    "{family}": Spread(relative={spread.relative:.4f},'
                f" absolute_ms={spread.absolute_ms:.5f}, freedom={spread.freedom:.1f}),"
                f"  # {rows} rows"
            )
        lines.append("},")
    return "\n".join(lines) + "\n"


def measure_spreads(backend: str, side: Side) -> Mapping[str, tuple[Spread, int]]:
    """Fit the spreads to the times of one build's runs; also return the number of rows."""
    own = KNOWN.get(backend, UNRECORDED)
    good = [name for name, row in side.benchmarks.items() if not row.problem]
    rows = grouped(good, lambda name: family_of(name) if family_of(name) in own else "")
    spreads = {}
    for family in own:
        if family not in rows:
            continue
        chosen = side.of(rows[family])
        spread = _fit(chosen.badness(TIME), within_of(chosen.errors), not family)
        spreads[family] = spread, len(rows[family])
    return spreads


def _fit(values: Array, within: Array, has_absolute: bool) -> Spread:
    time_ms = typical_ms(values)
    long, short = time_ms >= _LONG_MS, time_ms <= _SHORT_MS
    if not has_absolute or not long.any() or short.sum() < _LEAST_SHORT:
        prior = recorded_prior(values, within)
        return Spread(float(prior.between), 0.0, float(prior.freedom))
    prior = recorded_prior(values[long], within[long])
    variance, freedom = own_variance(values[short])
    told = freedom > 0
    # The median, because a few rows deviate by far more; the factor converts it to the mean.
    shares = variance[told] * time_ms[short][told] ** 2 * freedom[told]
    chi_square_medians = special.chdtri(freedom[told], 0.5)
    absolute_ms = float(np.sqrt(np.median(shares / chi_square_medians)))
    return Spread(float(prior.between), absolute_ms, float(prior.freedom))


def recorded_prior(side: Array, within: Array) -> Prior:
    """Fit the prior of a machine to runs of one build."""
    variance, freedom = own_variance(side)
    own = freedom > 0
    found = fit_prior(variance[own], freedom[own], np.nan_to_num(within[own]))
    return Prior(found.between, min(found.freedom, _MOST_FREEDOM))


def own_variance(side: Array) -> tuple[Array, Array]:
    """Return each benchmark's variance between runs of one side, and degrees of freedom."""
    freedom = np.maximum(np.isfinite(side).sum(axis=1) - 1.0, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = (side - np.nanmean(side, axis=1, keepdims=True)) ** 2
        return np.nansum(squares, axis=1) / freedom, freedom


if __name__ == "__main__":
    sys.exit(main())
