"""Comparing results: the function of `overlapbench compare` and of scripts."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from overlapbench.judge.findings import MAX_FLOOR
from overlapbench.judge.floors import read_floors
from overlapbench.judge.side import Side
from overlapbench.judge.verdicts import Comparison, compare_sides
from overlapbench.reading.launch import read_launches
from overlapbench.reading.source import ResultError

Files = str | Path | Iterable[str | Path]


def compare(
    old: Files,
    new: Files,
    *,
    across: Collection[str] = (),
    max_floor: float = MAX_FLOOR,
    floors: Sequence[str | Path] = (),
) -> Comparison:
    """Compare results of two builds, machines or settings, as `overlapbench compare` does.

    old        a file, a glob such as "base/*.json", or several of them; each file is one launch
    new        likewise
    across     what may differ between the sides, such as "driver"
    max_floor  the limit, as a share: a larger change must not go unseen
    floors     TOML files that say how large a change must be to count (docs/comparing.md)

    The comparison has a row for each benchmark, worst first, an exit status, and `ok`.

    ResultError  a file cannot be read or is not a result: one line with the file and the field
    """
    sides = [[old] if isinstance(old, str | Path) else [*old]]
    sides.append([new] if isinstance(new, str | Path) else [*new])
    if [str(one) for side in sides for one in side].count("-") > 1:
        raise ResultError("-: standard input can be read only once")
    known = read_floors([Path(one) for one in floors])
    base, other = (
        Side.of_files(name, read_launches(map(str, side)))
        for name, side in zip(("base", "new"), sides, strict=True)
    )
    return compare_sides(base, other, known, across, max_floor)
