#!/usr/bin/env python3
"""Plant faults in the C++ code, one at a time, and count those that the tests catch.

    tests/mutants/mutants.py                    all of them
    tests/mutants/mutants.py --list
    tests/mutants/mutants.py --only 'sampler|gate'
    tests/mutants/mutants.py --resume           go on where the last run was interrupted

A mutant is an entry of mutants.toml: a text that occurs once in a file, its replacement, and the
tests that should notice. Mutants are in code that determines a figure or ends a wait.

The script works on a copy of the tree in build/mutants, so it never changes your files. It builds
the copy with the preset host-only, and with ccache if that is installed. The tests must pass there
first, and their times set their limits with a mutant. For each mutant the script builds and runs
the tests that should notice, until one fails, and restores the file. Verdicts:

    caught         a test failed
    caught (hang)  a test ran into its limit, 30 s and five times what it took before
    survived       all tests passed
    stale          the text does not occur exactly once in the file: the entry needs an update
    unbuilt        the mutant does not compile: the entry needs another text

A survivor needs a test or, if it cannot matter, a sentence in its entry (`survives`). Tests that
measure times can also fail because the machine is busy; the line of a mutant names the test that
failed.

The programs that a run leaves in build/mutants contain mutants; the next run rebuilds them.

--resume keeps the verdicts of the last run, build/mutants/verdicts.json, if neither the entry, nor
the mutated file, nor the tests that should notice have changed since. It ignores changes elsewhere.

./check does not run this, because it takes half an hour; it does check that no entry is stale.
Needs what `./bench --build-only` installs and, for entries with tests in tests/cli, the Python of
.venv.

Exit status: 0 if at least 95 % were caught, every survivor has its sentence, and every entry could
be tried; 1 otherwise; 2 for bad usage; 130 after Ctrl-C, which ends what is running.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".toml")
LEAST_CAUGHT = 0.95
_COPY = ROOT / "build" / "mutants"
_OK, _FAILED, _INTERRUPTED = 0, 1, 128 + signal.SIGINT


class UntriedError(Exception):
    """Why no mutant, or no other one, can be tried."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # ctest's names, or files of tests/cli
    survives: str = ""  # why it does not matter that no test notices

    def applied(self, text: str) -> str | None:
        """The file's text with the fault; None where `old` does not occur exactly once."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


class Verdict(StrEnum):
    CAUGHT = "caught"
    HANG = "caught (hang)"
    SURVIVED = "survived"
    STALE = "stale"
    UNBUILT = "unbuilt"


CAUGHT = (Verdict.CAUGHT, Verdict.HANG)


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    verdict: Verdict
    note: str = ""  # what noticed


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int | None  # None: it ran into its limit
    output: str = ""


# ---- The list


def read_list(path: Path = LIST) -> list[Mutant]:
    entries = tomllib.loads(path.read_text())["mutant"]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def is_pytest(test: str) -> bool:
    return test.startswith("tests/")


def target_of(test: str) -> str:
    """What must be built for a test: sampler_test for sampler_test_on_2."""
    if is_pytest(test):
        return "overlapbench_and_libraries"
    if test.startswith("example_"):
        return "overlapbench_with_example"
    return re.sub(r"_on_\d+$", "", test)


def source_of(test: str) -> str:
    return test.partition("::")[0] if is_pytest(test) else f"tests/{target_of(test)}.cc"


def all_tests(mutants: Iterable[Mutant]) -> list[str]:
    return sorted({test for mutant in mutants for test in mutant.tests})


# ---- The copy of the tree


def refresh_copy(root: Path, copy: Path) -> None:
    """Makes the copy match the working tree, without build/. Unchanged files keep their times."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*command, "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.split("\0")
    names = {name for name in listed if name and (root / name).is_file()}
    for name in names:
        place = copy / name
        if place.is_file() and place.read_bytes() == (root / name).read_bytes():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, place)  # newer than what was built from the old one
    for place in copy.rglob("*"):
        name = place.relative_to(copy).as_posix()
        if place.is_file() and name not in names | {_VERDICTS} and not name.startswith("build/"):
            place.unlink()


# ---- Building and testing


class Bench(Protocol):
    """Where a mutant is tried."""

    def build(self, tests: Sequence[str]) -> str:
        """Builds what the tests need. Returns the compiler's error, or ""."""

    def run(self, test: str) -> Ended: ...


class CopiedTree:
    """Builds and tests in the copy."""

    def __init__(self, copy: Path, jobs: int, preset: str = "host-only") -> None:
        self.copy = copy
        self.jobs = jobs
        self.preset = preset
        self.directory = copy / "build" / ("host" if preset == "host-only" else preset)
        self.seconds: dict[str, float] = {}  # what each test took without a mutant
        self.within: tuple[str, ...] = ()  # the command that tests are arguments of
        self._tests: dict[str, dict[str, Any]] = {}
        # The copy is no checkout of its own: its revision is unknown, not that of the tree above.
        self._environment = os.environ | {
            "GIT_CEILING_DIRECTORIES": str(copy.parent),
            "CCACHE_BASEDIR": str(copy),
            "CCACHE_NOHASHDIR": "1",
            "GTEST_COLOR": "no",
            "GTEST_FAIL_FAST": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OVERLAPBENCH_BINARY": str(self.directory / "overlapbench"),
        }

    def configure(self) -> None:
        if (self.directory / "build.ninja").is_file():
            return
        languages = ("CXX", "CUDA") if shutil.which("ccache") else ()
        launchers = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in languages]
        ended = self.command(["cmake", "--preset", self.preset, *launchers])
        if ended.status != 0:
            raise UntriedError(f"cmake failed:\n{ended.output}")

    def build(self, tests: Sequence[str]) -> str:
        targets = sorted({target_of(test) for test in tests})
        command = ["cmake", "--build", str(self.directory), "-j", str(self.jobs)]
        ended = self.command([*command, "--target", *targets])
        return "" if ended.status == 0 else first_error(ended.output)

    def read_tests(self) -> None:
        listed = self.command(["ctest", "--test-dir", str(self.directory), "--show-only=json-v1"])
        self._tests = {test["name"]: test for test in json.loads(listed.output)["tests"]}

    def measure(self, tests: Sequence[str]) -> None:
        """Runs the tests without a mutant, and notes what they take."""
        self.read_tests()
        for test in tests:
            began = time.monotonic()
            ended = self.run(test)
            if ended.status != 0:
                raise UntriedError(f"{test} fails without any mutant:\n{ended.output}")
            self.seconds[test] = time.monotonic() - began
            print(f"passed without a mutant in {self.seconds[test]:.1f} s: {test}", flush=True)

    def run(self, test: str, **variables: str) -> Ended:
        limit_s = 30 + 5 * self.seconds.get(test, 60)
        if is_pytest(test):
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
            return self.command([*self.within, *command], limit_s, variables)
        if test not in self._tests or "command" not in self._tests[test]:
            raise UntriedError(f"ctest knows no test {test}")
        variables |= dict(
            text.split("=", 1) for text in self.properties(test).get("ENVIRONMENT", ())
        )
        command = [*self.within, *self._tests[test]["command"]]
        ended = self.command(command, limit_s, variables)
        if "PASS_REGULAR_EXPRESSION" not in self.properties(test) or ended.status is None:
            return ended
        # As ctest does: what is printed decides, not the status.
        passes, fails = (
            any(re.search(regex, ended.output) for regex in self.properties(test).get(kind, ()))
            for kind in ("PASS_REGULAR_EXPRESSION", "FAIL_REGULAR_EXPRESSION")
        )
        return Ended(0 if passes and not fails else 1, ended.output)

    def tests(self) -> list[str]:
        return sorted(self._tests)

    def properties(self, test: str) -> dict[str, Any]:
        return {p["name"]: p["value"] for p in self._tests[test].get("properties", ())}

    def command(
        self,
        command: Sequence[str],
        limit_s: float | None = None,
        variables: dict[str, str] | None = None,
    ) -> Ended:
        with subprocess.Popen(
            command,
            cwd=self.copy,
            env=self._environment | (variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                end_group(process)
                return Ended(None)
            except BaseException:
                end_group(process)
                raise
        return Ended(process.returncode, output)


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends a command with all that it started. mpirun ends its ranks if it is asked to end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def first_error(output: str) -> str:
    found = re.search(r"error: .*", output)
    return found.group() if found else output.strip().rpartition("\n")[2]


def failed_case(test: str, output: str) -> str:
    """The test, and the case in it that failed, where the output names one."""
    found = re.search(r"\[  FAILED  \] ([\w./]+)|^FAILED \S*::(\w+)", output, re.MULTILINE)
    return test if found is None else f"{test.partition('::')[0]}: {found[1] or found[2]}"


def try_mutant(mutant: Mutant, copy: Path, bench: Bench) -> Result:
    place = copy / mutant.file
    whole = place.read_text() if place.is_file() else ""
    changed = mutant.applied(whole)
    if changed is None:
        return Result(mutant, Verdict.STALE, f"its text is {whole.count(mutant.old)} times there")
    try:
        place.write_text(changed)
        for test in mutant.tests:
            if error := bench.build([test]):
                return Result(mutant, Verdict.UNBUILT, error)
            ended = bench.run(test)
            if ended.status is None:
                return Result(mutant, Verdict.HANG, test)
            if ended.status != 0:
                return Result(mutant, Verdict.CAUGHT, failed_case(test, ended.output))
        return Result(mutant, Verdict.SURVIVED, mutant.survives)
    finally:
        place.write_text(whole)


# ---- Verdicts of the last run

_VERDICTS = "verdicts.json"


def digest(mutant: Mutant, copy: Path) -> str:
    """A hash of everything that --resume compares. Sentences may change."""
    parts = [mutant.file, mutant.old, mutant.new, *mutant.tests]
    files = [copy / name for name in (mutant.file, *map(source_of, mutant.tests))]
    parts += [file.read_text() if file.is_file() else "" for file in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Verdicts:
    """The verdict of each mutant, in a file that is always complete."""

    def __init__(self, copy: Path, resume: bool) -> None:
        self._copy = copy
        self._path = copy / _VERDICTS
        self._known: dict[str, list[str]] = {}
        if resume and self._path.is_file():
            self._known = json.loads(self._path.read_text())

    def find(self, mutant: Mutant) -> Result | None:
        known = self._known.get(digest(mutant, self._copy))
        return None if known is None else Result(mutant, Verdict(known[0]), known[1])

    def add(self, result: Result) -> None:
        if result.verdict in (Verdict.STALE, Verdict.UNBUILT):
            return
        self._known[digest(result.mutant, self._copy)] = [result.verdict, result.note]
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self._known))
        partial.replace(self._path)


# ---- The command line


def summary(results: Sequence[Result]) -> tuple[str, bool]:
    """What a run has shown, and whether it is good."""
    caught = [result for result in results if result.verdict in CAUGHT]
    survivors = [result for result in results if result.verdict is Verdict.SURVIVED]
    broken = [r for r in results if r.verdict in (Verdict.STALE, Verdict.UNBUILT)]
    lines = [f"{len(caught)} of {len(results)} caught ({len(caught) / len(results):.1%})"]
    lines += [f"  {v}: {n}" for v in Verdict if (n := sum(r.verdict is v for r in results))]
    for result in survivors:
        why = result.mutant.survives or "needs a test, or a sentence why it cannot matter"
        lines.append(f"survived: {result.mutant.name}: {why}")
    lines += [f"{result.verdict}: {result.mutant.name}: {result.note}" for result in broken]
    lines += [
        f"its sentence can go, a test catches it: {result.mutant.name}"
        for result in caught
        if result.mutant.survives
    ]
    enough = len(caught) >= LEAST_CAUGHT * len(results)
    good = enough and not broken and all(result.mutant.survives for result in survivors)
    return "\n".join(lines), good


def try_all(mutants: Sequence[Mutant], jobs: int, resume: bool) -> list[Result]:
    refresh_copy(ROOT, _COPY)
    verdicts = Verdicts(_COPY, resume)
    known = {mutant: result for mutant in mutants if (result := verdicts.find(mutant))}
    left = [mutant for mutant in mutants if mutant not in known]
    tree = CopiedTree(_COPY, jobs)
    if left:
        tests = all_tests(left)
        print(f"building {len(tests)} tests in {_COPY.relative_to(ROOT)}", flush=True)
        tree.configure()
        if error := tree.build(tests):
            raise UntriedError(f"the tree does not build without any mutant: {error}")
        tree.measure(tests)
    began = time.monotonic()
    results = list(known.values())
    for done, mutant in enumerate(left, 1):
        started = time.monotonic()
        result = try_mutant(mutant, _COPY, tree)
        verdicts.add(result)
        results.append(result)
        now = time.monotonic()
        left_minutes = (now - began) / done * (len(left) - done) / 60
        print(
            f"[{done}/{len(left)}] {result.verdict}: {mutant.name}"
            f"{' by ' if result.verdict in CAUGHT else ': ' if result.note else ''}{result.note}"
            f" ({now - started:.0f} s, {left_minutes:.0f} min left)",
            flush=True,
        )
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, and exit")
    parser.add_argument("--only", metavar="REGEX", default="", help="those of such a name or file")
    parser.add_argument("--resume", action="store_true", help="keep the last run's verdicts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="of the build")
    given = parser.parse_args(arguments)
    try:
        chosen = [m for m in read_list() if re.search(given.only, f"{m.name} {m.file}")]
    except re.error as error:
        parser.error(f"--only={given.only} is not a regular expression: {error}")
    if not chosen:
        parser.error(f"no mutant matches --only={given.only}; --list names them")
    if given.list:
        for mutant in chosen:
            print(f"{mutant.name:<36} {mutant.file:<30} {' '.join(mutant.tests)}")
        return _OK
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        text, good = summary(try_all(chosen, given.jobs, given.resume))
    except UntriedError as error:
        print(f"mutants.py: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("mutants.py: interrupted; --resume goes on from here", file=sys.stderr)
        return _INTERRUPTED
    print(text)
    return _OK if good else _FAILED


if __name__ == "__main__":
    sys.exit(main())
