"""Comparing results: the function of `overlapbench compare` and of scripts."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from overlapbench.judge.findings import MAX_FLOOR
from overlapbench.judge.floors import read_floors
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import Comparison, compare_sides
from overlapbench.output import ResultError
from overlapbench.reading.launch import read_launches
from overlapbench.reading.result import Results

Files = str | Path | Iterable[str | Path] | Results


def compare(
    old: Files,
    new: Files,
    *,
    across: Collection[str] = (),
    max_floor: float = MAX_FLOOR,
    floors: Sequence[str | Path] = (),
) -> Comparison:
    """Compare results of two builds, machines or settings, as `overlapbench compare` does.

    old        a file, a glob such as "base/*.json", or several of them; each file is one launch;
               or what `read` returned; after `filter`, only the chosen rows are compared
    new        likewise
    across     what may differ between the sides, such as "driver"
    max_floor  the limit, as a share: a larger change must not go unseen
    floors     TOML files that say how large a change must be to count (docs/comparing.md)

    The comparison has a row for each benchmark, worst first, an exit status, and `ok`.

    ResultError  a file cannot be read or is not a result: one line with the file and the field
    """
    sides = {"base": _sources(old), "new": _sources(new)}
    if [*sides["base"], *sides["new"]].count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    known = read_floors([Path(one) for one in floors])
    base, other = (
        _chosen(Side.of_files(name, read_launches(sides[name])), files)
        for name, files in (("base", old), ("new", new))
    )
    return compare_sides(base, other, known, across, max_floor)


def _sources(files: Files) -> list[str]:
    if isinstance(files, Results):
        return [*files.sources]
    return [str(one) for one in ([files] if isinstance(files, str | Path) else files)]


def _chosen(side: Side, files: Files) -> Side:
    """Return the side with the rows of filtered results alone."""
    if not isinstance(files, Results):
        return side
    names = {str(row.name) for row in files.rows}
    return side.of([name for name in side.benchmarks if name in names])
