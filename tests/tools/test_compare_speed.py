"""How long comparing takes, against decoding the same files."""

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import made_runs
import samples
from made_runs import write_side
from overlapbench.reading.program_run import parse_program_run

# Runs a script, then prints its "VmHWM: 123 kB". What the system tells of a child, ru_maxrss, is no
# less than its parent's memory.
WITH_PEAK = """
import atexit, runpy, sys
def tell():
    with open("/proc/self/status") as status:
        sys.stderr.write(next(line for line in status if line.startswith("VmHWM")))
atexit.register(tell)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_comparing_large_files_takes_little_more_than_decoding_them(tmp_path: Path) -> None:
    documents = [made_runs.large(2000, seed) for seed in range(20)]
    texts = [json.dumps(document) for document in documents]
    script = samples.TOOLS / "benchmark_compare.py"
    base, new = documents[:10], documents[10:]
    files = ["--base", *write_side(tmp_path, "b", base), "--new", *write_side(tmp_path, "n", new)]

    def user_s_and_peak_kb(*arguments: str) -> tuple[float, int]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        command = [sys.executable, "-c", WITH_PEAK, str(script), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        user_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return user_s, int(done.stderr.split()[-2])

    def decoding_s() -> float:
        started = time.process_time()
        for text in texts:
            json.loads(text)
        return time.process_time() - started

    def ratio_and_peak() -> tuple[float, int]:
        user_s, peak_kb = user_s_and_peak_kb(*files)
        return (user_s - user_s_and_peak_kb("--help")[0]) / decoding_s(), peak_kb

    # In turn, so that a busy machine slows all alike. Starting Python with scipy takes half a
    # second, whatever the size. 5 times is usual.
    ratios: list[float] = []
    while len(ratios) < 3 and min(ratios, default=math.inf) >= 8:
        ratio, peak_kb = ratio_and_peak()
        assert peak_kb < 400 * 1024
        ratios.append(ratio)
    assert min(ratios) < 8


def test_reading_takes_little_more_than_decoding() -> None:
    text = json.dumps(made_runs.large(2000, 1))

    def cpu_s(read: Callable[[], object]) -> float:
        started = time.process_time()
        read()
        return time.process_time() - started

    def parse() -> object:
        return parse_program_run("run.json", text)

    # In turn, so that a busy machine slows both. 3 times is usual; value by value it is 6.
    ratios = sorted(cpu_s(parse) / cpu_s(lambda: json.loads(text)) for _ in range(11))
    assert ratios[2] < 4.5
