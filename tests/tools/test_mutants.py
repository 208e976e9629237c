"""The lists of mutants are fresh, and the scripts that plant them report correctly."""

import json
import re
import subprocess
import time
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import mutants
import python_mutants
from mutants import Ended, Mutant, Result, Verdict
from python_mutants import Equivalent

MUTANTS = mutants.read_list()
CMAKE = (mutants.ROOT / "tests" / "CMakeLists.txt").read_text()
ONE = Mutant("min-is-max", "core/min.cc", "a < b", "a > b", ("min_test", "sum_test_on_2"))


# ---- The list


def test_there_are_enough_mutants_of_different_names() -> None:
    assert len(MUTANTS) >= 60
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_an_entry_is_fresh(mutant: Mutant) -> None:
    text = (mutants.ROOT / mutant.file).read_text()
    assert mutant.applied(text) is not None, f"{text.count(mutant.old)} times in {mutant.file}"
    assert mutant.applied(text) != text


@pytest.mark.parametrize("test", mutants.all_tests(MUTANTS))
def test_a_test_that_should_notice_exists(test: str) -> None:
    assert (mutants.ROOT / mutants.source_of(test)).is_file()
    if mutants.is_pytest(test):
        return
    declared = re.search(rf"overlapbench_test\({mutants.target_of(test)}\.cc([^)]*)\)", CMAKE)
    assert declared is not None
    ranks = re.search(r"RANKS((?: \d)+)", declared[1])
    names = [f"{mutants.target_of(test)}_on_{n}" for n in ranks[1].split()] if ranks else []
    assert test in (names or [mutants.target_of(test)])


def test_few_are_accepted_as_survivors_and_each_says_why() -> None:
    survivors = [mutant for mutant in MUTANTS if mutant.survives]
    assert len(survivors) <= (1 - mutants.LEAST_CAUGHT) * len(MUTANTS)
    assert all(re.match(r"[A-Z].{30,}\.$", mutant.survives) for mutant in survivors)


# ---- Trying one


class FakeBench:
    """Logs what it finds in the copy; fails on request."""

    def __init__(self, place: Path, error: str = "", ends: dict[str, Ended] | None = None) -> None:
        self.place = place
        self.error = error
        self.ends = ends or {}
        self.built: list[str] = []
        self.ran: list[str] = []
        self.seen: set[str] = set()

    def build(self, tests: Sequence[str]) -> str:
        self.built += tests
        self.seen.add(self.place.read_text())
        return self.error

    def run(self, test: str) -> Ended:
        self.ran.append(test)
        self.seen.add(self.place.read_text())
        return self.ends.get(test, Ended(0))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / ONE.file
    place.parent.mkdir()
    place.write_text("return a < b ? a : b;")
    return place


def try_one(place: Path, bench: FakeBench, mutant: Mutant = ONE) -> Result:
    before = place.read_text()
    result = mutants.try_mutant(mutant, place.parents[1], bench)
    assert place.read_text() == before
    return result


def test_the_fault_is_there_while_it_is_tried_and_gone_afterwards(place: Path) -> None:
    bench = FakeBench(place)
    assert try_one(place, bench) == Result(ONE, Verdict.SURVIVED)
    assert bench.seen == {"return a > b ? a : b;"}
    assert bench.built == bench.ran == list(ONE.tests)


def test_the_first_test_that_fails_ends_it_and_is_named(place: Path) -> None:
    output = "[ RUN      ] MinTest.OfTwo\n[  FAILED  ] MinTest.OfTwo (0 ms)\n"
    bench = FakeBench(place, ends={"min_test": Ended(1, output)})
    assert try_one(place, bench) == Result(ONE, Verdict.CAUGHT, "min_test: MinTest.OfTwo")
    assert bench.built == bench.ran == ["min_test"]


def test_a_test_that_crashes_is_named(place: Path) -> None:
    bench = FakeBench(place, ends={"sum_test_on_2": Ended(-11, "")})
    assert try_one(place, bench) == Result(ONE, Verdict.CAUGHT, "sum_test_on_2")


def test_a_test_that_hangs_has_caught_it(place: Path) -> None:
    bench = FakeBench(place, ends={"min_test": Ended(None)})
    assert try_one(place, bench) == Result(ONE, Verdict.HANG, "min_test")


def test_a_mutant_that_does_not_compile_is_not_tested(place: Path) -> None:
    bench = FakeBench(place, error="error: unused variable")
    assert try_one(place, bench) == Result(ONE, Verdict.UNBUILT, "error: unused variable")
    assert bench.ran == []


@pytest.mark.parametrize(
    ("text", "times"), [("return std::min(a, b);", 0), ("a < b || a < b", 2)], ids=str
)
def test_a_text_that_does_not_occur_once_is_stale(place: Path, text: str, times: int) -> None:
    place.write_text(text)
    bench = FakeBench(place)
    assert try_one(place, bench) == Result(ONE, Verdict.STALE, f"its text is {times} times there")
    assert bench.built == []


def test_a_file_that_is_gone_is_stale(place: Path) -> None:
    result = mutants.try_mutant(replace(ONE, file="gone.cc"), place.parents[1], FakeBench(place))
    assert result.verdict is Verdict.STALE


def test_an_interrupted_try_leaves_the_file_whole(place: Path) -> None:
    class Interrupted(FakeBench):
        def run(self, test: str) -> Ended:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        try_one(place, Interrupted(place))
    assert place.read_text() == "return a < b ? a : b;"


# ---- The summary


def results(caught: int, survived: int, survives: str = "") -> list[Result]:
    survivor = Result(replace(ONE, survives=survives), Verdict.SURVIVED)
    return [Result(ONE, Verdict.CAUGHT)] * caught + [survivor] * survived


@pytest.mark.parametrize(
    ("seen", "good"),
    [
        (results(20, 0), True),
        (results(19, 1, "It cannot matter."), True),
        (results(19, 1), False),
        (results(18, 2, "It cannot matter."), False),
        ([*results(19, 0), Result(ONE, Verdict.HANG)], True),
        ([*results(99, 0), Result(ONE, Verdict.STALE)], False),
        ([*results(99, 0), Result(ONE, Verdict.UNBUILT)], False),
    ],
)
def test_a_run_is_good_if_nearly_all_are_caught_and_the_others_explained(
    seen: list[Result], good: bool
) -> None:
    assert mutants.summary(seen)[1] is good


def test_the_summary_counts_and_names() -> None:
    text, _ = mutants.summary([*results(2, 1, "It cannot matter."), Result(ONE, Verdict.HANG)])
    assert text.splitlines() == [
        "3 of 4 caught (75.0%)",
        "  caught: 2",
        "  caught (hang): 1",
        "  survived: 1",
        "survived: min-is-max: It cannot matter.",
    ]


def test_a_sentence_that_is_no_longer_true_is_named() -> None:
    text, good = mutants.summary([Result(replace(ONE, survives="Why."), Verdict.CAUGHT)])
    assert "its sentence can go, a test catches it: min-is-max" in text
    assert good


# ---- The copy, the commands, the last run's verdicts


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one file of each kind."""
    tree = tmp_path / "tree"
    (tree / "core").mkdir(parents=True)
    (tree / ".gitignore").write_text("/build/\n")
    (tree / "core" / "min.cc").write_text("a < b")
    subprocess.run(["git", "-C", tree, "init", "-q"], check=True)
    subprocess.run(["git", "-C", tree, "add", "."], check=True)
    (tree / "core" / "new.cc").write_text("not added yet")
    return tree


def test_the_copy_is_the_working_tree(tree: Path) -> None:
    copy = tree / "build" / "mutants"
    mutants.refresh_copy(tree, copy)
    built = copy / "build" / "host" / "min_test"
    built.parent.mkdir(parents=True)
    built.touch()
    unchanged = (copy / "core" / "new.cc").stat().st_mtime_ns
    (copy / "core" / "min.cc").write_text("a > b")  # an interrupted run's
    (copy / "core" / "gone.cc").touch()
    mutants.refresh_copy(tree, copy)
    assert {path.name for path in copy.rglob("*.cc")} == {"min.cc", "new.cc"}
    assert (copy / "core" / "min.cc").read_text() == "a < b"
    assert (copy / "core" / "new.cc").stat().st_mtime_ns == unchanged
    assert built.is_file()


def test_a_command_that_runs_into_its_limit_is_ended(tmp_path: Path) -> None:
    tree = mutants.CopiedTree(tmp_path, 1)
    assert tree.command(["sh", "-c", "sleep 600"], 0.2) == Ended(None)
    assert tree.command(["sh", "-c", "echo hello; exit 3"], 60) == Ended(3, "hello\n")


@pytest.mark.parametrize(
    ("shown", "status"), [("3.5 ms, hidden 40 %", 0), ("0 ms", 1), ("3.5 ms ERROR", 1), ("", 1)]
)
def test_what_an_example_prints_decides(tmp_path: Path, shown: str, status: int) -> None:
    properties = [
        {"name": "PASS_REGULAR_EXPRESSION", "value": [r"[1-9.]+ ms"]},
        {"name": "FAIL_REGULAR_EXPRESSION", "value": ["ERROR"]},
    ]
    test = {"name": "example_runs", "command": ["echo", shown], "properties": properties}
    tree = mutants.CopiedTree(tmp_path, 1)
    tree.command = lambda *_: Ended(0, json.dumps({"tests": [test]}))  # type: ignore[method-assign]
    tree.read_tests()
    del tree.command
    assert tree.run("example_runs").status == status
    assert mutants.target_of("example_runs") == "overlapbench_with_example"


def test_verdicts_hold_while_nothing_has_changed(place: Path) -> None:
    copy = place.parents[1]
    mutants.Verdicts(copy, resume=False).add(Result(ONE, Verdict.CAUGHT, "min_test"))
    assert mutants.Verdicts(copy, resume=False).find(ONE) is None
    known = mutants.Verdicts(copy, resume=True)
    assert known.find(ONE) == Result(ONE, Verdict.CAUGHT, "min_test")
    assert known.find(replace(ONE, survives="Why.")) is not None
    assert known.find(replace(ONE, new="a <= b")) is None
    place.write_text("return a < b ? a : b;  // changed")
    assert known.find(ONE) is None


def test_untried_mutants_are_tried_again(place: Path) -> None:
    copy = place.parents[1]
    mutants.Verdicts(copy, resume=False).add(Result(ONE, Verdict.STALE))
    assert not (copy / "verdicts.json").exists()


def test_the_verdicts_are_json(place: Path) -> None:
    copy = place.parents[1]
    mutants.Verdicts(copy, resume=False).add(Result(ONE, Verdict.SURVIVED, "why"))
    assert list(json.loads((copy / "verdicts.json").read_text()).values()) == [["survived", "why"]]


# ---- The command line


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main(["--list", "--only", MUTANTS[0].name]) == 0
    assert capsys.readouterr().out.split()[:2] == [MUTANTS[0].name, MUTANTS[0].file]


@pytest.mark.parametrize("pattern", ["no such mutant", "("])
def test_a_selection_of_nothing_is_refused(
    pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        mutants.main(["--only", pattern])
    assert ended.value.code == 2
    assert f"--only={pattern}" in capsys.readouterr().err


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> list[Result]:
        raise KeyboardInterrupt

    monkeypatch.setattr("mutants.try_all", interrupted)
    assert mutants.main([]) == 130
    assert capsys.readouterr().err == "mutants.py: interrupted; --resume goes on from here\n"


# ---- Mutants of Python


MUTMUT = tomllib.loads((mutants.ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]


@pytest.mark.parametrize("pattern", MUTMUT["only_mutate"])
def test_a_mutated_module_exists(pattern: str) -> None:
    assert list((mutants.ROOT / "tools").glob(pattern.removeprefix("src/")))


@pytest.mark.parametrize("test", MUTMUT["pytest_add_cli_args_test_selection"])
def test_a_test_that_may_notice_exists(test: str) -> None:
    assert (mutants.ROOT / test).is_file()


@pytest.mark.parametrize(
    "test",
    [a.partition("=")[2] for a in MUTMUT["pytest_add_cli_args"] if a.startswith("--deselect=")],
)
def test_a_test_that_is_left_out_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (mutants.ROOT / file).read_text()


def test_decorators_that_mutmut_leaves_alone_become_calls() -> None:
    text = """
@dataclass
class Box:
    @classmethod
    def make(cls): return cls()

    @property
    def size(self):
        return 1

    weight = 2

@cache
def f(): return Box.make().size + 1
value = f()
"""
    changed = python_mutants.undecorated(text)
    assert "    def size(self):\n        return 1\n    size = property(size)\n" in changed
    assert "    @classmethod\n    def make" in changed
    assert changed.endswith("\ndef f(): return Box.make().size + 1\nf = cache(f)\nvalue = f()\n")
    found: dict[str, object] = {"dataclass": lambda c: c, "cache": lambda f: lambda: f() + 40}
    exec(changed, found)
    assert found["value"] == 42


def test_mutants_are_made_of_a_copy_beside_the_tree(tmp_path: Path) -> None:
    for name in ("tools/a.py", "tests/test_a.py", "pyproject.toml", ".git/config", "build/old"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("@cache\ndef f(): ...\n")
    place = tmp_path / "build" / "python-mutants"
    for _ in range(2):
        python_mutants.lay_out(tmp_path, place)
        (place / "src" / "old.py").touch()
    assert (place / "src" / "a.py").read_text() == "def f(): ...\nf = cache(f)\n"
    assert (tmp_path / "tools" / "a.py").read_text() == "@cache\ndef f(): ...\n"
    assert {path.name for path in (place / "mutants").iterdir()} == {"tests", "tools"}
    assert (place / "mutants" / "tests" / "test_a.py").is_file()


def test_only_chosen_modules_are_mutated_and_only_chosen_test_files_run() -> None:
    given = (mutants.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert python_mutants.settings_for(given, [], "") == given
    patterns = ["overlapbench.tune.*", "overlapbench.judge.side.x_*_1"]
    few = tomllib.loads(python_mutants.settings_for(given, patterns, "^test_tune$|^no"))
    chosen = few["tool"]["mutmut"]
    assert chosen.pop("only_mutate") == [
        "src/overlapbench/reading/names*",  # of the first mutant
        "src/overlapbench/tune*",
        "src/overlapbench/judge/side*",
    ]
    assert chosen.pop("pytest_add_cli_args_test_selection") == ["tests/tools/test_tune.py"]
    assert chosen.items() <= MUTMUT.items()


def test_a_sample_of_a_module_depends_on_that_module_and_the_seed_alone() -> None:
    one, other = ([f"{module}.x_f__mutmut_{i}" for i in range(100)] for module in "ab")
    chosen = python_mutants.choose(other + one, [], 40)
    assert len(chosen) == 80
    assert chosen[:40] == python_mutants.choose(one, [], 40) != one[:40]
    assert len({*chosen[:40], *python_mutants.choose(one, [], 40, seed=2)}) > 50
    assert len(python_mutants.choose(one, [], 1000)) == 100
    assert python_mutants.choose(one, ["a.*_7", "a.x_f__mutmut_8"], 2) == [one[7], one[8]]
    assert len(python_mutants.choose(one + other, ["b.*"], 3)) == 3


def test_the_summary_counts_modules_and_areas_and_names_survivors() -> None:
    results = """    p.a.b.x_f__mutmut_1: killed
    p.a.b.x_f__mutmut_2: no tests
    p.a.c.x_g: timeout
    p.d.x_h: equivalent
    p.e.x_h: survived"""
    text, good = python_mutants.summary(python_mutants.read_verdicts(results))
    assert not good
    assert text.splitlines() == [
        "no tests: p.a.b.x_f__mutmut_2",
        "timeout: p.a.c.x_g",
        "equivalent: p.d.x_h",
        "survived: p.e.x_h",
        "| Module | Caught | Mutants |",
        "|---|---:|---:|",
        "| p.a.b | 1 | 2 |",
        "| p.a.c | 1 | 1 |",
        "| p.e | 0 | 1 |",
        "| Area | Caught | Mutants |",
        "|---|---:|---:|",
        "| p.a | 2 | 3 |",
        "| p.e | 0 | 1 |",
        "2 of 4 caught (50.0%)",
    ]
    text, good = python_mutants.summary(
        {"a.b": "killed", "a.c": "not checked", "a.d": "not checked"}
    )
    assert good
    assert "a.c" not in text
    assert text.endswith("\n1 of 1 caught (100.0%), 2 not tried")
    assert python_mutants.summary({f"a.{i}": "killed" for i in range(9)} | {"a": "survived"})[1]
    assert not python_mutants.summary({f"a.{i}": "killed" for i in range(8)} | {"a": "none"})[1]


SHOWN = """# p.a.x_f__mutmut_1: survived
--- src/p/a.py
+++ src/p/a.py
@@ -1,3 +1,3 @@
 def f(x):
-    return zip(x, x, strict=True)
+    return zip(x, x, strict=False)
"""


def test_an_equivalent_mutant_is_known_by_its_function_and_what_it_changes() -> None:
    entry = Equivalent("p.a.*", "Why.", "strict=True", "strict=False")
    change = python_mutants.read_change(SHOWN)
    assert change == ("return zip(x, x, strict=True)", "return zip(x, x, strict=False)")
    assert entry.explains("p.a.f", *change)
    assert not entry.explains("p.b.f", *change)
    assert not entry.explains("p.a.f", change[0], "return zip(x, None, strict=True)")
    assert Equivalent("*", "Why.", "x", "y").explains("f", "x + x", "x + y")
    cased = Equivalent("p.*", "Why.", case=True)
    assert cased.explains("p.f", "select A", "SELECT a")
    assert not cased.explains("p.f", "select A", "select B")
    assert not cased.explains("q.f", "select A", "SELECT a")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("p.a.x_f_of_x__mutmut_12", "p.a.f_of_x"),
        ("p.a.x__private__mutmut_1", "p.a._private"),
        ("p.a.xǁBoxǁ__repr____mutmut_3", "p.a.Box.__repr__"),
    ],
)
def test_the_function_of_a_mutant(name: str, function: str) -> None:
    assert python_mutants.function_of(name) == function


@pytest.mark.parametrize("entry", python_mutants.read_equivalent(), ids=lambda e: e.function)
def test_an_equivalent_mutant_is_fresh_and_says_why(entry: Equivalent) -> None:
    assert re.match(r"[A-Z].{20,}\.$", entry.why)
    texts = [path.read_text() for path in (mutants.ROOT / "tools/overlapbench").rglob("*.py")]
    code = [" ".join(line.strip() for line in text.splitlines()) for text in texts]
    assert any(entry.original in text for text in code)
    name = entry.function.rpartition(".")[2]
    assert name == "*" or any(f"def {name}(" in text for text in code)


def test_a_failing_mutmut_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("python_mutants.sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr(python_mutants, "_PLACE", tmp_path / "place")
    assert python_mutants.main([]) == 1
    assert capsys.readouterr().err.startswith("python_mutants.py: [Errno 2]")
    (tmp_path / "mutmut").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "mutmut").chmod(0o755)
    assert python_mutants.main([]) == 1
    assert capsys.readouterr().err.startswith("python_mutants.py: mutmut run failed; see ")


def test_mutmut_ends_with_its_children_when_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("python_mutants.sys.executable", str(tmp_path / "python"))
    (tmp_path / "mutmut").write_text("#!/bin/sh\necho begun\nsleep 600\n")
    (tmp_path / "mutmut").chmod(0o755)
    started = time.monotonic()
    assert python_mutants.mutmut(tmp_path, "run", timeout_s=2) == "begun\n"
    assert time.monotonic() - started < 300
