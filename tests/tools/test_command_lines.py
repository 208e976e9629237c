"""The arguments of every command: their names, values and defaults, and how they are refused."""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from overlapbench.cli import command_line
from overlapbench.cli.command_line import COMMANDS, load
from overlapbench.output import ResultError

Capture = pytest.CaptureFixture[str]
USAGES = """
compare [-h] [--base FILE [FILE ...]] [--new FILE [FILE ...]] [--across FIELD] [--max-floor PERCENT]
 [--floors FILE.toml] [--allow-noise] [--all] [--title TEXT]
 [--format {table,markdown,json,junit,github}] [--json] [-o FILE] [BASE.json NEW.json ...]
gate [-h] ACTION ...
gate run [-h] (--base COMMAND | --baseline DIR) --candidate COMMAND [--across FIELD]
 [--max-floor PERCENT] [--floors FILE.toml] [--min-guarded PERCENT] [--keep DIR] [--all]
 [--title TEXT] [--format {table,markdown,json,junit,github}] [--json] [-o FILE] [--runs N]
 [--repetitions N] [--timeout-s N]
gate baseline [-h] -o DIR --command COMMAND [--runs N] [--repetitions N] [--timeout-s N]
tune [-h] [--command COMMAND] [--minimise {time,energy,energy_time}] [--runs N]
 [--budget-minutes M] [--unit-ms MS] [--timeout-s S] [--json] [-o FILE.json] [PAIR ...]
chart [-h] -o DIR [--title TITLE] RESULT.json [RESULT.json ...]
report [-h] -o FILE.html [--title TITLE] [--base FILE [FILE ...]]
 [--traces TRACE [TRACE ...]] [--across FIELD]
 [--max-floor PERCENT] [--floors FILE.toml] RESULT.json [RESULT.json ...]
history [-h] ACTION ...
history add [-h] [--database FILE] [--revision REVISION] RESULT.json [RESULT.json ...]
history list [-h] [--database FILE] [--machine TEXT] [--since DATE] [--revision REV] [--json]
history export [-h] [--database FILE] [-o DIR] [--machine TEXT] [--since DATE]
 [--revision REV] [RUN ...]
history trend [-h] [--database FILE] -o FILE [--title TITLE] [--machine TEXT] [--since DATE]
 [--revision REV] [--benchmark REGEX] [--metric NAME] [--across FIELD] [--least PERCENT]
history changes [-h] [--database FILE] [--machine TEXT] [--since DATE] [--revision REV]
 [--benchmark REGEX] [--metric NAME] [--across FIELD] [--least PERCENT] [--json]
export [-h] [--format FORMAT] [--metric NAME] [-o FILE] RESULT.json
predict [-h] [--benchmark REGEX] [--gpus N,...] [--nodes N,...] [--network GB/s,...]
 [--latency US] [--transport NAME,...] [--bucket-bytes V,...] [--prefetch V,...]
 [--comm-sms V,...] [--microbatches V,...] [--step N] [--window NAME] [--class PATTERN=CLASS]
 [--json] [-o FILE] FILE [FILE ...]
findings [-h] [--json] [--quiet] RESULT.json [RESULT.json ...]
doctor [-h] [--compare NODE.json [NODE.json ...]] [--reference HEALTHY.json [HEALTHY.json ...]]
 [--command COMMAND] [--timeout-s S] [--json] [-o FILE]
trace [-h] [--step N] [--window NAME] [--class PATTERN=CLASS] [--compare FILE]
 [--json] [-o FILE.json] FILE [FILE ...]
timeline [-h] -o FILE [--title TITLE] [--one-scale] [--step N] [--window NAME]
 [--class PATTERN=CLASS] TRACE [TRACE ...]
"""


def parsers() -> Iterator[argparse.ArgumentParser]:
    """Return the parsers of all commands and their actions; that of `run` asks the program."""
    for name in COMMANDS:
        if name != "run":
            parser = load(name).make_parser(f"overlapbench {name}")
            yield parser
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    yield from action.choices.values()


def test_every_command_has_its_arguments() -> None:
    found = [
        " ".join(parser.format_usage().split()).removeprefix("usage: overlapbench ")
        for parser in parsers()
    ]
    assert found == USAGES.strip().replace("\n ", " ").splitlines()


def parsed(command: str, *words: str) -> dict[str, Any]:
    given = vars(load(command).make_parser(command).parse_args(words))
    return {name: value for name, value in given.items() if not callable(value)}


JUDGING: dict[str, Any] = {"across": None, "max_floor": None, "floors": []}
SHOWN = {"format": "table", "output": [], "all": False, "title": "overlapbench"}
RUNNING = {"runs": 5, "repetitions": 3, "timeout_s": 3600}
SELECTION = {
    "database": Path("history.sqlite"),
    "machine": "",
    "since": "0001-01-01T00:00:00+00:00",
    "revision": "",
}
SERIES = {"benchmark": "", "metric": "time", "across": [], "least": 0.02}
CHOICES: dict[str, Any] = {"step": None, "window": None, "rules": []}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (
            ["compare", "a", "b"],
            {"files": ["a", "b"], "base": [], "new": [], "allow_noise": False, **JUDGING, **SHOWN},
        ),
        (
            ["gate", "run", "--base", "a", "--candidate", "b"],
            {"base": "a", "candidate": "b", "baseline": None, "min_guarded": None, "keep": None}
            | {**JUDGING, **SHOWN, **RUNNING},
        ),
        (
            ["gate", "baseline", "-o", "a", "--command", "b"],
            {"output": Path("a"), "command": "b", **RUNNING},
        ),
        (
            ["tune"],
            {"pairs": [], "command": "overlapbench run", "minimise": "time"}
            | {"runs": 5, "unit_ms": 100}
            | {"budget_minutes": float("inf"), "timeout_s": 3600, "output": None, "json": False},
        ),
        (["chart", "a", "-o", "b"], {"results": ["a"], "output": Path("b"), "title": ""}),
        (
            ["report", "a", "-o", "b"],
            {"results": ["a"], "output": Path("b"), "title": "What overlap costs", "base": []}
            | {"traces": [], **JUDGING},
        ),
        (
            ["history", "add", "a"],
            {"results": ["a"], "revision": "", "database": Path("history.sqlite")},
        ),
        (["history", "list"], {**SELECTION, "json": False}),
        (["history", "export"], {"runs": [], "output": None, **SELECTION}),
        (
            ["history", "trend", "-o", "a"],
            {"output": Path("a"), "title": "", **SELECTION, **SERIES},
        ),
        (["history", "changes"], {**SELECTION, **SERIES, "json": False}),
        (["export", "a"], {"result": "a", "format": None, "metric": [], "output": None}),
        (
            ["predict", "a"],
            {"files": ["a"], "benchmark": "", "gpus": None, "nodes": None, "network": None}
            | {"latency": 5.0, "transport": None, "bucket_bytes": None, "prefetch": None}
            | {"comm_sms": None, "microbatches": None, "json": False, "output": None}
            | {"step": None, "window": None, "rules": []},
        ),
        (["trace", "a"], {"files": ["a"], "compare": [], "json": False, "output": None, **CHOICES}),
        (
            ["timeline", "a", "-o", "b"],
            {"files": ["a"], "output": Path("b"), "title": ""} | {"one_scale": False, **CHOICES},
        ),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_defaults(words: list[str], options: dict[str, Any]) -> None:
    assert parsed(*words) == options


def test_what_may_be_repeated_is_collected() -> None:
    files = ["--base", "a", "b", "--base", "c", "--new", "d", "-o", "e.md", "-o", "f.md"]
    repeated = ["--floors", "g", "--floors", "h", "--across", "driver", "--across", "unit"]
    given = parsed("compare", *files, *repeated)
    assert (given["base"], given["new"]) == (["a", "b", "c"], ["d"])
    assert given["output"] == [Path("e.md"), Path("f.md")]
    assert given["floors"] == [Path("g"), Path("h")]
    assert given["across"] == ["driver", "unit"]
    given = parsed("trace", "a", "--class", "x=COMM", "--class", "y=MEM",
        "--compare", "c", "--compare", "d", "--step", "4", "--window", "w")  # fmt: skip
    assert [rule.kind.value for rule in given["rules"]] == ["COMM", "MEM"]
    assert (given["compare"], given["step"], given["window"]) == (["c", "d"], 4, "w")
    given = parsed("report", "r", "-o", "o", "--base", "a", "b", "--base", "c",
        "--traces", "v", "w", "--traces", "x")  # fmt: skip
    assert (given["base"], given["traces"]) == (["a", "b", "c"], ["v", "w", "x"])
    assert parsed("export", "a", "--metric", "x", "--metric", "y")["metric"] == ["x", "y"]
    assert parsed("compare", "a", "b", "--json")["format"] == "json"
    assert parsed("history", "export", "3", "4")["runs"] == [3, 4]


def test_underscores_mean_dashes_in_flags_but_not_in_values() -> None:
    given = parsed("compare", "a_b", "c_d", "--max_floor=5", "--output=x_y")
    assert (given["max_floor"], given["output"]) == (0.05, [Path("x_y")])
    assert given["files"] == ["a_b", "c_d"]
    assert parsed("chart", "a", "-o", "b", "--title", "__odd")["title"] == "__odd"


# ---- what all commands share


@pytest.mark.parametrize(("text", "least"), [("0", 0), ("1", 1), ("12", 3)])
def test_a_whole_number_is_read(text: str, least: int) -> None:
    assert command_line.number_from(least)(text) == int(text)


@pytest.mark.parametrize(("text", "least"), [("0", 1), ("-1", 0), ("1.0", 0), ("x", 0), ("", 0)])
def test_anything_else_is_no_whole_number(text: str, least: int) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        command_line.number_from(least)(text)
    assert str(raised.value) == f"{text!r} is not a whole number of at least {least}"


@pytest.mark.parametrize(
    ("text", "share"), [("0", 0.0), ("5", 0.05), ("7.5%", 0.075), ("100", 1.0), ("100%", 1.0)]
)
def test_a_percentage_is_a_share(text: str, share: float) -> None:
    assert command_line.percentage(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["-0.1", "100.1", "nan", "x", "%", ""])
def test_anything_else_is_no_percentage(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        command_line.percentage(text)
    assert str(raised.value) == f"{text!r} is not a percentage from 0 to 100"


@pytest.mark.parametrize(
    ("given", "own", "rest"),
    [
        (["a", "b"], ["a", "b"], []),
        (["a", "--", "b", "--", "c"], ["a"], ["b", "--", "c"]),
        (["--"], [], []),
        ([], [], []),
    ],
)
def test_what_comes_after_dashes_is_the_programs(
    given: list[str], own: list[str], rest: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_line.split_at_dashes(given) == (own, rest)
    monkeypatch.setattr(sys, "argv", ["program", *given])
    assert command_line.split_at_dashes(None) == (own, rest)


@pytest.mark.parametrize(
    ("outcome", "status", "line"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (3, 3, ""),
        (ResultError("it is bad"), 2, "mine: it is bad\n"),
        (
            OSError(errno.ENOSPC, "No space left", "a.json"),
            2,
            "mine: a.json: cannot be written: No space left\n",
        ),
    ],
)
def test_a_command_ends_with_its_status_or_one_line(
    outcome: Any, status: int, line: str, capsys: Capture
) -> None:
    called: list[Any] = []

    @command_line.command
    def main(arguments: Sequence[str] | None, program: str) -> int | None:
        called.append((arguments, program))
        if isinstance(outcome, Exception):
            raise outcome
        result: int | None = outcome
        return result

    assert main(["a"], "mine") == status
    assert capsys.readouterr() == ("", line)
    main()
    assert called == [(["a"], "mine"), (None, f"overlapbench {__name__.rpartition('.')[2]}")]


def test_a_refusal_has_status_2(capsys: Capture) -> None:
    assert command_line.refuse("mine", "no") == 2
    assert capsys.readouterr() == ("", "mine: no\n")


def test_an_interruption_is_one_line_and_130(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as raised, command_line.ending_if_interrupted("mine"):
        raise KeyboardInterrupt
    assert raised.value.code == 130
    assert capsys.readouterr() == ("", "mine: interrupted\n")
    with command_line.ending_if_interrupted("mine"):
        pass


def test_a_termination_ends_the_program_as_shells_do() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        command_line.exit_if_terminated()
        with pytest.raises(SystemExit) as raised:
            os.kill(os.getpid(), signal.SIGTERM)
        assert raised.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, before)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "width", "colours"),
    [
        (io.StringIO(), {}, 80, False),
        (Terminal(), {}, 123, True),
        (Terminal(), {"NO_COLOR": "1"}, 123, False),
        (Terminal(), {"NO_COLOR": ""}, 123, True),
        (Terminal(), {"TERM": "dumb"}, 123, False),
        (Terminal(), {"TERM": "xterm"}, 123, True),
    ],
)
def test_a_terminal_is_as_wide_as_it_is_and_may_have_colours(
    stream: io.StringIO,
    variables: dict[str, str],
    width: int,
    colours: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"COLUMNS": "123"} | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream)
    found = command_line.screen()
    assert (found.width, found.colours) == (width, colours)
