"""The metrics: every counter of the contract with its range, and which way is better.

docs/metrics.md defines them. A new counter is one line of METRICS; readers check its range, and
comparisons know from it what a change for the worse is. `time` is Google Benchmark's `real_time`.

Times, sizes and rates are compared as ratios. `efficiency` is not: it may be 0 or negative, and
where one side is short it is all noise, since it divides by that side (docs/metrics.md, Pitfalls).
So it is judged as efficiency x min(C, M) / T, the share of T that overlapping saved, whose
differences are of the same kind as a relative change of T.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from overlapbench.source import LARGEST, SMALLEST


class Range(Enum):
    """Which values make sense: the lowest, whether it is itself allowed, and the highest."""

    POSITIVE = (0.0, False, math.inf)
    NOT_NEGATIVE = (0.0, True, math.inf)
    SIGNED = (-math.inf, True, math.inf)  # differences: noise, or a loss, makes them negative
    AT_MOST_1 = (-math.inf, True, 1.0)
    FLAG = (0.0, True, 1.0)


class Better(Enum):
    """Which way is an improvement."""

    DOWN = "down"
    UP = "up"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """One counter."""

    name: str
    range: Range
    better: Better = Better.NEITHER

    def surely_fine(self) -> tuple[float, float]:
        """Return an interval in which every number makes sense."""
        low, low_allowed, high = self.range.value
        least = max(low, -LARGEST) if low_allowed else SMALLEST
        return (high if self.range is Range.FLAG else least), min(high, LARGEST)

    def fault(self, value: float) -> str:
        """Say why a finite value makes no sense; "" when it does."""
        low, low_allowed, high = self.range.value
        if self.range is Range.FLAG:
            return "" if value in (0, 1) else f"{value:g} is neither 0 nor 1"
        if value < low or (value == low and not low_allowed):
            return f"{value:g} is {'negative' if low_allowed else 'not above 0'}"
        return f"{value:g} is above {high:g}" if value > high else ""


def _group(names: str, range_: Range, better: Better = Better.NEITHER) -> list[Metric]:
    return [Metric(name, range_, better) for name in names.split()]


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *_group("time comp_ms comm_ms overlap_ms slowdown", Range.POSITIVE, Better.DOWN),
        *_group("sequential_ms ideal_ms in_ms compute_ms out_ms", Range.POSITIVE, Better.DOWN),
        *_group("one_transfer_ms fragmented_slowdown us_per_fragment", Range.POSITIVE, Better.DOWN),
        *_group("latency_alone_ms latency_equal_ms latency_ms", Range.POSITIVE, Better.DOWN),
        *_group(
            "load_alone_ms make_ms consume_ms whole_ms copy_ms fused_ms",
            Range.POSITIVE,
            Better.DOWN,
        ),
        *_group("pieces_slowdown train_ms loop_ms kernel_ms", Range.POSITIVE, Better.DOWN),
        *_group("speedup gain fused_speedup predicted_speedup", Range.POSITIVE, Better.UP),
        *_group("graph_speedup epilogue_speedup", Range.POSITIVE, Better.UP),
        *_group("samples kernel_us", Range.POSITIVE),
        *_group("comp_slowdown comm_slowdown skew_us", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("p05_ms p95_ms cv max_rel_err", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("host_to_device_slowdown device_to_host_slowdown", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("work_slowdown work_slowdown_equal", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("load_slowdown load_slowdown_equal", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("host_us_per_fragment host_us_per_launch", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("dominated_below_us round_trip_us", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("algbw_GBps busbw_GBps GBps TFLOPs", Range.NOT_NEGATIVE, Better.UP),
        *_group("host_to_device_GBps device_to_host_GBps", Range.NOT_NEGATIVE, Better.UP),
        *_group("pct_of_copy pct_of_ideal pct_of_peak", Range.NOT_NEGATIVE, Better.UP),
        *_group("batches_per_s predicted_batches_per_s", Range.NOT_NEGATIVE, Better.UP),
        *_group("launches_per_s", Range.NOT_NEGATIVE, Better.UP),
        *_group("coverage slowest_rank", Range.NOT_NEGATIVE),
        *_group("slowest_share rank_spread", Range.NOT_NEGATIVE),
        *_group("fixed_cost_share", Range.NOT_NEGATIVE, Better.DOWN),
        *_group("efficiency hidden_comm", Range.SIGNED, Better.UP),
        *_group("exposed_comm_ms sync_cost_ms device_us_per_launch", Range.SIGNED, Better.DOWN),
        *_group("prediction_error_pct", Range.SIGNED),
        *_group("device_idle_share", Range.AT_MOST_1, Better.DOWN),
        *_group("valid identical", Range.FLAG, Better.UP),
        *_group("bound_by_workers", Range.FLAG),
    )
}

TIME = "time"
EFFICIENCY = "efficiency"
# What a comparison judges where a row has it, and what it shows besides.
JUDGED = (TIME, EFFICIENCY, "busbw_GBps", "pct_of_copy", "pct_of_ideal")
SHOWN = ("slowdown",)
