"""A made-up machine of two H200 for the doctor: what the program writes there, and its faults.

    python tests/tools/doctor_machine.py FLAG...

is that program. The variable DOCTOR_MACHINE has a JSON of faults: `factors` of figures by regular
expressions for rows, `context`, `states` of rows, `seconds` to take, and the exit `status`.
"""

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import samples
from overlapbench.doctor.recordings import Recording, recording_of, stored
from overlapbench.doctor.rules import CHECKS, KINDS
from overlapbench.reading.result import parse_result

CONTEXT = {
    "device_multiprocessors": "132",
    "driver_version": "580.159.04",
    "hosts": "vm",
    "nccl_version": "2.28.3",
    "nvlinks_active": "18",
    "peer_access": "1",
    "sm_clock_MHz": "1980",
}
MODEL = ("cuda", "NVIDIA H200")
# What no result of two H200 has recorded.
_MORE = {
    ("priorities", "gain"): 1.92,
    ("streams at once", "slowdown"): 1.0,
    ("GPUs alike", "rank_spread"): 0.01,
    ("product alone", "TFLOPs"): 830.0,
    ("launch, host", "host_us_per_launch"): 3.3,
    ("launch, device", "device_us_per_launch"): 1.5,
    ("pipelined copies", "time"): 7.63,
}


def figures() -> dict[str, dict[str, float]]:
    """Return a healthy figure for each check of two GPUs."""
    found: dict[str, dict[str, float]] = {}
    for check in CHECKS:
        figure = _MORE.get((check.name, check.counter))
        for one in stored() if figure is None else ():
            if one.model == MODEL and (one.ranks == 2 or KINDS[check.kind].any_ranks):
                figure = one.figures.get(check.cuda, {}).get(check.counter, (figure,))[0]
        assert figure is not None, check
        found.setdefault(check.cuda, {})[check.counter] = figure
    return found


def document(faults: Mapping[str, Any] | None = None, seed: int = 0) -> samples.Json:
    """Make the result of a run, with 0.1 % of noise."""
    faults, random = faults or {}, np.random.default_rng(seed)
    rows = []
    for name, counters in figures().items():
        fields: samples.Json = {"state": "ok", "reason": "", "foreign_gpu_processes": 0.0}
        if name.startswith("Overlap/"):  # a reader requires them
            fields |= {"comp_ms": 4.0, "comm_ms": 2.0, "overlap_ms": 4.0, "slowdown": 1.0}
        fields["slowest_rank"] = 1.0
        for counter, value in counters.items():
            shown = "real_time" if counter == "time" else counter
            fields[shown] = value * float(np.exp(0.001 * random.normal()))
            for pattern, factor in faults.get("factors", {}).items():
                if re.search(pattern, f"{name} {counter}"):
                    fields[shown] *= factor
            if counter != "rank_spread":
                low, high = (
                    ("time_low_ms", "time_high_ms")
                    if counter == "time"
                    else (f"{counter}_low", f"{counter}_high")
                )
                fields |= {low: 0.999 * fields[shown], high: 1.001 * fields[shown]}
        for pattern, changes in faults.get("states", {}).items():
            if re.search(pattern, name):
                fields |= changes
        rows.append(samples.row(name, **fields))
    return samples.document(rows, **(CONTEXT | faults.get("context", {})))


def recording(
    faults: Mapping[str, Any] | None = None, seed: int = 0, file: str = "here"
) -> Recording:
    text = json.dumps(document(faults, seed))
    return recording_of(parse_result(file, text), file)


def main(words: Sequence[str]) -> int:
    flags = dict(word.lstrip("-").partition("=")[::2] for word in words)
    faults = json.loads(os.environ.get("DOCTOR_MACHINE", "{}"))
    made = document(faults, seed=os.getpid())
    chosen = re.compile(flags["benchmark_filter"])
    made["benchmarks"] = [one for one in made["benchmarks"] if chosen.search(one["name"])]
    count = len(made["benchmarks"])
    for place, one in enumerate(made["benchmarks"], 1):
        time.sleep(faults.get("seconds", 0.0) / count)
        print(f"[{place}/{count}] {one['name']}", flush=True)
    Path(flags["benchmark_out"]).write_text(json.dumps(made), encoding="utf-8")
    return int(faults.get("status", 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
