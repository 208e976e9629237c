"""What a program answers, and how one that does not answer is reported."""

import sys

import pytest

import samples
from overlapbench.judge.runner import Runner, parse_command
from overlapbench.output import ResultError

PACKAGE = [sys.executable, "-m", "overlapbench"]


def ask(script: str, *flags: str, timeout_s: float = 60) -> str:
    runner = Runner({"side": ["sh", "-c", script, "sh"]}, ["--all"], timeout_s)
    return runner.ask("side", flags)


def test_an_answer_is_standard_output_and_the_flags_are_all_given() -> None:
    assert ask('echo "$@"; echo noise >&2', "--one", "--two=2") == "--all --one --two=2\n"
    assert ask(r"printf 'a\377\303\244'") == "a\N{REPLACEMENT CHARACTER}ä"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (
            r"printf 'noise\377\noverlapbench: no \303\244 pair\noverlapbench: 2nd\n' >&2; exit 3",
            "no ä pair",
        ),
        (r"echo so; printf 'boom\n\n' >&2; exit 3", "--one: exit status 3, no answer: boom"),
        ("exit 1", "sh --all --one: exit status 1, no answer: it printed nothing"),
        ("kill -9 $$", "--one: ended by signal 9, no answer: it printed nothing"),
    ],
)
def test_a_program_that_does_not_answer_is_told_by_its_own_line(
    script: str, complaint: str
) -> None:
    with pytest.raises(ResultError) as raised:
        ask(script, "--one")
    assert str(raised.value).endswith(complaint)
    if complaint.startswith("no"):
        assert str(raised.value) == complaint


def test_a_program_that_hangs_is_ended() -> None:
    with pytest.raises(ResultError, match=r"timed out after 0\.2 s \(--timeout-s\)"):
        ask("sleep 60", timeout_s=0.2)


def test_a_command_is_split_as_a_shell_does() -> None:
    assert parse_command("a 'b c' d\\ e") == ["a", "b c", "d e"]
    for text, complaint in (("a 'b", "a 'b: not a command: "), (" ", "the command is empty")):
        with pytest.raises(ResultError) as raised:
            parse_command(text)
        assert str(raised.value).startswith(complaint)


def test_without_the_command_on_the_path_it_is_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", str(samples.TOOLS))
    assert parse_command("overlapbench run -x") == [*PACKAGE, "run", "-x"]
    assert Runner({"side": parse_command("overlapbench")}, [], 60).ask("side", ["--help"])


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ResultError) as raised:
        Runner({"side": ["/dev/null/program"]}, [], 1).ask("side", [])
    assert str(raised.value) == "/dev/null/program: cannot be started: Not a directory"
