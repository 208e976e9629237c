#!/usr/bin/env python3
"""Mutate the C++ code by rule, build many mutants at once, and count those that tests catch.

    tests/mutants/generated_mutants.py                          60 of each area
    tests/mutants/generated_mutants.py --sample 20 --seed 7     others
    tests/mutants/generated_mutants.py --area ranks --area comm
    tests/mutants/generated_mutants.py --list                   print the sample, and exit
    tests/mutants/generated_mutants.py --resume                 go on where the last run ended

rules.py says what is mutated, schemata.py how one build holds all mutants of a sample, and
mutant_switch.cc how the environment turns one of them on. The script works on a copy of the tree in
build/generated-mutants, so it never changes your files. The same seed draws the same sample as long
as the code stays.

First every test runs without a mutant, and notes which mutants it reaches, in all its processes. A
test that fails is left out; the copy's build/failed-TEST.log has its output. Then every mutant is
turned on for the tests that reach it, the quickest first, until one fails or runs into its limit,
30 s and five times what it took before. A test that measures times must fail twice, and pass in
between without the mutant. As root, each test runs in a process namespace of its own. Others cannot
try the area launcher, because its mutants may kill any process. Verdicts:

    caught        a test failed, or ran into its limit
    survived      all tests that reach it passed
    undecided     those passed that took the seconds of --first; --resume tries the others
    not reached   no test reaches it: a survivor too
    untried       the --minutes were over, or the run was ended: not counted. The order is random

Neither mutants that do not compile are counted nor those of equivalent.toml, which says why no test
can notice them. build/generated-mutants/verdicts.json has every verdict, and the tests that passed.

Needs what `./bench --build-only` installs, and

    .venv/bin/pip install -r tests/mutants/requirements.txt

--cli "" runs tests/cli too, which takes an hour.

Exit status: 0 if at least 95 % were caught in each area; 1 if not; 2 for bad usage.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Lock

import schemata
from mutants import (
    LEAST_CAUGHT,
    ROOT,
    CopiedTree,
    UntriedError,
    failed_case,
    is_pytest,
    refresh_copy,
    source_of,
    target_of,
)
from schemata import Mutant

# A command in it cannot reach processes outside, and all of its own end with it. The shell adopts
# its orphans. Process numbers are the same in each, and so are the names of temporary files and of
# OpenMPI's shared memory, which are made of them.
OWN_PROCESSES = (
    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'for d in /tmp /dev/shm; do mount -t tmpfs none $d; done; "$@"; exit $?', "sh"),
)
AREAS = {
    "device": ("device", "device/host"),
    "ranks": ("ranks",),
    "workload": ("workload",),
    "kernels": ("kernels",),
    "comm": ("comm",),
    "fixtures": ("fixtures",),
    "report": ("report",),
    "benchmarks": ("benchmarks",),
    "launcher": ("launcher",),
    "interface": ("interface",),
    "program": ("program",),
}
HERE = Path(__file__).resolve().parent
COPY = ROOT / "build" / "generated-mutants"
EQUIVALENT = HERE / "equivalent.toml"


@dataclass
class Verdict:
    area: str
    mutant: Mutant
    word: str
    note: str = ""
    tried: tuple[str, ...] = ()  # tests that passed


# ---- The sample


@dataclass(frozen=True)
class Equivalent:
    """An entry of equivalent.toml."""

    file: str
    line: str
    original: str
    mutated: str
    why: str
    next: str = ""  # the line of code that follows, where the same line occurs twice

    def lines(self, root: Path) -> list[int]:
        """Where the file has the line, or both lines, counted from 1."""
        code = [line.strip() for line in (root / self.file).read_text().splitlines()]
        following = [*code[1:], ""]
        return [
            number
            for number, pair in enumerate(zip(code, following, strict=True), 1)
            if pair[0] == self.line and self.next in ("", pair[1])
        ]

    def is_of(self, mutant: Mutant, root: Path) -> bool:
        def one_line(text: str) -> str:
            return " ".join(text.split())

        return (
            (self.file, self.original) == (mutant.file, one_line(mutant.original))
            and self.mutated == one_line(mutant.mutated)
            and mutant.line in self.lines(root)
        )


def equivalents(path: Path = EQUIVALENT) -> list[Equivalent]:
    return [Equivalent(**entry) for entry in tomllib.loads(path.read_text())["mutant"]]


def candidates(tree: Path, commands: Path, area: str, jobs: int = 1) -> list[Mutant]:
    """All mutants of an area. What a file has is kept until it or the rules change."""
    database = {entry["file"]: entry for entry in json.loads(commands.read_text())}
    kept = commands.parent / "candidates"
    kept.mkdir(exist_ok=True)
    places = [place for folder in AREAS[area] for place in sorted((tree / folder).glob("*.cc"))]
    files = [
        (tree, place.relative_to(tree).as_posix(), database[str(place)], kept)
        for place in places
        if str(place) in database
    ]
    # Not from fork(): libclang may hold locks in a process that has parsed before.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        stores = list(pool.map(list_file, *zip(*files, strict=True)))
    return [Mutant(**entry) for store in stores for entry in json.loads(store.read_text())]


def list_file(tree: Path, name: str, entry: dict[str, str], kept: Path) -> Path:
    """Where the mutants of a file are listed, from its compile command."""
    text = (tree / name).read_bytes() + (HERE / "rules.py").read_bytes()
    store = kept / f"{hashlib.sha256(name.encode() + text).hexdigest()}.json"
    if not store.is_file():
        import rules  # needs libclang

        made = rules.mutants_of(tree, name, entry)
        store.write_text(json.dumps([asdict(mutant) for mutant in made]))
    return store


def draw(mutants: Sequence[Mutant], size: int, seed: str) -> list[Mutant]:
    shuffled = list(mutants)
    random.Random(seed).shuffle(shuffled)  # a larger sample contains the smaller one
    return sorted(shuffled[:size])


# ---- The copy that holds all mutants


class MutatedTree(CopiedTree):
    def __init__(self, copy: Path, jobs: int, preset: str, at_once: int) -> None:
        super().__init__(copy, jobs, preset)
        self.at_once = at_once
        self.mutated: set[str] = set()  # files, also those whose mutants do not compile
        if shutil.which("unshare") and self.command([*OWN_PROCESSES, "true"]).status == 0:
            self.within = OWN_PROCESSES

    def plant(self, mutants: Mapping[int, Mutant]) -> None:
        self.mutated |= {mutant.file for mutant in mutants.values()}
        files = sorted(self.mutated)
        shutil.copy(HERE / "mutant_switch.cc", self.copy / "device" / "mutant_switch.cc")
        settings = (
            "set_source_files_properties({} DIRECTORY . tests PROPERTIES COMPILE_OPTIONS {})\n"
        )
        quiet = settings.format(
            " ".join(f"${{CMAKE_SOURCE_DIR}}/{file}" for file in files), '"-w;-Wno-narrowing"'
        )
        write(self.copy / "CMakeLists.txt", (ROOT / "CMakeLists.txt").read_bytes() + quiet.encode())
        for file in files:
            own = {n: mutant for n, mutant in mutants.items() if mutant.file == file}
            write(self.copy / file, schemata.planted((ROOT / file).read_bytes(), own))

    def build_all(self, mutants: dict[int, Mutant], tests: Iterable[str]) -> list[Mutant]:
        """Builds the tests, without the mutants that do not compile, which it returns."""
        targets = sorted({target_of(test) for test in tests})
        dropped: list[Mutant] = []
        while True:
            self.plant(mutants)
            command = [
                "cmake",
                "--build",
                str(self.directory),
                "-j",
                str(self.jobs),
                "--target",
                *targets,
            ]
            ended = self.command([*command, "--", "-k0"])
            if ended.status == 0:
                return dropped
            (self.copy / "build" / "errors.log").write_text(ended.output)
            bad = schemata.faulty(ended.output, self.copy, mutants)
            if not bad:
                files = schemata.failed_files(ended.output)
                bad = {n for n, mutant in mutants.items() if mutant.file in files}
            if not bad:
                raise UntriedError(f"the copy does not build:\n{ended.output[-3000:]}")
            print(f"{len(bad)} mutants do not compile", flush=True)
            dropped += [mutants.pop(number) for number in bad]

    def reach(self, tests: Iterable[str]) -> dict[str, set[int]]:
        """The mutants that each test reaches, without those that fail.

        A program that has not been built anew since the last run reaches the same.
        """
        store = self.copy / "build" / "reached.json"
        known = json.loads(store.read_text()) if store.is_file() else {}
        reached = {}

        def learn(test: str) -> None:
            built_ns = self.program(test).stat().st_mtime_ns
            if test not in known or known[test][0] != built_ns or known[test][2] is None:
                known[test] = [built_ns, *self.reach_one(test)]

        alone = [test for test in tests if self.runs_alone(test)]
        with ThreadPoolExecutor(self.at_once) as pool:
            list(pool.map(learn, [test for test in tests if test not in alone]))
        for test in alone:
            learn(test)
        store.write_text(json.dumps(known))
        for test in tests:
            _, self.seconds[test], numbers = known[test]
            if numbers is not None:
                reached[test] = set(numbers)
        return reached

    def reach_one(self, test: str) -> tuple[float, list[int] | None]:
        """How long a test takes, and what it reaches; None if it fails."""
        record = self.copy / "build" / f"reached-{test}"
        record.unlink(missing_ok=True)
        began = time.monotonic()
        ended = self.run(test, MUTANTS_REACHED=str(record))
        took_s = time.monotonic() - began
        if ended.status != 0:
            log = self.copy / "build" / f"failed-{test}.log"
            log.write_text(ended.output)
            case = failed_case(test, ended.output)
            why = re.search(r"Failure\n([^[]*)", ended.output)
            said = f": {' '.join(why[1].split())}" if why else ""
            print(f"left out, it fails without a mutant: {case}, see {log}{said}", flush=True)
            return took_s, None
        lines = record.read_text().split() if record.is_file() else []
        return took_s, sorted({int(line) for line in lines})

    def programs(self) -> list[str]:
        """The tests of ctest that start a program of their own, and not the compiler."""
        return [
            test
            for test in self.tests()
            if test.startswith("example_") or (self.copy / source_of(test)).is_file()
        ]

    def program(self, test: str) -> Path:
        """What is built for a test of ctest."""
        return self.directory / "tests" / target_of(test)

    def reach_by_program(self, pattern: str) -> dict[str, set[int]]:
        """The same for each test of tests/cli, which start the program."""
        folder = self.copy / "build" / "by_test"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "reach_plugin",
            "-p",
            "no:cacheprovider",
        ]
        variables = {
            "MUTANTS_BY_TEST": str(folder),
            "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}",
        }
        self.command([*command, "tests/cli", "-k", pattern], None, variables)
        reached = {}
        for test, (seconds, files) in json.loads((folder / "index.json").read_text()).items():
            self.seconds[test] = seconds
            lines = [Path(file).read_text().split() for file in files if Path(file).is_file()]
            reached[test] = {int(line) for line in itertools.chain(*lines)}
        return reached

    def runs_alone(self, test: str) -> bool:
        """Whether it measures times."""
        return is_pytest(test) or self.properties(test).get("RUN_SERIAL", False)

    def catches(self, test: str, number: int) -> str:
        """What shows that the test notices the mutant, or ""."""
        ended = self.run(test, MUTANT_ON=str(number))
        if ended.status == 0:
            return ""
        if self.runs_alone(test) and (
            self.run(test).status != 0 or self.run(test, MUTANT_ON=str(number)).status == 0
        ):
            return ""
        return f"{test} (hang)" if ended.status is None else failed_case(test, ended.output)


def write(place: Path, code: bytes) -> None:
    if place.read_bytes() != code:
        place.write_bytes(code)


# ---- Trying


def try_mutant(
    tree: MutatedTree, number: int, tests: Sequence[str], verdict: Verdict, first_s: float
) -> None:
    """Runs the tests that have not passed yet. A run that is ended meanwhile leaves it untried."""
    spent_s = 0.0
    for test in tests:
        if test in verdict.tried:
            continue
        if spent_s > first_s:
            verdict.word = "undecided"
            return
        spent_s += tree.seconds[test]
        if note := tree.catches(test, number):
            verdict.word, verdict.note = "caught", note
            return
        verdict.tried += (test,)
    verdict.word = "survived" if tests else "not reached"


def table(verdicts: Sequence[Verdict]) -> tuple[str, bool]:
    """The rate by area, and whether it is high enough everywhere."""
    lines = [
        "| Area | Mutants | Caught | | Survived | Not reached |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    verdicts = [verdict for verdict in verdicts if verdict.word != "untried"]
    good = bool(verdicts)
    areas = [area for area in AREAS if any(v.area == area for v in verdicts)]
    for area in [*areas, "all"]:
        words = [v.word for v in verdicts if area in (v.area, "all")]
        caught = words.count("caught")
        share = caught / len(words) if words else 1.0
        good &= share >= LEAST_CAUGHT
        survived = words.count("survived") + words.count("undecided")
        missed = f"{survived} | {words.count('not reached')}"
        lines.append(f"| {area} | {len(words)} | {caught} | {share:.1%} | {missed} |")
    return "\n".join(lines), good


def sample(tree: MutatedTree, given: argparse.Namespace) -> list[tuple[str, Mutant]]:
    commands = tree.directory / "compile_commands.json"
    drawn = []
    for area in given.area or AREAS:
        found = candidates(tree.copy, commands, area, given.jobs)
        chosen = draw(found, given.sample, f"{given.seed}/{area}")
        print(f"{area}: {len(chosen)} of {len(found)} mutants", flush=True)
        drawn += [(area, mutant) for mutant in chosen]
    return drawn


def try_sample(
    tree: MutatedTree, drawn: Sequence[tuple[str, Mutant]], given: argparse.Namespace
) -> list[Verdict]:
    known_equivalents = equivalents()
    store = COPY / "verdicts.json"
    before = read_verdicts(store) if given.resume else {}
    numbers = {n: mutant for n, (_, mutant) in enumerate(drawn)}
    areas = dict(enumerate(area for area, _ in drawn))
    for number, mutant in list(numbers.items()):
        if any(entry.is_of(mutant, ROOT) for entry in known_equivalents):
            del numbers[number]
    print("building", flush=True)
    tree.read_tests()
    tests = [test for test in tree.programs() if re.search(given.tests, test)]
    programs = tests if given.cli is None else [*tests, "tests/cli"]
    dropped = tree.build_all(numbers, programs)
    print(f"{len(dropped)} of {len(drawn)} mutants do not compile", flush=True)
    tree.read_tests()
    reached = tree.reach(tests)
    if given.cli is not None:
        reached |= tree.reach_by_program(given.cli)
    verdicts = {}
    for number, mutant in numbers.items():
        verdicts[number] = before.get(mutant) or Verdict(areas[number], mutant, "untried")
    order = list(verdicts.items())
    random.Random(given.seed).shuffle(order)  # what was tried when time is up is a fair sample
    ends = time.monotonic() + 60 * given.minutes
    saving = Lock()

    def try_one(place: int) -> None:
        number, verdict = order[place]
        chosen = re.search(given.only, verdict.mutant.file)
        if not chosen or verdict.word == "caught" or time.monotonic() > ends:
            return
        tests = sorted((t for t in reached if number in reached[t]), key=tree.seconds.__getitem__)
        try_mutant(tree, number, tests, verdict, given.first)
        with saving:
            store.write_text(json.dumps([asdict(verdict) for verdict in verdicts.values()]))
            done = f"[{place + 1}/{len(order)}]"
            print(f"{done} {verdict.word}: {verdict.mutant} {verdict.note}", flush=True)

    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(try_one, range(len(order))))
    return list(verdicts.values())


def read_verdicts(store: Path) -> dict[Mutant, Verdict]:
    entries = json.loads(store.read_text()) if store.is_file() else []
    found = [
        Verdict(**e | {"mutant": Mutant(**e["mutant"]), "tried": tuple(e["tried"])})
        for e in entries
    ]
    return {verdict.mutant: verdict for verdict in found}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--area", action="append", choices=AREAS, help="only this one")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each area")
    parser.add_argument("--seed", default="1", help="of the sample")
    parser.add_argument("--list", action="store_true", help="print the sample, and exit")
    parser.add_argument("--resume", action="store_true", help="keep the last run's verdicts")
    parser.add_argument("--first", type=float, default=float("inf"), help="seconds for a mutant")
    parser.add_argument("--only", metavar="REGEX", default="", help="try those of such files")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all mutants")
    parser.add_argument("--tests", default="", metavar="REGEX", help="only tests of such names")
    parser.add_argument("--cli", metavar="TESTS", help='also tests/cli: pytest\'s -k, "" for all')
    parser.add_argument("--preset", default="host-only", help="of CMakePresets.json")
    parser.add_argument("--jobs", type=int, default=1, help="of the build and the list")
    parser.add_argument("--at-once", type=int, default=1, help="tests that run at once")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    refresh_copy(ROOT, COPY)
    tree = MutatedTree(COPY, given.jobs, given.preset, given.at_once)
    if not tree.within and not given.list and "launcher" in (given.area or AREAS):
        parser.error("mutants of the launcher may kill any process: run as root, or name areas")
    try:
        tree.configure()
        tree.command(["cmake", "--build", str(tree.directory), "--target", "git_revision"])
        drawn = sample(tree, given)
        if given.list:
            print("\n".join(str(mutant) for _, mutant in drawn))
            return 0
        verdicts = try_sample(tree, drawn, given)
    except UntriedError as error:
        print(f"generated_mutants.py: {error}", file=sys.stderr)
        return 1
    for verdict in verdicts:
        if verdict.word not in ("caught", "untried"):
            print(f"{verdict.word}: {verdict.mutant}")
    text, good = table(verdicts)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
