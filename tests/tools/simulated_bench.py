"""A program like ./bench whose pair A+B runs on a made-up machine (simulated_pairs.py).

    python tests/tools/simulated_bench.py --seed=3 --pair=A+B --list_axes

`--hang=FLAG` makes it wait for a minute when that flag is given, and `--fail=FLAG` fail. With
`--default=faster` the default is the best of all. With `--default=unlucky` it seems slower than it
is: outside of a search all rows take the same time. With `--invalid=SETTING` rows that have it are
invalid. `--log=FILE` adds the command line to the file.
"""

import json
import random
import re
import sys
import time
from collections.abc import Mapping

import samples
from overlapbench.tune.space import Point
from simulated_pairs import SMS, Machine

Flags = Mapping[str, str]


def main(words: list[str]) -> int:
    flags = dict(word.lstrip("-").partition("=")[::2] for word in words if "axis=" not in word)
    axes = dict(word.split("=", 2)[1:] for word in words if word.startswith("--axis="))
    if "log" in flags:
        with open(flags["log"], "a", encoding="utf-8") as log:  # noqa: PTH123
            log.write(" ".join(words) + "\n")
    if f"--{flags.get('hang', ' ')}" in words:
        time.sleep(60)
    if f"--{flags.get('fail', ' ')}" in words:
        print("overlapbench: it fails", file=sys.stderr)
        return 2
    machine = Machine(int(flags.get("seed", 3)))
    if flags["pair"] != "A+B":
        print("overlapbench: --pair: there is no workload", file=sys.stderr)
        return 2
    if "list_axes" in flags:
        print(axes_of(machine))
        return 0
    names = chosen(machine, axes, re.compile(flags.get("benchmark_filter", "")))
    if "benchmark_list_tests" in flags:
        print("\n".join(names))
    else:
        points = {name: point for point, name in machine.grid.names.items()}
        rows = [row(machine, points[name], flags) for name in names]
        document = samples.document(rows, device_multiprocessors=str(SMS))
        with open(flags["benchmark_out"], "w", encoding="utf-8") as out:  # noqa: PTH123
            json.dump(document, out)
    return 0


def axes_of(machine: Machine) -> str:
    lines = ["A: a communication", "B: a computation", "Of every sample, and of some scenarios:"]
    for knob, values in machine.grid.ladder.items():
        choices = f"  of {','.join(values)}" if knob in ("transport", "first") else ""
        lines.append(f"  {knob} = {values[0]}  (what it is (or not)){choices}")
    return "\n".join(lines)


def chosen(machine: Machine, axes: Flags, wanted: re.Pattern[str]) -> list[str]:
    ladder = machine.grid.ladder
    allowed = [axes.get(knob, values[0]).split(",") for knob, values in ladder.items()]
    return [
        name
        for point, name in machine.grid.names.items()
        if wanted.search(name)
        and all(value in values for value, values in zip(point, allowed, strict=True))
    ]


def row(machine: Machine, point: Point, flags: Flags) -> samples.Json:
    name = machine.grid.names[point]
    # The same in each run of a test, so that none fails by chance.
    noise = random.Random(f"{name} {flags.get('budget_ms')}").gauss(1, 0.003)
    ms = machine.true_ms(point) * noise
    if flags.get("default") == "faster" and point == machine.grid.default:
        ms /= 10
    if flags.get("default") == "unlucky" and "budget_ms" not in flags:
        ms = 1.0
    bounds = {"overlap_ms": ms, "overlap_ms_low": 0.99 * ms, "overlap_ms_high": 1.01 * ms}
    valid = {"valid": 0.0} if "invalid" in flags and flags["invalid"] in name else {}
    return samples.overlap(name.removeprefix("Overlap/")) | bounds | {"real_time": ms} | valid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
