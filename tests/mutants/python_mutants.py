#!/usr/bin/env python3
"""Plant faults in the Python package with mutmut, and count those that the tests catch.

    tests/mutants/python_mutants.py                         40 of each module, the same every time
    tests/mutants/python_mutants.py --seed 2 --sample 15    others, and fewer
    tests/mutants/python_mutants.py 'overlapbench.judge.*' --sample 1000    all of such names
    tests/mutants/python_mutants.py 'overlapbench.traces.*' --tests test_trace    with few tests
    tests/mutants/python_mutants.py --minutes 8             as many as there is time for

[tool.mutmut] in pyproject.toml says which modules are mutated, and which tests may notice. For each
mutant the tests that reach its function run, the quickest first, until one fails. Each run starts
afresh in build/python-mutants, on a copy of tools/, so your files are never changed.

mutmut finds modules only in a folder named src/, so that is the copy's name. It skips functions
with decorators other than class and static methods, so in the copy their decorators are equivalent
calls after the function. It does not mutate code outside functions.

A survivor needs a test, or simpler code. If no test can notice it, it needs an entry in
equivalent_python.toml, and is not counted. To see a mutant:

    (cd build/python-mutants && ../../.venv/bin/mutmut show NAME)

Needs what ./check installs, and mutmut:

    .venv/bin/pip install -r tests/mutants/requirements.txt

Exit status: 0 if at least 90 % were caught; 1 if not, or if mutmut failed; 2 for bad usage.
"""

import argparse
import ast
import fnmatch
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST_CAUGHT = 0.90
EQUIVALENT = Path(__file__).with_name("equivalent_python.toml")
_PLACE = ROOT / "build" / "python-mutants"
_OWN = {"build", "tools", "pyproject.toml"}  # of the copy; all else is a link into the tree
_CAUGHT, _UNTRIED = ("killed", "timeout"), "not checked"
_FIRST = "overlapbench.reading.names.x_spell_sizes__mutmut_1"


@dataclass(frozen=True)
class Equivalent:
    """A change that no test can notice: in functions that match a glob, one text for another."""

    function: str
    why: str
    original: str = ""
    mutated: str = ""
    case: bool = False  # or else any change from small to capital letters, or back

    def explains(self, function: str, before: str, after: str) -> bool:
        """Tell whether a mutant of this function, which turns `before` into `after`, is such."""
        if not fnmatch.fnmatchcase(function, self.function):
            return False
        if self.case:
            return before.casefold() == after.casefold()
        places = (match.start() for match in re.finditer(re.escape(self.original), before))
        return any(
            before[:i] + self.mutated + before[i + len(self.original) :] == after for i in places
        )


def read_equivalent(path: Path = EQUIVALENT) -> list[Equivalent]:
    return [Equivalent(**entry) for entry in tomllib.loads(path.read_text("utf-8"))["mutant"]]


def function_of(name: str) -> str:
    """Return the dotted name of the function that mutmut has named so, without the number."""
    module, _, rest = name.rpartition(".")
    return f"{module}.{re.sub('^x[_ǁ]', '', rest.rpartition('__mutmut_')[0]).replace('ǁ', '.')}"


def read_change(shown: str) -> tuple[str, str]:
    """Return the lines that a mutant replaces, and those that it puts there, of `mutmut show`."""
    lines = shown.splitlines()
    before, after = (
        [line[1:].strip() for line in lines if re.match(rf"\{sign}(?!\{sign}\{sign})", line)]
        for sign in "-+"
    )
    return " ".join(before), " ".join(after)


def undecorated(text: str) -> str:
    """Write the decorators that keep mutmut from a function as calls behind it."""
    lines = text.splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    for node in sorted(functions, key=lambda node: node.lineno, reverse=True):
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if len(decorators) == 1 and decorators[0] not in ("classmethod", "staticmethod"):
            call = f"{node.name} = {decorators[0]}({node.name})"
            lines.insert(node.end_lineno or 0, f"{' ' * node.col_offset}{call}\n")
            del lines[node.decorator_list[0].lineno - 1]
    return "".join(lines)


def lay_out(root: Path, place: Path, patterns: Sequence[str] = (), tests: str = "") -> None:
    """Make the folder that mutmut works in; it runs the tests in mutants/, beside the mutants."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root / "tools", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (place / "src").rglob("*.py"):
        path.write_text(undecorated(path.read_text(encoding="utf-8")), encoding="utf-8")
    settings = (root / "pyproject.toml").read_text(encoding="utf-8")
    (place / "pyproject.toml").write_text(settings_for(settings, patterns, tests), "utf-8")
    tree = place / "mutants"
    tree.mkdir()
    (tree / "tools").symlink_to("src")
    for path in root.iterdir():
        if path.name not in _OWN and not path.name.startswith("."):
            (tree / path.name).symlink_to(path)


def settings_for(settings: str, patterns: Sequence[str], tests: str) -> str:
    """Leave out of [tool.mutmut] the modules and test files that are not asked for."""

    def keeps(line: str) -> bool:
        file = re.fullmatch(r' *"tests/tools/(\w+)\.py",\n', line)
        return file is None or bool(re.search(tests, file[1]))

    kept = "".join(filter(keeps, settings.splitlines(keepends=True)))
    if not patterns:
        return kept
    modules = [re.split(r"\.x[_ǁ]|\*|\?", one)[0].rstrip(".") for one in (_FIRST, *patterns)]
    files = [f'"src/{module.replace(".", "/")}*"' for module in modules]
    return re.sub(r"only_mutate = \[[^]]*\]", f"only_mutate = [{', '.join(files)}]", kept)


def mutmut(place: Path, *arguments: str, timeout_s: float | None = None) -> str:
    """Run mutmut, and return what it prints; after the timeout, what it has noted until then."""
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    with subprocess.Popen(
        command,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0]
    (place / "mutmut.log").write_text(printed, encoding="utf-8")
    if process.returncode != 0:
        raise RuntimeError(f"mutmut {arguments[0]} failed; see {place / 'mutmut.log'}")
    return printed


def read_verdicts(results: str) -> dict[str, str]:
    """Read what `mutmut results` prints, a line a mutant."""
    pairs = (line.strip().partition(": ") for line in results.splitlines())
    return {name: verdict for name, _, verdict in pairs}


def choose(names: Sequence[str], patterns: Sequence[str], sample: int, seed: int = 1) -> list[str]:
    """Choose so many of each module among those that match, whatever the other modules have."""
    modules: dict[str, list[str]] = {}
    for name in sorted(names):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns or ["*"]):
            modules.setdefault(_module(name), []).append(name)
    return [
        name
        for module, those in sorted(modules.items())
        for name in sorted(random.Random(f"{module}{seed}").sample(those, min(sample, len(those))))
    ]


def summary(verdicts: Mapping[str, str]) -> tuple[str, bool]:
    """What a run has shown, as lines, and whether it is good."""
    told = {name: verdict for name, verdict in verdicts.items() if verdict != _UNTRIED}
    lines = [f"{verdict}: {name}" for name, verdict in told.items() if verdict != "killed"]
    counted = {name: verdict for name, verdict in told.items() if verdict != "equivalent"}
    caught = {name for name, verdict in counted.items() if verdict in _CAUGHT}
    for title, place_of in (("Module", _module), ("Area", _area)):
        lines += [f"| {title} | Caught | Mutants |", "|---|---:|---:|"]
        for place in dict.fromkeys(map(place_of, counted)):
            those = {name for name in counted if place_of(name) == place}
            lines.append(f"| {place} | {len(those & caught)} | {len(those)} |")
    share = len(caught) / max(len(counted), 1)
    untried = len(verdicts) - len(told)
    rest = f", {untried} not tried" if untried else ""
    lines.append(f"{len(caught)} of {len(counted)} caught ({share:.1%}){rest}")
    return "\n".join(lines), share >= LEAST_CAUGHT


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _area(name: str) -> str:
    return ".".join(name.split(".")[:2])


def try_all(
    place: Path,
    patterns: Sequence[str],
    sample: int,
    seed: int,
    tests: str = "",
    minutes: float | None = None,
) -> dict[str, str]:
    lay_out(ROOT, place, patterns, tests)
    mutmut(place, "run", _FIRST)  # makes all mutants, and notes which test reaches which function
    names = list(read_verdicts(mutmut(place, "results", "--all", "true")))
    chosen = choose(names, patterns, sample, seed)
    if not chosen:
        raise RuntimeError("no mutant has such a name")
    print(f"trying {len(chosen)} of {len(names)} mutants", flush=True)
    mutmut(place, "run", *chosen, timeout_s=minutes and 60 * minutes)
    verdicts = read_verdicts(mutmut(place, "results", "--all", "true"))
    known = read_equivalent()
    return {
        name: "equivalent" if _is_equivalent(place, name, verdicts[name], known) else verdicts[name]
        for name in chosen
    }


def _is_equivalent(place: Path, name: str, verdict: str, known: Sequence[Equivalent]) -> bool:
    """Tell whether a survivor is in the list; one that is caught needs no entry."""
    if verdict != "survived":
        return False
    change = read_change(mutmut(place, "show", name))
    return any(entry.explains(function_of(name), *change) for entry in known)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only mutants that match this shell glob"
    )
    parser.add_argument("--sample", type=int, default=40, metavar="N", help="of each module")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="draws another sample")
    parser.add_argument(
        "--tests", default="", metavar="REGEX", help="only test files with such names"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="try no more after so long; slow ones come last"
    )
    given = parser.parse_args(arguments)
    try:
        found = try_all(_PLACE, given.names, given.sample, given.seed, given.tests, given.minutes)
        text, good = summary(found)
    except (OSError, RuntimeError) as error:
        print(f"python_mutants.py: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
