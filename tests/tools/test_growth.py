"""Growth: a leak is found whatever the noise, noise alone is none, and bad files are refused."""

import math
import random
import sys
from pathlib import Path

import pytest

import soak
from growth import SHORTEST, groups_of, growths, read, worst
from overlapbench.output import ResultError
from overlapbench.reading.source import LARGEST, SMALLEST

HEADER = "seconds,benchmark,groups,resident_bytes,threads\n"
MIB = 1 << 20


def piece(lines: int, leak_bytes: float = 0, leak_threads: float = 0, seed: int = 1) -> str:
    """Make a process's lines: pages come and go, a start-up settles, two threads flicker."""
    noise = random.Random(seed)
    text = HEADER
    for i in range(lines):
        settling = 30 * MIB * (1 - 0.5 ** (i + 1))
        resident = 100 * MIB + settling + noise.uniform(-MIB, MIB) + leak_bytes * i
        threads = 5 + (noise.random() < 0.2) + int(leak_threads * i)
        text += f"{i * 0.5},A/B,100,{resident:.0f},{threads}\n"
    return text


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_a_start_up_are_no_growth(seed: int) -> None:
    found = growths(read("r.csv", piece(60, seed=seed)))
    assert {growth.resource for growth in found} == {"resident_bytes", "threads"}
    assert not any(growth.found for growth in found)


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_is_found_and_its_slope_is_right(seed: int) -> None:
    found = worst(
        growths(read("r.csv", piece(60, leak_bytes=MIB / 4, leak_threads=0.1, seed=seed)))
    )
    assert all(growth.found for growth in found.values())
    # A line every half second: 0.25 MiB each are 1800 MiB an hour.
    assert found["resident_bytes"].per_hour == pytest.approx(1800 * MIB, rel=0.1)


def test_counted_resources_may_not_grow_and_memory_by_a_share() -> None:
    lines = [f"{i},A/B,1,{1000 * MIB + (19 * MIB) * (i > 50)},{5 + (i > 50)}" for i in range(80)]
    memory, threads = growths(read("r.csv", HEADER + "\n".join(lines)))
    assert (memory.amount, memory.found) == (19 * MIB, False)
    assert (threads.amount, threads.found) == (1, True)


def test_series_of_different_names_are_not_mixed() -> None:
    text = HEADER
    for i in range(40):
        text += f"{i},small,10,1e8,4\n" if i < 20 else f"{i},large,10,9e8,8\n"
    found = growths(read("r.csv", text))
    assert [growth.lines for growth in found] == [20] * 4
    assert not any(growth.found for growth in found)


def test_short_series_are_not_judged() -> None:
    assert growths(read("r.csv", piece(SHORTEST - 1, leak_threads=1))) == []
    assert growths(read("r.csv", piece(SHORTEST, leak_threads=1)))[1].found


def test_groups_are_counted_by_benchmark() -> None:
    assert groups_of(read("r.csv", HEADER + "0,,0,1,1\n1,A,7,1,1\n2,A,8,1,1\n")) == {"A": 15}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: not a file of --resources_out"),
        ("name,group,run\n", "line 1: not a file of --resources_out"),
        (HEADER + "0,A,1,5\n", "line 2: cut short, or not numbers"),
        (HEADER + "0,A,1,5,6\n\n", "line 3: cut short, or not numbers"),
        (HEADER + "0,A,1,5,nan\n", "line 2: a number is out of range"),
        (HEADER + "0,A,1,1e308,6\n", "line 2: a number is out of range"),
        (HEADER + "0,A,1,5,6\n1e-320,A,1,5,6\n", "line 3: a number is out of range"),
        (HEADER + "0,A,-inf,5,6\n", "line 2: a number is out of range"),
        (HEADER + "# incomplete: \x1b[31m\n", "line 2: incomplete: \N{REPLACEMENT CHARACTER}"),
        (HEADER + "# incomplete: ended by SIGTERM, somewhere\n", "line 2: incomplete: ended by"),
    ],
)
def test_bad_files_are_refused_by_line(text: str, complaint: str) -> None:
    with pytest.raises(ResultError, match=f"r.csv: {complaint}"):
        read("r.csv", text)


@pytest.mark.parametrize("seconds", [(0.0, SMALLEST), (-LARGEST, LARGEST), (LARGEST, SMALLEST)])
def test_growth_is_finite_for_every_accepted_value(seconds: tuple[float, float]) -> None:
    lines = [f"{seconds[i % 2]},A,1,{LARGEST if i % 3 else -LARGEST},{SMALLEST}" for i in range(40)]
    found = growths(read("r.csv", HEADER + "\n".join(lines)))
    assert all(math.isfinite(growth.per_hour) for growth in found)
    assert [growth.resource for growth in found] == ["resident_bytes", "threads"]


def test_names_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.csv"
    header = HEADER.replace("threads", "threads\x1b[8m")
    path.write_text(piece(20).replace(HEADER, header).replace("A/B", "A/\x1b[2J"))
    assert soak.main(["--read", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("\N{REPLACEMENT CHARACTER}") == 3


def test_an_endless_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("overlapbench.reading.source.LARGEST_BYTES", 1 << 20)
    assert soak.main(["--read", "/dev/zero"]) == 2
    assert capsys.readouterr().err == "soak: /dev/zero: above 1 MiB: too large for a result\n"


def test_the_table_is_80_columns_wide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "Overlap/AllReduce+CublasGemm/bytes:67108864/n:8192/precision:bf16/grid:16x16/cache:cold"
    path = tmp_path / "r.csv"
    held = (f"{i},{name},100,{150e9 + 1e8 * i:.0f},{i}" for i in range(40))
    path.write_text("\n".join([HEADER.rstrip(), *held]))
    assert soak.main(["--read", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"GROWS: {name}, 40 lines" in "".join(line.strip() for line in lines)


def command(folder: Path, body: str) -> list[str]:
    """Make a command that answers as the suite does: `body` sees `path`, of --resources_out."""
    script = folder / "command.py"
    script.write_text(f"import sys\npath = sys.argv[-1].split('=', 1)[1]\n{body}\n")
    return ["--", sys.executable, str(script)]


@pytest.mark.parametrize(("leak", "status"), [(0.0, 0), (0.5, 1)])
def test_the_command_line_runs_pieces_until_there_are_enough_iterations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], leak: float, status: int
) -> None:
    text = piece(20, leak_threads=leak)
    words = command(tmp_path, f"open(path, 'w').write({text!r})")
    assert soak.main(["--iterations=3500", *words]) == status
    captured = capsys.readouterr()
    assert "soak: 1 piece, " in captured.err
    assert "soak: 2 pieces, " in captured.err
    assert "at least 4000 iterations" in captured.err
    verdict = "GROWS" if leak else "holds"
    assert f"{verdict}: A/B, 20 lines" in captured.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("sys.exit('overlapbench: no GPU')", "failed with status 1, saying: overlapbench: no GPU"),
        (f"open(path, 'w').write({HEADER!r})", "no benchmark was measured"),
        ("pass", "No such file"),
    ],
)
def test_a_command_that_measures_nothing_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, complaint: str
) -> None:
    assert soak.main(["--minutes=1", *command(tmp_path, body)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("soak: ")
    assert complaint in last


def test_files_are_judged_and_too_short_ones_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(piece(40))
    assert soak.main(["--read", str(path)]) == 0
    path.write_text(piece(40, leak_threads=1))
    assert soak.main(["--read", str(path)]) == 1
    path.write_text(piece(3))
    assert soak.main(["--read", str(path)]) == 3
    assert soak.main(["--read", str(tmp_path / "none.csv")]) == 2
