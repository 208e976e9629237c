"""The space of a search: which settings of a pair may vary, and which combinations exist.

The values of a setting come from short ladders, and from the axes that the program lists. Only the
program knows which combinations exist on this machine: asked for all at once, it lists those that
it would measure, and these form the grid. A setting that is named in the pair stays fixed.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from overlapbench.output import ResultError
from overlapbench.reading.names import BenchmarkName

# The settings that choose what moves the data of a collective, and of a copy.
CARRIERS = ("transport", "engine")
ORDER = "first"
OF_COMMUNICATION = ("comm_ctas", "comm_sms")
OF_COMPUTATION = ("sm_target", "comp_sms")
PRIORITIES = ("comp_priority", "comm_priority")

_LISTED = re.compile(r"  (?P<name>\w+) = (?P<values>\S*)  \(.*\)(?:  of (?P<choices>\S+))?")
_OTHERS = "Of every sample"  # the heading of axes that belong to no workload
_FAMILY = "Overlap/"
_FEW_SMS = 16  # devices with fewer are partitioned SM by SM


@dataclass(frozen=True)
class Axis:
    """An axis as --list_axes shows it."""

    values: tuple[str, ...]  # the standing one, which names omit, first
    choices: tuple[str, ...] = ()


def _partitions(_: Axis, sms: int) -> Iterable[str]:
    """Return limits of a computation: multiples of eight SMs, the granularity of GPU partitions."""
    step = 8 if sms >= _FEW_SMS else 1
    return map(str, (0, *range(-(-3 * sms // (4 * step)) * step if step > 1 else 1, sms, step)))


def _targets(_: Axis, sms: int) -> Iterable[str]:
    return map(str, (0, *(sms - free for free in (24, 16, 12, 8) if sms > free)))


# The values of each setting beside the standing one, on a device with so many SMs.
_LADDERS: Mapping[str, Callable[[Axis, int], Iterable[str]]] = {
    **dict.fromkeys(CARRIERS, lambda axis, _: axis.choices),
    ORDER: lambda *_: ("comp", "comm"),
    "comm_ctas": lambda *_: map(str, (0, 4, 8, 16, 32)),
    "comm_sms": lambda *_: map(str, (0, 4, 8, 12, 24, 32)),  # 0 means 16
    "sm_target": _targets,
    "comp_sms": _partitions,
    # Only which of the two streams has the higher priority matters.
    "comp_priority": lambda *_: ("0", "1"),
    "comm_priority": lambda *_: ("0", "1"),
}

# SMs of a communication at the standing value: of our kernels, and about NCCL's choice.
_STANDING_SMS = {"comm_sms": 16, "comm_ctas": 24}

Point = tuple[str, ...]  # a value for each setting of a grid


@dataclass(frozen=True)
class Wish:
    """The pair to tune, and its fixed axes."""

    pair: str
    fixed: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> "Wish":
        """Read `Overlap/A+B/axis:value/...`, or the same without the family."""
        pair = text.removeprefix(_FAMILY)
        is_pair = pair.partition("/")[0].count("+") == 1
        if not is_pair and "+" in pair:
            raise ResultError(f"{text}: only rows of Overlap are tuned; write A+B/axis:value/...")
        try:
            if not is_pair:
                raise ValueError(f"{text!r} is not a pair")
            name = BenchmarkName.parse(_FAMILY + pair)
        except ValueError as error:
            raise ResultError(f"{error}; write for example AllGather+Gemm/bytes:64M") from None
        for axis, value in name.axes:
            if axis in _LADDERS and "," in value:
                raise ResultError(
                    f"{text}: {axis} accepts one value, which stays fixed; omit it to vary it"
                )
        axes = dict(name.axes)
        if "1" in axes.get("streams", "").split(","):
            raise ResultError(
                f"{text}: on one stream nothing overlaps, so there is nothing to tune"
            )
        return cls("+".join(name.workloads), axes)

    @property
    def flags(self) -> list[str]:
        return [f"--pair={self.pair}", *axis_flags(self.fixed)]

    def of_row(self, row: BenchmarkName) -> "Wish":
        """Return the wish for one of the rows that this one stands for, with all axes fixed."""
        own = {axis: value for axis, value in row.axes if axis not in _LADDERS}
        given = {axis: row.axis(axis) or value for axis, value in self.fixed.items()}
        return Wish("+".join(row.workloads), {**own, **given})


def axis_flags(axes: Mapping[str, str]) -> list[str]:
    return [f"--axis={axis}={value}" for axis, value in axes.items()]


def parse_axes(listing: str, workloads: Sequence[str]) -> dict[str, Axis]:
    """Read from --list_axes the axes that a pair of these workloads has."""
    axes: dict[str, Axis] = {}
    wanted = False
    for line in listing.splitlines():
        if found := _LISTED.fullmatch(line):
            if wanted:
                values, choices = (found[key] or "" for key in ("values", "choices"))
                axes[found["name"]] = Axis(
                    tuple(values.split(",")), tuple(filter(None, choices.split(",")))
                )
        else:
            wanted = line.partition(":")[0] in workloads or line.startswith(_OTHERS)
    return axes


def ladders(axes: Mapping[str, Axis], fixed: Mapping[str, str], sms: int) -> dict[str, list[str]]:
    """Return the values to try of each setting that is not fixed and has at least two."""
    tried = {
        name: list(dict.fromkeys((axes[name].values[0], *values(axes[name], sms))))
        for name, values in _LADDERS.items()
        if name in axes and name not in fixed
    }
    return {name: values for name, values in tried.items() if len(values) > 1}


@dataclass(frozen=True)
class Grid:
    """The settings that exist: each point is a row of the program."""

    ladder: Mapping[str, Sequence[str]]  # the values of each setting, the standing one first
    names: Mapping[Point, str]
    sms: int  # of the device

    @classmethod
    def of(cls, ladder: Mapping[str, Sequence[str]], names: Iterable[str], sms: int) -> "Grid":
        """Make the grid of the listed names.

        Drops names that differ from another in no setting, or have a value outside the ladder.
        """
        points: dict[Point, str] = {}
        for text in names:
            axes = dict(BenchmarkName.parse(text).axes)
            settings = {knob: axes.get(knob) or values[0] for knob, values in ladder.items()}
            ranks = [settings.get(priority, "0") for priority in PRIORITIES]
            is_known = all(value in ladder[knob] for knob, value in settings.items())
            if is_known and (ranks[0] != ranks[1] or ranks[0] == "0"):
                points.setdefault(tuple(settings.values()), text)
        return cls._pruned(ladder, points, sms)

    @classmethod
    def _pruned(
        cls, ladder: Mapping[str, Sequence[str]], points: Mapping[Point, str], sms: int
    ) -> "Grid":
        """Drop values that no point has, and settings with one value; sort the points."""
        used = {
            knob: [value for value in values if any(point[place] == value for point in points)]
            for place, (knob, values) in enumerate(ladder.items())
        }
        places = [place for place, values in enumerate(used.values()) if len(values) > 1]
        order = sorted(
            points, key=lambda p: [used[k].index(v) for k, v in zip(used, p, strict=True)]
        )
        return cls(
            {knob: values for knob, values in used.items() if len(values) > 1},
            {tuple(point[place] for place in places): points[point] for point in order},
            sms,
        )

    @cached_property
    def default(self) -> Point:
        return tuple(values[0] for values in self.ladder.values())

    def __len__(self) -> int:
        return len(self.names)

    def settings(self, point: Point) -> dict[str, str]:
        return dict(zip(self.ladder, point, strict=True))

    def changed(self, point: Point) -> dict[str, str]:
        """Return the settings of a point that differ from the default."""
        settings = self.settings(point).items()
        return {knob: value for knob, value in settings if value != self.ladder[knob][0]}

    def part(self, point: Point, knobs: Iterable[str]) -> Point:
        """Return the values of some settings."""
        return tuple(point[place] for place in self._places(knobs))

    def varying(self, point: Point, knobs: Iterable[str]) -> list[Point]:
        """Return the points that differ from `point` in these settings alone, itself among them."""
        fixed = self._places(self.ladder.keys() - set(knobs))
        kept = [point[place] for place in fixed]
        return [other for other in self.names if [other[place] for place in fixed] == kept]

    def takes_sms(self, point: Point) -> bool:
        """Tell whether the number of SMs of a point's communication can be varied."""
        return len(self.varying(point, OF_COMMUNICATION)) > 1

    def unlimited(self, point: Point) -> Point:
        """Return the same point without a limit on the computation, if that exists."""
        others = self.varying(point, OF_COMPUTATION)
        free = [other for other in others if not self.sms_named(other, OF_COMPUTATION)]
        return free[0] if free else point

    def line(self, point: Point, knob: str) -> list[Point]:
        """Return the points that differ only in one setting of SMs, from few SMs to many."""
        standing = _STANDING_SMS.get(knob, self.sms)
        others = self.varying(point, (knob,))
        return sorted(others, key=lambda other: self.sms_named(other, (knob,)) or standing)

    def fitting(self, point: Point) -> list[list[Point]]:
        """Return the points that divide all SMs, and differ only in the SMs of both sides.

        There is a list for each way to limit the computation, from many SMs for the communication
        to few. The computation gets as many of the rest as a limit allows.
        """
        return [path for knob in OF_COMPUTATION if (path := self._fitting(point, knob))]

    def _fitting(self, point: Point, limit: str) -> list[Point]:
        others = self.varying(self.unlimited(point), (limit, *OF_COMMUNICATION))
        shares = sorted(
            (self.sms_named(p, (limit,)), self.sms_named(p, OF_COMMUNICATION), p) for p in others
        )
        fitting = [share for share in shares if share[0] and 0 < share[1] <= self.sms - share[0]]
        most = {limited: (taken, other) for limited, taken, other in fitting}
        widest = dict(most.values())
        return [widest[taken] for taken in sorted(widest, reverse=True)]

    def sms_named(self, point: Point, knobs: Iterable[str]) -> int:
        """Return the number of SMs that one of these settings names; 0 if none does."""
        return max(map(int, self.part(point, knobs)), default=0)

    def _places(self, knobs: Iterable[str]) -> list[int]:
        wanted = set(knobs)
        return [place for place, knob in enumerate(self.ladder) if knob in wanted]
