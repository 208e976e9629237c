"""Rows without schedules: a collective by itself, or a pair, as their counters tell it.

A result that was measured without --predictable has no schedules. But a row of `Comm` is one work,
and a row of `Overlap` or `Lab/Partition` two: its times alone, and the begin and end of each side
while both ran. So such results serve as tables of collectives, also against their SMs, and of
pairs. Rows in which other axes are set are left out.
"""

from collections.abc import Mapping
from typing import Any

from overlapbench.reading.names import BenchmarkName

PLAIN = ("Comm/", "Overlap/", "Lab/Partition/")
_COLLECTIVE = {"bytes", "type", "transport", "comm_sms", "comm_ctas", "cache"}  # its axes
_LEAD_MS = 0.01  # of the side that starts first


def described(
    name: BenchmarkName, context: Mapping[str, Any], entry: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return what --predictable would have written for an entry; None if it is of another kind."""
    axes = dict(name.axes)
    times = [entry.get(key) for key in ("real_time", "time_low_ms", "time_high_ms")]
    if axes.get("cache") != "cold" or "bytes" not in axes or entry.get("time_unit") != "ms":
        return None
    collective = name.workloads[0]
    works = [{"name": collective, "class": "COMM", "collective": collective,
              "wire_bytes": int(axes["bytes"]), "sms": entry.get("comm_sms", 0)}]  # fmt: skip
    if name.family == "Comm" and axes.keys() <= _COLLECTIVE and None not in times:
        runs = [_run("alone", [0], *times)]
    elif _is_pair(name, entry):
        n = int(axes.get("n", 0))
        works.append({"name": "+".join([name.workloads[1], *_settings(axes)]), "class": "COMP",
                      "flops": 2 * n**3})  # fmt: skip
        runs = _pair(axes, entry)
    else:
        return None
    usual = "mpi" if context.get("backend") == "host" else "nccl"
    return {"version": 1, "ranks": int(context["ranks"]), "hosts": 1, "works": works,
            "transport": axes.get("transport", usual), "runs": runs}  # fmt: skip


def _is_pair(name: BenchmarkName, entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry is a collective beside one computation, with all that it needs."""
    is_set = any(axis in ("repeat", "comm_priority") for axis, _ in name.axes)
    is_collective = name.workloads[0].startswith(("All", "Reduce"))
    has_sides = {"comp_slowdown", "comm_slowdown", "overlap_ms"} <= entry.keys()
    return (
        name.family != "Comm"
        and len(name.workloads) == 2
        and is_collective
        and has_sides
        and not is_set
    )


def _settings(axes: Mapping[str, str]) -> list[str]:
    """Return what distinguishes computations."""
    return [
        f"{axis}:{value}" for axis, value in axes.items() if axis not in (*_COLLECTIVE, "first")
    ]


def _pair(axes: Mapping[str, str], entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    comm_ms, comp_ms, whole_ms = (entry[f"{key}_ms"] for key in ("comm", "comp", "overlap"))
    lanes_ms = []
    for side, alone_ms in (("comm", comm_ms), ("comp", comp_ms)):
        ms = min(alone_ms * entry[f"{side}_slowdown"], whole_ms)
        begin = 0.0 if side == axes.get("first", "comp") else _LEAD_MS
        lanes_ms.append([begin, begin + ms])
    last = max(lanes_ms, key=lambda lane: lane[1])
    last[:] = [max(0.0, whole_ms - last[1] + last[0]), whole_ms]
    return [
        _run("comp", [1], *_times(entry, "comp_ms")),
        _run("comm", [0], *_times(entry, "comm_ms")),
        _run("overlap", [0, 1], *_times(entry, "overlap_ms")) | {"lanes_ms": lanes_ms},
    ]


def _times(entry: Mapping[str, Any], key: str) -> list[Any]:
    return [entry[key], *(entry.get(f"{key}_{end}", entry[key]) for end in ("low", "high"))]


def _run(name: str, works: list[int], ms: Any, low: Any, high: Any) -> dict[str, Any]:
    steps = [[work, lane, 0, 1, []] for lane, work in enumerate(works)]
    lanes = [{"name": "lane"} for _ in works]
    return {"name": name, "lanes": lanes, "steps": steps, "ms": ms, "ms_low": low, "ms_high": high}
