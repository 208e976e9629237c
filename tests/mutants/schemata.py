"""Write many mutants into one copy of the code, so that one build can be each of them.

An expression becomes `(::overlapbench_mutant(17) ? (mutated) : (original))`, a statement that is
left out `{ if (!::overlapbench_mutant(18)) statement; }`. Mutants may be nested. Lines keep their
numbers, so a compiler's error leads to the mutants that do not compile.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_DECLARATION = b"bool overlapbench_mutant(int);\n#line 1\n"


@dataclass(frozen=True, order=True)
class Mutant:
    file: str
    begin: int  # of the original, in bytes
    end: int
    line: int
    original: str
    mutated: str  # "": the statement is left out
    context: str  # the line of code, which recognises the mutant wherever it moves

    def __str__(self) -> str:
        new = " ".join(self.mutated.split()) or "(nothing)"
        return f"{self.file}:{self.line}: {' '.join(self.original.split())} → {new}"


def planted(code: bytes, mutants: Mapping[int, Mutant]) -> bytes:
    """The code of a file with its mutants, by number."""
    inserted: list[tuple[int, int, int, bytes]] = []  # place, then the order of those there
    removed: set[int] = set()
    for number, mutant in mutants.items():
        size = mutant.end - mutant.begin
        before, after = around(f"::overlapbench_mutant({number})", mutant)
        one_line = " ".join(re.sub(r"\s//\s.*", "", line) for line in before.splitlines())
        inserted.append((mutant.begin, 1, -size, one_line.encode()))  # the outer one first
        inserted.append((mutant.end, 0, size, after.encode()))  # the inner one first
        if (place := constexpr_before(code, mutant.begin)) is not None:
            removed.add(place)
    pieces: list[bytes] = [_DECLARATION]
    done = 0
    for place, _, _, text in sorted(
        [*inserted, *((place, 1, 0, b"") for place in removed)], key=lambda entry: entry[:3]
    ):
        pieces += [code[done:place], text]
        done = place + len("expr") if not text else place
    return b"".join([*pieces, code[done:]])


def around(call: str, mutant: Mutant) -> tuple[str, str]:
    """What stands before and after the original."""
    if not mutant.mutated:
        return f"{{ if (!{call}) ", " }"
    # `x ? optional : bool` would be an optional that holds the bool.
    if mutant.mutated == f"!({mutant.original})":
        return f"({call} != bool(", "))"
    of_bool = "bool" if mutant.original.startswith("!") else ""
    return f"({call} ? {of_bool}({mutant.mutated}) : (", "))"


def constexpr_before(code: bytes, begin: int) -> int | None:
    """Where "expr" is in the `constexpr` of the declaration whose number is at `begin`."""
    found = re.search(rb"\bconstexpr\b[^;{}()]*=\s*$", code[:begin])
    return found.start() + len("const") if found else None


def faulty(output: str, root: Path, mutants: Mapping[int, Mutant]) -> set[int]:
    """The mutants that a compiler's errors are about."""
    found: set[int] = set()
    by_line: dict[tuple[str, int], list[int]] = {}
    for number, mutant in mutants.items():
        for line in range(mutant.line, mutant.line + mutant.original.count("\n") + 1):
            by_line.setdefault((mutant.file, line), []).append(number)
    for error in errors_in(output):
        for file, line in error:
            name = file.removeprefix(f"{root}/").removeprefix("../../")
            if here := by_line.get((name, line)):
                found.update(here)
                break
    return found


def errors_in(output: str) -> Iterable[Sequence[tuple[str, int]]]:
    """The places that each error names: its own first, then those of what it says more."""
    before: list[tuple[str, int]] = []
    places: list[tuple[str, int]] = []
    for text in output.splitlines():
        match = re.match(r"(?:In file included from )?([^\s:]+):(\d+):(?:\d+:)?\s*(.*)", text)
        if match is None:
            continue
        place = (match[1], int(match[2]))
        if match[3].startswith("error:"):
            if places:
                yield places
            places = [place, *before]
            before = []
        elif "required from" in match[3] or "In " in text:
            before.append(place)
        elif places:
            places.append(place)
    if places:
        yield places


def failed_files(output: str) -> set[str]:
    """The sources whose objects a build could not make."""
    return {found[1] for found in re.finditer(r"FAILED: .*?\.dir/(?:__/)*(\S+)\.o", output)}
