"""What each setting of docs/apply.md saves in PyTorch, measured here.

    run() { PYTHONPATH=tools mpirun -n 2 --bind-to none python3 "$@"; }
    run docs/examples/apply/measure_apply.py -o apply.json
    CUDA_DEVICE_MAX_CONNECTIONS=1 run docs/examples/apply/measure_apply.py \\
        -o apply-connections.json --only connections
    NCCL_MIN_CTAS=8 NCCL_MAX_CTAS=8 run docs/examples/apply/measure_apply.py \\
        -o apply-variables.json --only comm_ctas_variables

For each setting of apply_settings.py, ob.measure times one row by default and one with the setting
(variant:default, variant:set). It prints both times with their 95 % intervals, and what the setting
saves. A setting that this PyTorch or this machine lacks says so, and the others are measured.
dev/update_apply.py writes recorded files into docs/apply.md.

Exit status: 0; 1 if a row is wrong or was not measured, or if the measuring ended early.
"""

import argparse
import gc
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch  # before the suite: PyTorch needs its own NCCL
import torch.distributed as dist

import overlapbench as ob
from apply_table import DEFAULT, SET, Gain

Make = Callable[[], Any]


def settings_of(module: Any) -> dict[str, Make]:
    """Return the settings of apply_settings.py, in its order."""
    made = [one for _, one in inspect.getmembers(module, inspect.isfunction)]
    mine = [one for one in made if one.__annotations__.get("return") == module.Pair]
    return {one.__name__: one for one in sorted(mine, key=lambda one: one.__code__.co_firstlineno)}


def measure(case: Any, setting: str, variant: str) -> ob.Row:
    row: dict[str, Any] = {"name": "Apply", "gated": case.gated}
    row |= {"setting": setting, "variant": variant}
    if case.comm is None:
        return ob.measure_alone(case.comp, **row)
    return ob.measure(comp=case.comp, comm=case.comm, first=case.first, **row)


def measure_setting(setting: str, make: Make) -> Iterator[tuple[str, ob.Row | str]]:
    """Yield the row of each variant, or why there is none; all ranks together."""
    pair, problem = (None, None), ""
    try:
        pair = make()
    except Exception as error:  # one setting must not stop the others
        problem = f"cannot run: {type(error).__name__}: {' '.join(str(error).split())}"
    problems = [""] * dist.get_world_size()
    dist.all_gather_object(problems, problem)  # all would wait for a rank that measures nothing
    if any(problems):
        yield DEFAULT, next(filter(None, problems))
        return
    for variant, case in zip((DEFAULT, SET), pair, strict=True):
        if case is not None:
            yield variant, measure(case, setting, variant)


def show(setting: str, outcomes: dict[str, ob.Row | str]) -> bool:
    """Print a line, on one rank; tell whether all is well."""
    rows = {variant: one for variant, one in outcomes.items() if not isinstance(one, str)}
    problems = [one for one in outcomes.values() if isinstance(one, str)]
    if dist.get_rank() == 0:
        gain = Gain(setting, rows)
        told = filter(None, [gain.times, gain.verdict, *problems])
        print(f"{setting:<20} {'; '.join(told)}", flush=True)
    return not problems and all(row.state.comparable for row in rows.values())


def parse() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("-o", "--output", required=True, type=Path, metavar="FILE.json")
    names = parser.add_mutually_exclusive_group()
    names.add_argument("--only", type=lambda text: text.split(","), metavar="SETTING,SETTING")
    names.add_argument("--without", type=lambda text: text.split(","), default=[], metavar="...")
    add("--budget-ms", type=int, metavar="MS", help="measuring time per row")
    add("--backend", choices=("cuda", "host", "auto"), default="auto")
    return parser.parse_args()


def main() -> int:
    options = parse()
    # If multicast is off for NCCL, nothing else may use it.
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    ob.configure(backend=options.backend, budget_ms=options.budget_ms)
    ob.init_torch_distributed()
    module = importlib.import_module("apply_settings")
    settings = settings_of(module)
    chosen = options.only or [name for name in settings if name not in options.without]
    if unknown := [name for name in chosen if name not in settings]:
        sys.exit(f"measure_apply: {unknown[0]!r} is not one of {', '.join(settings)}")
    good = True
    with ob.results(options.output):
        for name in chosen:
            good &= show(name, dict(measure_setting(name, settings[name])))
            if dist.get_backend() == "nccl":
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
    gc.collect()  # tensors that a green context has used must end before it
    module.close()
    dist.barrier()  # mpirun kills the others if one exits with a status other than 0
    dist.destroy_process_group()
    return 0 if good or int(os.environ["RANK"]) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ob.MeasureError as error:
        sys.exit(f"measure_apply: the run is incomplete: {error}")
