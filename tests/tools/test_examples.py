"""The examples of docs/examples that need no GPU: those that read results or made-up traces."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_s_picture_and_words_have_the_recorded_figures(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "docs/examples/two_transports.py", tmp_path / "drawn.svg"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tools")},
        check=True,
    )
    drawn = (tmp_path / "drawn.svg").read_text(encoding="utf-8")
    kept = (ROOT / "docs/images/transports.svg").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for figure in ("3.326 ms", "1.546 ms"):
        assert all(figure in text for text in (drawn, kept, readme))


def counter_tracks(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "docs/examples/counter_tracks.py", folder],
        capture_output=True,
        text=True,
        check=False,
    )


def reading(at_ms: float, name: str, value: float) -> dict[str, Any]:
    return {"ph": "C", "name": name, "ts": at_ms * 1e3, "args": {"value": value}}


def sample(number: int, begin_ms: float, end_ms: float) -> dict[str, Any]:
    taken_us = (end_ms - begin_ms) * 1e3
    return {"ph": "X", "name": f"sample {number}", "ts": begin_ms * 1e3, "dur": taken_us}


def test_counter_tracks_are_summed_up(tmp_path: Path) -> None:
    # One reading in the pause between both samples, from which on the second one's bytes count:
    # 10 ms each at 2, 2 and 1 GB/s.
    readings = {
        "power_W": {5: 300, 15: 300, 25: 400, 36: 400, 46: 500, 56: 600, 66: 600, 76: 600},
        "sm_clock_MHz": {5: 1980, 36: 1700, 76: 1800},
        "nvlink_sent_GBps": {5: 9, 36: 0, 46: 2, 56: 2, 66: 1, 76: 7},
    }
    events = [sample(1, 0, 30), sample(2, 40, 70)]
    events += [reading(at, name, v) for name, at_of in readings.items() for at, v in at_of.items()]
    (tmp_path / "Family.Row.rank0.json").write_text(json.dumps({"traceEvents": events}))
    done = counter_tracks(tmp_path)
    assert done.returncode == 0, done.stderr
    head, row, last = done.stdout.splitlines()
    assert len(head.split()) == 11
    figures = ["4.0", "10.0", "1700-1980", "300-600", "15.5", "9.0", "47.7"]
    assert row.split() == [*figures, "Family.Row.rank0"]
    assert last == "Readings are 10.0 to 11.0 ms apart, 10.0 as a median."


def test_traces_without_counter_tracks_are_refused(tmp_path: Path) -> None:
    trace = {"traceEvents": [sample(1, 0, 30), sample(2, 40, 70)]}
    (tmp_path / "Family.Row.rank0.json").write_text(json.dumps(trace))
    done = counter_tracks(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("counter_tracks: no counter tracks in any ")
