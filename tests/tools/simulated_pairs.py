"""Pairs made up for the tests of the tuner: a machine whose every setting has a known time.

The model follows what was measured on two H200 (docs/laboratory.md): a kernel that moves data waits
for a product that fills the GPU, unless it starts first, or SMs are left free; copies by engine
need none; a side that has fewer SMs takes longer; both disturb each other in memory. On top, every
combination of settings is off by up to 1.5 % in a way that nothing explains, each process by 0.2 %,
and each measurement by its own noise.
"""

import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Axis, Grid, Point, ladders

SMS = 132
_KERNELS = ("sm_load", "sm_store", "sm_bulk")
_TRANSPORTS = ("nccl", "nccl_ce", "nccl_sym", "copy", *_KERNELS)
# Of the link's bandwidth, and how many SMs it takes to fill that.
_FULL = {"nccl": (0.85, 24), "nccl_ce": (0.85, 0), "nccl_sym": (0.65, 16), "copy": (1.0, 0)}
_FULL_OF_COPIES = {"copy": (1.0, 0), "sm": (0.95, 16)}
_FULL_OF_OURS = {"sm_load": (0.86, 10), "sm_store": (0.88, 8), "sm_bulk": (0.95, 10)}


@dataclass
class Machine:
    """A pair on a made-up machine."""

    seed: int
    copies: bool = False  # by an engine or a kernel, instead of a collective
    noise: float = 0.006  # of a measurement of one unit, relative
    evaluations: int = 0
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        made = random.Random(self.seed)
        self.has_target, self.has_partition = made.choice(
            ((True, True), (True, True), (False, True), (False, False))
        )
        self.reduces = made.random() < 0.5
        self.comp_ms = made.uniform(0.2, 3.0)
        self.comm_ms = self.comp_ms * math.exp(made.uniform(-1.2, 1.2))
        self.disturbs = made.uniform(0.02, 0.15)  # what moving at full rate costs the computation
        self.waits = made.uniform(0.7, 1.0)  # of the computation, before a later kernel gets SMs
        self.rank_helps = made.uniform(0.0, 0.5)
        self.tweak = {t: made.uniform(0.85, 1.1) for t in (*_TRANSPORTS, "sm")}
        self.grid = (
            _grid_of_copies(self.has_target, self.has_partition)
            if self.copies
            else _grid(self.has_target, self.has_partition, self.reduces)
        )
        self._noise = random.Random(self.seed + 1000)

    def true_ms(self, point: Point) -> float:
        one = dict(zip(self.grid.ladder, point, strict=True))
        comm_first = one["first"] == "comm"
        transport = one["engine" if self.copies else "transport"]
        share, full = (_FULL_OF_COPIES if self.copies else {**_FULL, **_FULL_OF_OURS})[transport]
        if transport == "copy" and self.reduces and not self.copies:
            full = 4
        asked = int(one.get("comm_ctas", "0")) or int(one.get("comm_sms", "0"))
        sms = asked or (24 if transport == "nccl" else 16 if full else 0)
        rate = share * self.tweak[transport] * (min(1.0, sms / full) if full else 1.0)
        rate *= 1 - 0.03 * max(0, sms - full) / SMS * bool(full)  # too many pile up
        limit = int(one.get("sm_target", "0")) or int(one.get("comp_sms", "0")) or SMS
        comm = self.comm_ms / rate
        free = SMS - limit

        def comp(with_sms: float) -> float:
            waves = math.ceil(1024 / with_sms) * with_sms / 1024  # the last wave is not full
            return self.comp_ms * SMS / with_sms * (0.6 + 0.4 * waves)

        disturbed = comp(limit if free >= sms or not comm_first else SMS - sms)
        disturbed *= 1 + self.disturbs * rate * min(1.0, comm / self.comp_ms)
        together = max(disturbed, comm * (1 + 0.5 * self.disturbs))
        if full and free < sms and not comm_first and transport != "copy":
            helped = self.rank_helps if one["comm_priority"] == "1" else 0.0
            wait = self.waits * comp(limit) * (1 - free / sms) * (1 - helped)
            together = max(together, wait + comm)
        if one["comp_priority"] == "1" and comm_first:
            together *= 1.02
        unexplained = zlib.crc32(f"{self.seed}{point}".encode()) / 2**31 - 1
        return together * (1 + 0.015 * unexplained)

    def measure(self, _: str, points: Sequence[Point], units: int) -> dict[Point, Estimate]:
        self.evaluations += units * len(points)
        process = math.exp(0.002 * self._noise.gauss(0, 1))
        found = {}
        for point in points:
            error = self.noise / math.sqrt(units)
            ms = self.true_ms(point) * process * math.exp(error * self._noise.gauss(0, 1))
            found[point] = Estimate(ms, ms * (1 - 2 * error), ms * (1 + 2 * error))
        return found


@cache
def _grid_of_copies(has_target: bool, has_partition: bool) -> Grid:
    axes = {"engine": Axis(("copy",), ("copy", "sm"))}
    return _grid_with(axes, has_target, has_partition, lambda _: True)


@cache
def _grid(has_target: bool, has_partition: bool, reduces: bool) -> Grid:
    axes = {
        "transport": Axis(("nccl",), _TRANSPORTS),
        "comm_ctas": Axis(("0",)),
        "comm_sms": Axis(("0",)),
    }
    return _grid_with(axes, has_target, has_partition, lambda one: _exists(one, reduces))


def _grid_with(
    axes: Mapping[str, Axis],
    has_target: bool,
    has_partition: bool,
    exists: Callable[[Mapping[str, str]], bool],
) -> Grid:
    axes = {
        **axes,
        "first": Axis(("comp",)),
        "comp_priority": Axis(("0",)),
        "comm_priority": Axis(("0",)),
    }
    if has_target:
        axes["sm_target"] = Axis(("0",))
    if has_partition:
        axes["comp_sms"] = Axis(("0",))
    ladder = ladders(axes, {}, SMS)
    names = []
    for point in product(*ladder.values()):
        one = dict(zip(ladder, point, strict=True))
        if exists(one) and not _limited_twice(one):
            changed = "".join(f"/{k}:{v}" for k, v in one.items() if v != ladder[k][0])
            names.append(f"Overlap/A+B/cache:cold{changed}")
    return Grid.of(ladder, names, SMS)


def _exists(one: Mapping[str, str], reduces: bool) -> bool:
    transport = one["transport"]
    if reduces and transport in ("nccl_ce", "sm_bulk"):
        return False
    if one["comm_ctas"] != "0" and transport not in ("nccl", "nccl_sym"):
        return False
    takes_sms = transport in _KERNELS or (transport == "copy" and reduces)
    return takes_sms or one["comm_sms"] == "0"


def _limited_twice(one: Mapping[str, str]) -> bool:
    return one.get("sm_target", "0") != "0" and one.get("comp_sms", "0") != "0"
