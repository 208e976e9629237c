"""Floors files: what they say, and refusals by entry."""

from pathlib import Path

import pytest

from overlapbench.judge.floors import parse_floors, read_floors
from overlapbench.output import ResultError
from overlapbench.reading.counters import stored_table

TEXT = """
[[floor]]
pattern = "^Overlap/"
percent = 5
[[floor]]
pattern = "/n:64"
metric = "time"
percent = 8.5
"""


def test_the_last_entry_that_fits_wins() -> None:
    floors = parse_floors("f.toml", TEXT)
    found = [
        (name, metric, entry.floor if entry else None)
        for name in ("Overlap/A+B/n:64", "Overlap/A+B/n:1", "Compute/Gemm/n:1")
        for metric in ("time", "efficiency")
        for entry in [floors.set_for(name, metric)]
    ]
    assert [floor for _, _, floor in found] == [0.085, 0.05, 0.05, 0.05, None, None]


@pytest.mark.parametrize(("pattern", "name"), [("64M", "67108864"), ("67108864", "64M")])
def test_a_pattern_takes_a_size_in_either_form(pattern: str, name: str) -> None:
    floors = parse_floors("f.toml", f'[[floor]]\npattern = "/bytes:{pattern}$"\npercent = 5')
    assert floors.set_for(f"Comm/AllToAll/bytes:{name}", "time") is not None
    assert floors.set_for("Comm/AllToAll/bytes:64", "time") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("floor = ", "f.toml: not TOML"),
        ("flor = 1", "f.toml: unknown key 'flor': known are floor"),
        ("[floor]\npercent = 1", "f.toml: floor: write [[floor]] for each"),
        ("[[floor]]\npercent = 1", "f.toml: floor[0].pattern: missing, or not text"),
        (
            '[[floor]]\npattern = ""',
            "f.toml: floor[0].percent: None is not a number of at least 0",
        ),
        ('[[floor]]\npattern = ""\npercent = -1', "f.toml: floor[0].percent: -1 is not a number"),
        ('[[floor]]\npattern = ""\npercent = nan', "f.toml: floor[0].percent: nan is not a"),
        ('[[floor]]\npattern = ""\npercent = 1' + 400 * "0", "f.toml: floor[0].percent: 1000"),
        ("percent = 1" + 10_000 * "0", "f.toml: not TOML"),
        ("percent = " + 10_000 * "[", "f.toml: not TOML"),
        ('[[floor]]\npattern = ""\npercent = true', "f.toml: floor[0].percent: True is not a"),
        (
            '[[floor]]\npattern = "*"\npercent = 1',
            "f.toml: floor[0].pattern: '*' is not a regular expression: nothing to repeat",
        ),
        ('[[floor]]\npattern = ""\npct = 1', "f.toml: floor[0]: unknown key 'pct'"),
        ('[[floor]]\npattern = ""\nmetric = 1', "f.toml: floor[0].metric: 1 is not the name of"),
        ("floor = [1]", "f.toml: floor[0]: 1 is not a table"),
    ],
)
def test_malformed_floors_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ResultError) as refusal:
        parse_floors("f.toml", text)
    assert str(refusal.value).startswith(complaint)


def test_a_metric_that_no_table_judges_is_refused() -> None:
    text = '[[floor]]\npattern = ""\nmetric = "x"\npercent = 1'
    floors = parse_floors("f.toml", text)
    with pytest.raises(ResultError) as refusal:
        floors.require_known(stored_table())
    names = ", ".join(stored_table().judged)
    assert str(refusal.value) == f"f.toml: floor[0].metric: 'x' is not one of the metrics {names}"


def test_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlapbench.reading.source.LARGEST_BYTES", 1 << 20)
    with pytest.raises(ResultError, match=r"^/dev/zero: above 1 MiB: too large"):
        read_floors([Path("/dev/zero")])


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(ResultError, match="not TOML: not UTF-8"):
        read_floors([path])
