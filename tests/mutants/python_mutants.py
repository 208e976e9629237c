#!/usr/bin/env python3
"""Plant faults in the Python of tools/ with mutmut, and count those that the tests catch.

    tests/mutants/python_mutants.py                         40 of each module, the same every time
    tests/mutants/python_mutants.py --sample 1000           all of them
    tests/mutants/python_mutants.py 'overlapbench.reading.names.*'  those of such names

[tool.mutmut] in pyproject.toml says which modules are mutated, and which tests may notice. For each
mutant the tests that reach its function run, the quickest first, until one fails. Each run starts
afresh in build/python-mutants, on a copy of tools/, so your files are never changed.

mutmut finds modules only in a folder named src/, so that is the copy's name. It skips functions
with decorators other than class and static methods, so in the copy their decorators are equivalent
calls after the function. It does not mutate code outside functions.

A survivor needs a test, or simpler code, unless it cannot matter. To see a mutant:

    (cd build/python-mutants && ../../.venv/bin/mutmut show NAME)

Needs what ./check installs, and mutmut:

    .venv/bin/pip install -r tests/mutants/requirements.txt

Exit status: 0 if at least 90 % were caught; 1 if not, or if mutmut failed; 2 for bad usage.
"""

import argparse
import ast
import fnmatch
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST_CAUGHT = 0.90
_PLACE = ROOT / "build" / "python-mutants"
_OWN = {"build", "tools", "pyproject.toml"}  # of the copy; all else is a link into the tree
_CAUGHT = ("killed", "timeout")
_FIRST = "overlapbench.reading.names.x_spell_sizes__mutmut_1"


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


def lay_out(root: Path, place: Path) -> None:
    """Make the folder that mutmut works in; it runs the tests in mutants/, beside the mutants."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root / "tools", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (place / "src").rglob("*.py"):
        path.write_text(undecorated(path.read_text(encoding="utf-8")), encoding="utf-8")
    (place / "pyproject.toml").symlink_to(root / "pyproject.toml")
    tree = place / "mutants"
    tree.mkdir()
    (tree / "tools").symlink_to("src")
    for path in root.iterdir():
        if path.name not in _OWN and not path.name.startswith("."):
            (tree / path.name).symlink_to(path)


def mutmut(place: Path, *arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    (place / "mutmut.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise RuntimeError(f"mutmut {arguments[0]} failed; see {place / 'mutmut.log'}")
    return done.stdout


def read_verdicts(results: str) -> dict[str, str]:
    """Read what `mutmut results` prints, a line a mutant."""
    pairs = (line.strip().partition(": ") for line in results.splitlines())
    return {name: verdict for name, _, verdict in pairs}


def choose(names: Sequence[str], patterns: Sequence[str], sample: int) -> list[str]:
    """Choose those that match, or else so many of each module, whatever the others have."""
    if patterns:
        return [n for n in names if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
    modules: dict[str, list[str]] = {}
    for name in sorted(names):
        modules.setdefault(_module(name), []).append(name)
    return [
        name
        for module, those in sorted(modules.items())
        for name in sorted(random.Random(module).sample(those, min(sample, len(those))))
    ]


def summary(verdicts: Mapping[str, str]) -> tuple[str, bool]:
    """What a run has shown, as lines, and whether it is good."""
    missed = [name for name, verdict in verdicts.items() if verdict not in _CAUGHT]
    lines = [f"{verdict}: {name}" for name, verdict in verdicts.items() if verdict != "killed"]
    lines += ["| Module | Caught | Mutants |", "|---|---:|---:|"]
    for module in dict.fromkeys(map(_module, verdicts)):
        those = [name for name in verdicts if _module(name) == module]
        lines.append(f"| {module} | {len(those) - len({*those} & {*missed})} | {len(those)} |")
    caught = len(verdicts) - len(missed)
    lines.append(f"{caught} of {len(verdicts)} caught ({caught / len(verdicts):.1%})")
    return "\n".join(lines), caught >= LEAST_CAUGHT * len(verdicts)


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def try_all(place: Path, patterns: Sequence[str], sample: int) -> dict[str, str]:
    lay_out(ROOT, place)
    mutmut(place, "run", _FIRST)  # makes all mutants, and notes which test reaches which function
    names = list(read_verdicts(mutmut(place, "results", "--all", "true")))
    chosen = choose(names, patterns, sample)
    if not chosen:
        raise RuntimeError("no mutant has such a name")
    print(f"trying {len(chosen)} of {len(names)} mutants", flush=True)
    mutmut(place, "run", *chosen)
    verdicts = read_verdicts(mutmut(place, "results", "--all", "true"))
    return {name: verdicts[name] for name in chosen}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only mutants that match this shell glob"
    )
    parser.add_argument("--sample", type=int, default=40, metavar="N", help="of each module")
    given = parser.parse_args(arguments)
    try:
        text, good = summary(try_all(_PLACE, given.names, given.sample))
    except (OSError, RuntimeError) as error:
        print(f"python_mutants.py: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
