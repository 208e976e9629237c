"""The house: floors use only floors below them, text is whole, and documents name what exists."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# By folder, from the table of floors. The folders beside the floors may use all of them.
FLOORS = {
    folder: int(floor)
    for floor, folders in re.findall(r"^\| (\d) \| (`.*?`) \|", MAP, re.MULTILINE)
    for folder in re.findall(r"`(\w+)/`", folders)
}
BESIDE = ("injection", "interface", "launcher")
CODE = {".h", ".cc", ".cu", ".cuh", ".def"}
# The one file of a floor that uses folders beside the floors, and those.
MAIN = "benchmarks/main.cc"
USED_BY_MAIN = ("injection", "launcher")


def sources(*folders: str) -> Iterator[tuple[str, list[str]]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CODE:
                name = path.relative_to(ROOT).as_posix()
                yield name, path.read_text(encoding="utf-8").splitlines()


def may_include(user: str, used: str) -> bool:
    """Tell whether a file may include one of the folder `used`."""
    folder = user.split("/")[0]
    if folder in BESIDE:
        return used == folder or used in FLOORS
    if used in BESIDE:
        return user == MAIN and used in USED_BY_MAIN
    return used == folder or FLOORS[used] < FLOORS[folder]


def test_the_map_has_all_floors() -> None:
    assert [sorted(f for f in FLOORS if FLOORS[f] == floor) for floor in range(1, 8)] == [
        ["device"],
        ["ranks"],
        ["workload"],
        ["comm", "kernels"],
        ["fixtures"],
        ["report"],
        ["benchmarks"],
    ]


def test_floors_use_only_floors_below_them() -> None:
    wrong = [
        f"{name}: {line}"
        for name, lines in sources(*FLOORS, *BESIDE)
        for line in lines
        for used in re.findall(r'^#include "(\w+)/', line)
        if not may_include(name, used)
    ]
    assert wrong == []


def test_no_kernel_of_the_product_destroys_its_callers_context() -> None:
    """A trap or a failed assertion on a GPU ends the CUDA context of the whole process."""
    kernels = [
        f"{name}:{number}"
        for name, lines in sources(*FLOORS)
        for number, line in enumerate(lines, 1)
        if re.search(r"\b(__trap|assert)\(|asm.*\btrap\b", line)
    ]
    assert kernels == []


# ---- text that clang-format, or an edit, has broken up


def is_torn_comment(line: str, following: str) -> bool:
    """Tell whether a comment's sentence continues below although its line has room for more."""
    here = re.fullmatch(r" *// (\S+(?: \S+)*)", line)
    below = re.fullmatch(r" *//( +)([a-z(]\S*)(.*)", following)
    if here is None or below is None or line[-1] in ".:;" or "  " in below[3]:
        return False
    fits = len(f"{line} {below[2]}") <= 85
    return fits and (below[1] == " " or " " not in here[1])


def is_torn_literal(line: str, following: str) -> bool:
    return bool(re.fullmatch(r' *"\w+ "', line) and re.match(r' *"', following))


@pytest.mark.parametrize("is_torn", [is_torn_comment, is_torn_literal])
def test_no_line_ends_after_a_word_or_two(is_torn: Callable[[str, str], bool]) -> None:
    torn = [
        f"{name}:{number}: {line.strip()}"
        for name, lines in sources(*FLOORS, *BESIDE, "tests")
        for number, (line, following) in enumerate(pairwise(lines), 1)
        if is_torn(line, following)
    ]
    assert torn == []


# ---- what documents name


def backticked(pattern: str) -> Iterator[tuple[str, str]]:
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]:
        for found in re.findall(f"`({pattern})`", path.read_text(encoding="utf-8")):
            yield path.name, found


def test_documents_name_files_that_exist() -> None:
    folders = "|".join([*FLOORS, *BESIDE])
    named = list(backticked(rf"(?:{folders})/[\w/]+\.\w+"))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name[1]).exists()] == []


def test_documents_name_members_that_exist() -> None:
    """As in `Sampler::Take`: a file that declares the class has the member."""
    texts = ["\n".join(lines) for _, lines in sources(*FLOORS)]

    def exists(name: str) -> bool:
        owner, member = name.split("::")
        declared = re.compile(rf"\b(?:class|struct) {owner}\b")
        return any(declared.search(text) and re.search(rf"\b{member}\b", text) for text in texts)

    named = list(backticked(r"[A-Z]\w+::\w+"))
    assert len(named) > 5
    assert [name for name in named if not exists(name[1])] == []


# ---- where documents lead


def prose_of(path: Path) -> str:
    """Return a document without its examples, whose lines may look like headings and links."""
    return re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors_of(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", prose_of(path), re.MULTILINE)
    shown = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in shown}


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [
        (document, link)
        for document in documents
        for link in re.findall(r"\]\(((?!https?:)\S+?)\)", prose_of(document))
    ]
    assert len(links) > 100
    broken = []
    for document, link in links:
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(f"{document.relative_to(ROOT)}: {link}")
    assert broken == []
