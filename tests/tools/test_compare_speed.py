"""How long comparing takes, against decoding the same files."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

import benchmark_compare
import launches
from launches import write_side
from overlapbench.entries import Names
from overlapbench.launch import parse_launch


def test_comparing_large_files_takes_little_more_than_decoding_them(tmp_path: Path) -> None:
    documents = [launches.large(2000, seed) for seed in range(20)]
    texts = [json.dumps(document) for document in documents]
    script = Path(benchmark_compare.__file__)
    base, new = documents[:10], documents[10:]
    files = ["--base", *write_side(tmp_path, "b", base), "--new", *write_side(tmp_path, "n", new)]

    def usage(*arguments: str) -> resource.struct_rusage:
        command = [sys.executable, str(script), *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used

    def decoding_s() -> float:
        started = time.process_time()
        for text in texts:
            orjson.loads(text)
        return time.process_time() - started

    def ratio_and_memory() -> tuple[float, int]:
        used = usage(*files)
        return (used.ru_utime - usage("--help").ru_utime) / decoding_s(), used.ru_maxrss

    # In turn, so that a busy machine slows all alike. Starting Python with scipy takes a second,
    # whatever the size. 4 to 7 times is usual; row by row it is 13 to 24.
    ratios, memory_kb = zip(*(ratio_and_memory() for _ in range(3)), strict=True)
    assert min(ratios) < 10
    assert max(memory_kb) < 400 * 1024


def test_reading_takes_little_more_than_decoding() -> None:
    text = json.dumps(launches.large(2000, 1))
    names = Names()

    def cpu_s(read: Callable[[], object]) -> float:
        started = time.process_time()
        read()
        return time.process_time() - started

    def parse() -> object:
        return parse_launch("run.json", text, names)

    # In turn, so that a busy machine slows both. 3 times is usual; row by row it is above 5.
    ratios = sorted(cpu_s(parse) / cpu_s(lambda: orjson.loads(text)) for _ in range(11))
    assert ratios[2] < 4.5
