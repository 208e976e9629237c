"""Mutants made by rule: which ones, that a build can be each of them, and how they are counted."""

import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import generated_mutants
import schemata
from generated_mutants import HERE, Equivalent, Verdict
from mutants import ROOT, Ended
from schemata import Mutant

CODE = """#include <cstdio>
#include <optional>
constexpr int kLimit = 5;
int Clamp(int value) {
  if (value < kLimit) return value;  // small
  return kLimit;
}
int main() {
  const std::optional<int> none;
  if (!none || none) std::printf("%d %d", Clamp(4), Clamp(9));
  if (none) std::printf(" none");
}
"""


def make(original: str, mutated: str, behind: str = "") -> Mutant:
    begin = CODE.index(behind + original) + len(behind)
    line = CODE.count("\n", 0, begin) + 1
    context = CODE.splitlines()[line - 1].strip()
    return Mutant("code.cc", begin, begin + len(original), line, original, mutated, context)


MUTANTS = {
    0: make("value < kLimit", "value >= kLimit"),
    1: make("return value;", ""),
    2: make("5", "(5 + 1)"),
    3: make("Clamp(4)", "Clamp(8)"),
    4: make("4", "3"),
    5: make("!none", "none"),
    6: make("none", "!(none)", behind="\n  if ("),
}


# ---- One build that is each of them


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "code.cc").write_bytes(schemata.planted(CODE.encode(), MUTANTS))
    program = folder / "program"
    sources = [folder / "code.cc", HERE / "mutant_switch.cc"]
    subprocess.run(["c++", "-std=c++20", "-o", program, *sources], check=True)
    return program


def run(program: Path, **variables: str) -> str:
    environment = os.environ | variables
    return subprocess.run(
        [program], check=True, capture_output=True, text=True, env=environment
    ).stdout


@pytest.mark.parametrize(
    ("mutant", "printed"),
    [
        ("", "4 5"),
        ("0", "5 9"),
        ("1", "5 5"),
        ("2", "4 6"),
        ("3", "5 5"),
        ("4", "3 5"),
        ("5", ""),
        ("6", "4 5 none"),
    ],
)
def test_the_environment_turns_one_mutant_on(program: Path, mutant: str, printed: str) -> None:
    assert run(program, **({"MUTANT_ON": mutant} if mutant else {})) == printed


def test_a_process_notes_once_what_it_reaches(program: Path, tmp_path: Path) -> None:
    record = tmp_path / "reached"
    run(program, MUTANTS_REACHED=str(record))
    assert sorted(record.read_text().split()) == sorted("0123456")
    run(program, MUTANTS_REACHED=str(record), MUTANT_ON="3")  # both are above the limit
    assert sorted(record.read_text().split()) == sorted("0123456" + "02356")


def test_lines_keep_their_numbers() -> None:
    planted = schemata.planted(CODE.encode(), MUTANTS).decode()
    assert planted.split("#line 1\n")[1].count("\n") == CODE.count("\n")


def test_errors_lead_to_the_mutants_of_their_line_or_of_the_constant_that_they_name() -> None:
    own = "/copy/code.cc:5:9: error: no match for 'operator>='\n"
    assert schemata.faulty(own, Path("/copy"), MUTANTS) == {0, 1}
    named = "../../other.cc:4:9: error: not constant\n../../code.cc:3:5: note: 'kLimit' is here\n"
    assert schemata.faulty(named, Path("/copy"), MUTANTS) == {2}
    assert schemata.faulty("/copy/other.cc:4:9: error: x\n", Path("/copy"), MUTANTS) == set()


# ---- The rules


def test_rules_change_what_decides(tmp_path: Path) -> None:
    pytest.importorskip("clang", reason="tests/mutants/requirements.txt is not installed")
    import rules

    code = """#include <algorithm>
#include <vector>
#define CHECK(condition) do { if (!(condition)) throw 1; } while (false)
static_assert(1 < 2);
constexpr double kShare = 0.5;
constexpr int kSeed = 3;
int Pay(int due, int paid) { return due - paid; }
void Count(std::vector<int>& v, bool plain) {
  CHECK(v.size() > 3);
  if (plain) v.clear();
  const int low = std::min(v.front(), Pay(v[0], v[1]));
  for (int i = 0; i < low; ++i) v.push_back(kShare > 1 ? 7 : -low);
}
[[noreturn]] void Refuse() { throw 1; }
int Fail() { Refuse(); }
void Read(int* number);
int Number() {
  int number = 0;
  CHECK((Read(&number), true));
  int others = 0;
  if (others < number) Read(&others);
  return others;
}
"""
    (tmp_path / "code.cc").write_text(code)
    entry = {"command": "c++ -std=c++20 -c code.cc"}
    found = [
        (mutant.original, mutant.mutated)
        for mutant in rules.mutants_of(tmp_path, "code.cc", entry)
        if mutant.line != 12
    ]
    assert sorted(found) == sorted(
        [
            ("0.5", "(0.5 * 10)"),
            ("0.5", "0"),
            ("due - paid", "due + paid"),
            ("plain", "!(plain)"),
            ("v.clear();", ""),
            ("std::min(v.front(), Pay(v[0], v[1]))", "std::max(v.front(), Pay(v[0], v[1]))"),
            ("v.front()", "v.back()"),
            ("Pay(v[0], v[1])", "Pay(v[1], v[0])"),
            ("0", "1"),
            ("1", "(1 + 1)"),
            ("1", "0"),
            ("0", "1"),
            ("others < number", "others <= number"),
            ("others < number", "others >= number"),
            ("Read(&others);", ""),
        ]
    )


# ---- Counting


def test_a_larger_sample_contains_the_smaller_one_and_a_seed_draws_the_same() -> None:
    mutants = [make("4", str(number)) for number in range(100)]
    few = generated_mutants.draw(mutants, 10, "1/ranks")
    assert set(few) < set(generated_mutants.draw(mutants, 20, "1/ranks"))
    assert few == generated_mutants.draw(mutants[::-1][::-1], 10, "1/ranks")
    assert few != generated_mutants.draw(mutants, 10, "2/ranks")


def test_every_mutant_counts_that_was_tried() -> None:
    words = ["caught"] * 18 + ["survived", "not reached", "untried"]
    verdicts = [Verdict("ranks", MUTANTS[0], word) for word in words]
    verdicts.append(Verdict("comm", MUTANTS[0], "untried"))
    text, good = generated_mutants.table(verdicts)
    assert "| ranks | 20 | 18 | 90.0% | 1 | 1 |" in text
    assert "comm" not in text
    assert not good
    assert generated_mutants.table(verdicts[:18])[1]
    assert not generated_mutants.table(verdicts[-1:])[1], "nothing was tried"


@pytest.mark.parametrize("entry", generated_mutants.equivalents(), ids=lambda entry: entry.line)
def test_an_equivalent_mutant_is_in_the_code_and_says_why(entry: Equivalent) -> None:
    assert len(entry.lines(ROOT)) == 1, "name the line that follows"
    assert entry.original.split()[0] in entry.line
    assert len(entry.why) > 30


def test_an_equivalent_mutant_is_recognised_wherever_it_moves(tmp_path: Path) -> None:
    (tmp_path / "code.cc").write_text("// Moved.\n" + CODE)
    moved = replace(MUTANTS[0], line=MUTANTS[0].line + 1)
    why = "It is an example."
    entry = Equivalent("code.cc", moved.context, "value < kLimit", "value >= kLimit", why)
    assert entry.is_of(moved, tmp_path)
    assert not entry.is_of(MUTANTS[0], tmp_path), "another line"
    assert not entry.is_of(replace(moved, mutated="value <= kLimit"), tmp_path)
    assert replace(entry, next="return kLimit;").is_of(moved, tmp_path)
    assert not replace(entry, next="return value;").is_of(moved, tmp_path)


def test_verdicts_can_be_kept(tmp_path: Path) -> None:
    verdict = Verdict("ranks", MUTANTS[0], "survived", "", ("ranks_test",))
    store = tmp_path / "verdicts.json"
    store.write_text(json.dumps([asdict(verdict)]))
    assert generated_mutants.read_verdicts(store) == {verdict.mutant: verdict}


# ---- Trying


@pytest.mark.parametrize(
    ("first_s", "word"), [(9.0, "survived"), (1.0, "undecided")], ids=["all", "the first"]
)
def test_a_mutant_is_untried_until_its_tests_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_s: float, word: str
) -> None:
    tree = RecordedTree(tmp_path, {"a_test": "", "b_test": ""})
    tree.seconds = {"a_test": 2, "b_test": 2}
    verdict = Verdict("ranks", MUTANTS[0], "untried")
    meanwhile = []

    def catches(_test: str, _number: int) -> str:
        meanwhile.append(verdict.word)
        return ""

    monkeypatch.setattr(tree, "catches", catches)
    generated_mutants.try_mutant(tree, 0, list(tree.reaches), verdict, first_s)
    assert set(meanwhile) == {"untried"}
    assert verdict.word == word
    assert verdict.tried == (("a_test", "b_test") if word == "survived" else ("a_test",))


# ---- Running tests


FAILED = "[ RUN      ] A.Case\na.cc:7: Failure\nit is 1, not\n2\n[  FAILED  ] A.Case\n"


class RecordedTree(generated_mutants.MutatedTree):
    """Its tests reach what a test of this file says."""

    def __init__(self, copy: Path, reaches: dict[str, str]) -> None:
        super().__init__(copy, 1, "release", 2)
        (self.directory / "tests").mkdir(parents=True)
        self.reaches = reaches
        self.ran: list[str] = []
        for test in reaches:
            self.program(test).touch()

    def runs_alone(self, test: str) -> bool:
        return test == "bad_test"

    def run(self, test: str, **variables: str) -> Ended:
        self.ran.append(test)
        Path(variables["MUTANTS_REACHED"]).write_text(self.reaches[test])
        return Ended(1, FAILED) if test == "bad_test" else Ended(0)


def test_only_programs_that_are_new_are_run_again_for_what_they_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = RecordedTree(tmp_path, {"a_test_on_2": "3\n1\n3\n", "b_test": "", "bad_test": "1\n"})
    expected = {"a_test_on_2": {1, 3}, "b_test": set()}
    assert tree.reach(tree.reaches) == expected
    assert sorted(tree.ran) == ["a_test_on_2", "b_test", "bad_test"]
    log = tmp_path / "build" / "failed-bad_test.log"
    assert log.read_text() == FAILED
    told = "left out, it fails without a mutant: bad_test: A.Case, see"
    assert capsys.readouterr().out == f"{told} {log}: it is 1, not 2\n"
    tree.ran.clear()
    assert tree.reach(tree.reaches) == expected
    assert sorted(tree.ran) == ["bad_test"], "a test that failed may pass now"
    os.utime(tree.program("b_test"), ns=(1, 1))
    tree.ran.clear()
    assert tree.reach(tree.reaches) == expected
    assert sorted(tree.ran) == ["b_test", "bad_test"]
