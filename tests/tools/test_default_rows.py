"""Every family's default rows on several numbers of GPUs, by a ./bench that makes rows up."""

import json
from pathlib import Path

import pytest

import default_rows
import samples

# Sees $GPUS GPUs, and lists two families; Moe needs two ranks. Writes the job's GPUs into the row's
# reason. With --meet, the two jobs on two GPUs wait for each other.
BENCH = """#!/usr/bin/env python3
import json, os, pathlib, sys, time
flags = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
if flags.get("query") == "gpus":
    sys.exit(print(os.environ["GPUS"]))
if "benchmark_list_tests" in flags:
    if "refuse" in flags:
        sys.exit("no")
    print("Gelu/Fused/count:1\\nnot a row")
    print("Moe/Step/experts:8" if flags["ranks"] != "1" else "")
    sys.exit()
family = flags["benchmark_filter"].strip("^/")
time.sleep(float(flags.get("sleep", 0)))
template = pathlib.Path(flags["template"])
(template.parent / f"{family}-{flags['ranks']}.began").touch()
while "meet" in flags and flags["ranks"] == "2" and len([*template.parent.glob("*-2.began")]) < 2:
    time.sleep(0.01)
document = json.loads(template.read_text())
document["benchmarks"][0]["reason"] = os.environ["CUDA_VISIBLE_DEVICES"]
if family == flags.get("broken"):
    document["benchmarks"][1] |= {"state": "invalid", "valid": 0.0}
if family != flags.get("lost"):
    pathlib.Path(flags["benchmark_out"]).write_text(json.dumps(document))
"""


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    bench = tmp_path / "bench"
    bench.write_text(BENCH)
    bench.chmod(0o755)
    monkeypatch.setattr(default_rows, "bench_path", lambda _binary: bench)
    monkeypatch.setenv("GPUS", "4")
    rows = [
        samples.row("Gelu/one", pct_of_bound=98.5, reason="x"),
        samples.row("Gelu/two", reason="bad"),
    ]
    template = samples.write(tmp_path / "template.json", samples.document(rows))
    return ["-o", str(tmp_path / "out"), "--", f"--template={template}"]


def gpus_of(folder: Path, job: str) -> set[str]:
    rows = json.loads((folder / f"out/{job}.json").read_text())["benchmarks"]
    return set(rows[0]["reason"].split(","))


def test_each_family_is_measured_on_each_number_of_gpus(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert default_rows.main([*arguments, "--meet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["Gelu-on-4", "Moe-on-4", "Gelu-on-2", "Moe-on-2", "Gelu-on-1"]
    assert [line.split()[0] for line in lines] == [*names, "0"]
    assert all("2 ok, 1 of 1 within 2 % of their bound" in line for line in lines[:-1])
    assert gpus_of(tmp_path, "Moe-on-4") == {"0", "1", "2", "3"}
    assert not gpus_of(tmp_path, "Gelu-on-2") & gpus_of(tmp_path, "Moe-on-2")


def test_what_is_wrong_is_told_and_fails(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--ranks", "1,2", "--gpus", "2", "--families", "Moe", *arguments]
    assert default_rows.main([*chosen, "--broken=Moe"]) == 1
    assert capsys.readouterr().out.endswith("1 fault\nGelu/two: bad\n")
    assert default_rows.main([*chosen, "--lost=Moe"]) == 2
    assert "no result" in capsys.readouterr().out
    assert default_rows.main(["--timeout-s", "0.2", *chosen, "--sleep=5"]) == 2
    assert "ended after 0.2 s" in capsys.readouterr().out


def test_bad_usage_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_rows.main(["--gpus", "2", "--ranks", "4", *arguments]) == 2
    assert capsys.readouterr().err == "default_rows: --ranks takes numbers from 1 to 2\n"
    assert default_rows.main([*arguments, "--refuse"]) == 2
    assert capsys.readouterr().err == "default_rows: ./bench cannot list its rows: no\n"
    monkeypatch.setenv("GPUS", "0")
    assert default_rows.main(arguments) == 2
    assert capsys.readouterr().err.startswith("default_rows: no GPU is visible: --gpus N")
