"""Two suites at once on one machine, in one folder: each as if it were alone."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from drill import job
from drill.drills import ROWS

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher

FLAGS = ("--backend=host", *ROWS)
# So long that the other suite measures in the meantime, even while other tests run.
SLOW = "--inject_fault=delay@report,visit=2,ms=7000"
LIMIT_S = 120.0


def await_file(path: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.05)


def test_with_files_of_their_own_both_are_whole(launcher: "Launcher") -> None:
    flags = [*FLAGS, SLOW, "--benchmark_out=a"]
    with job.start(job.mpirun(launcher.with_faults().binary, 2, flags)) as first:
        await_file(first.folder / "a")
        flags = [*FLAGS, f"--benchmark_out={first.folder}/b", "--samples_out=samples"]
        with job.start(job.mpirun(launcher.binary, 2, flags), cwd=first.folder) as second:
            other = second.end(LIMIT_S)
            assert "incomplete" in (first.folder / "a").read_text(), "they did not run at once"
        ended = first.end(LIMIT_S)
    assert (ended.status, other.status) == (0, 0), ended.stderr + other.stderr
    assert (ended.left, other.left) == ([], [])
    assert sorted(ended.files) == ["a", "b", "samples"]
    for name in ("a", "b"):
        result = json.loads(ended.files[name])
        assert "incomplete" not in result
        assert len(result["benchmarks"]) == 7
        assert not [row for row in result["benchmarks"] if row.get("error_occurred")]


def test_with_the_same_file_the_second_is_refused(launcher: "Launcher") -> None:
    flags = [*FLAGS, "--benchmark_out=same"]
    with job.start(job.mpirun(launcher.with_faults().binary, 2, [*flags, SLOW])) as first:
        await_file(first.folder / "same")
        with job.start(job.mpirun(launcher.binary, 2, flags), cwd=first.folder) as second:
            refused = second.end(LIMIT_S)
        ended = first.end(LIMIT_S)
    assert refused.status == 2
    assert refused.ours == [
        "overlapbench: cannot write same: it is already being written, by another run or another "
        "flag of this one; name another file"
    ]
    assert ended.status == 0, ended.stderr
    assert len(json.loads(ended.files["same"])["benchmarks"]) == 7
