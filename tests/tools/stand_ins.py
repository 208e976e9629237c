"""Stand-ins for what the examples of manuals cannot start in a test: GPUs, ranks, hours.

    python tests/tools/stand_ins.py NAME ARGUMENT...

- `program`: what ./bench starts. It writes a made-up result, trace or log of resources where a flag
  says so, and takes delays as the program does. With --pair it is simulated_bench.py's machine,
  and for the doctor that of doctor_machine.py.
- `mpirun` and `srun`: start their command once, as the rank of a job.
- `overlapbench`: the real command, but for what it would measure with. Unless REAL_RUN is set,
  `run` is `program`, or with --tune the tuner.
"""

import contextlib
import io
import json
import os
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Gates start a hundred of these, so each imports what it needs, and nothing at the beginning.
ROWS_MS = {
    "Overlap/AllToAll+Gemm/bytes:67108864/n:4096/grid:16x16/work:tile/cache:cold": 0.44,
    "Compute/Gemm/n:4096/grid:16x16/work:tile/cache:cold": 1.9,
    "Comm/AllReduce/bytes:67108864/cache:cold": 0.5,
}
RESOURCES = "seconds,benchmark,groups,resident_bytes,threads\n" + "".join(
    f"{second},Overlap/AllReduce+Gemm/n:512,100,{1e8 + second % 7},5\n" for second in range(128)
)
_WITH_VALUES = {"-n", "--hostfile", "--bind-to", "-x"}  # flags of mpirun


def program(words: Sequence[str]) -> int:
    flags = dict(word.lstrip("-").partition("=")[::2] for word in words)
    if "--help" in words or "query" in flags:
        print(2 if flags.get("query") == "gpus" else "")
        return 0
    if "rank_times_out" in flags:
        import doctor_machine

        return doctor_machine.main(words)
    if "pair" in flags:
        return _tuned(flags["pair"], words)
    result = json.dumps(_result(words))
    if flags.get("benchmark_format") == "json":
        print(result)
    for flag, content in (("benchmark_out", result), ("resources_out", RESOURCES)):
        if flag in flags:
            Path(flags[flag]).write_text(content, encoding="utf-8")
    if "trace_out" in flags:
        _write_traces(Path(flags["trace_out"]))
    return 0


def _result(words: Sequence[str]) -> dict[str, Any]:
    """Make a result of rows with 0.1 % of noise and the delays that are asked for."""
    document: dict[str, Any] = json.loads(os.environ["TEMPLATE"])
    delays = [word.split("=", 1)[1].rsplit(":", 1) for word in words if "--inject_delay=" in word]
    for row in document["benchmarks"]:
        row["real_time"] = ROWS_MS[row["name"]] * random.gauss(1, 0.001) + sum(
            float(us) / 1000 for pattern, us in delays if re.search(pattern, row["name"])
        )
    return document


def _tuned(pair: str, words: Sequence[str]) -> int:
    """Answer as the made-up machine, whose pair is A+B."""
    import simulated_bench

    sides = dict(zip("AB", pair.split("+"), strict=True))

    def rename(text: str) -> str:
        text = text.replace("A+B", pair)
        return re.sub(r"^([AB]):", lambda found: f"{sides[found[1]]}:", text, flags=re.MULTILINE)

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        escaped = pair.replace("+", r"\+")  # in filters
        asked = [word.replace(pair, "A+B").replace(escaped, r"A\+B") for word in words]
        status = simulated_bench.main(asked)
    print(rename(printed.getvalue()), end="")
    for word in words:
        if word.startswith("--benchmark_out="):
            out = Path(word.partition("=")[2])
            out.write_text(rename(out.read_text(encoding="utf-8")), encoding="utf-8")
    return status


def _write_traces(folder: Path) -> None:
    import traces

    folder.mkdir(exist_ok=True)
    for row in ("Overlap/AllReduce+Gemm", "Pp/GPipe/Delay"):
        for rank in range(2):
            gemm = traces.done("gemm", "COMP", "comp", 0, 4)
            work = [gemm, traces.done("sum", "COMM", "comm", 1, 2)]
            recorded = traces.recorded(work, work, rank=rank, row=row)
            traces.write(folder / f"{row.replace('/', ',')}.rank{rank}.json", recorded)


def mpirun(words: Sequence[str]) -> int:
    rest = list(words)
    while rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _WITH_VALUES else 1]
    os.environ["OMPI_COMM_WORLD_RANK"] = "0"
    return os.execvp(rest[0], rest)


def overlapbench(words: Sequence[str]) -> int:
    if words[0] == "run" and "REAL_RUN" not in os.environ:
        if words[1] != "--tune":
            return program(words[1:])
        words = ["tune", *words[2:]]
    from overlapbench import cli

    return cli.main(words)


_NAMES = {"program": program, "mpirun": mpirun, "srun": mpirun, "overlapbench": overlapbench}

if __name__ == "__main__":
    sys.exit(_NAMES[sys.argv[1]](sys.argv[2:]))
