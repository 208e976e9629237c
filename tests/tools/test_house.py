"""The house: the map is that of the build, text is whole, and documents name what exists."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BUILD = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
# By folder, from the table of tiers.
TIERS = {
    folder: int(tier)
    for tier, folders in re.findall(r"^\| (\d) \| (`.*?`) \|", MAP, re.MULTILINE)
    for folder in re.findall(r"`(\w+)/`", folders)
}
BESIDE = ("interface",)
CODE = {".h", ".cc", ".cu", ".cuh", ".def"}


def sources(*folders: str) -> Iterator[tuple[str, list[str]]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CODE:
                name = path.relative_to(ROOT).as_posix()
                yield name, path.read_text(encoding="utf-8").splitlines()


def test_the_map_and_the_build_have_the_same_tiers() -> None:
    """That a tier includes nothing of a higher one is tested with the compiler (tier_...)."""
    words = [
        line.split() for line in re.findall(r"^overlapbench_tier\((.*?)\)", BUILD, re.M | re.S)
    ]
    assert {tier for tier, *_ in words} == TIERS.keys()
    for tier, *more in words:
        assert not [used for used in more if TIERS.get(used, 0) >= TIERS[tier]], tier


def test_no_kernel_of_the_product_destroys_its_callers_context() -> None:
    """A trap or a failed assertion on a GPU ends the CUDA context of the whole process."""
    kernels = [
        f"{name}:{number}"
        for name, lines in sources(*TIERS)
        for number, line in enumerate(lines, 1)
        if re.search(r"\b(__trap|assert)\(|asm.*\btrap\b", line)
    ]
    assert kernels == []


def test_the_glossary_is_short_and_its_files_have_its_nouns() -> None:
    glossary = MAP.partition("### One word for each idea")[2].partition("###")[0]
    nouns = re.findall(r"^\| (\w+) \| .* \| `(.+?)` \|$", glossary, re.MULTILINE)
    assert 10 <= len(nouns) <= 15
    assert len(dict(nouns)) == len(nouns)
    files = {file: (ROOT / file).read_text(encoding="utf-8").lower() for _, file in nouns}
    assert [noun for noun, file in nouns if not re.search(rf"\b{noun}", files[file])] == []


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
        for name, lines in sources(*TIERS, *BESIDE, "tests")
        for number, (line, following) in enumerate(pairwise(lines), 1)
        if is_torn(line, following)
    ]
    assert torn == []


# ---- what documents name


def backticked(pattern: str) -> Iterator[tuple[str, str]]:
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]:
        for found in re.findall(f"`({pattern})`", path.read_text(encoding="utf-8")):
            yield path.name, found


def test_documents_name_files_that_exist() -> None:
    folders = "|".join([*TIERS, *BESIDE])
    named = list(backticked(rf"(?:{folders})/[\w/]+\.\w+"))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name[1]).exists()] == []


def test_documents_name_members_that_exist() -> None:
    """As in `Sampler::Take`: a file that declares the class has the member."""
    texts = ["\n".join(lines) for _, lines in sources(*TIERS)]

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
    assert [
        f"{document.relative_to(ROOT)}: {link}"
        for document, link in links
        if not leads_somewhere(document, link)
    ] == []


def test_documents_are_short() -> None:
    """As `wc -w` counts: the README without its list of questions, and all of docs."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start, _, rest = readme.partition("\n## How do I")
    questions, _, end = rest.partition("\n## ")
    assert questions.count("(docs/") >= 10
    assert len(f"{start}{end}".split()) <= 900
    assert sum(len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md")) <= 35_000


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("*.md")), ids=lambda p: p.stem)
def test_a_question_s_page_ends_with_a_decision(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= 350
    for part in ("```console\n", "![", "**Decide"):  # the command, a picture, what to do
        assert part in text
    assert f"(docs/how-to/{page.name})" in (ROOT / "README.md").read_text(encoding="utf-8")


def leads_somewhere(document: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = document.parent / name if name else document
    return target.exists() and (not anchor or anchor in anchors_of(target))


def test_code_refers_to_documents_that_exist() -> None:
    """As in `docs/method.md` or `docs/comparing.md#in-ci`, in any file of the repository."""
    done = subprocess.run(
        ["git", "grep", "-ohIE", r"docs/[[:alnum:]_./-]+\.md(#[[:alnum:]-]+)?"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {*done.stdout.split()}
    assert len(found) > 20
    assert [name for name in found if not leads_somewhere(ROOT / "a", name)] == []


# ---- the Python package

PACKAGE = ROOT / "tools/overlapbench"
LOOSE = ("grouping", "installation", "output", "packages")
ROOMS = {
    "statistics": 1,
    "reading": 2,
    "judge": 3,
    "measurement": 3,
    "traces": 3,
    "findings": 4,
    "prediction": 4,
    "doctor": 5,
    "tune": 5,
    "view": 5,
    "cli": 6,
}
PUBLIC = {"torch_kernels": "measurement"}
MUTABLE = ("Dict", "DictComp", "List", "ListComp", "Set", "SetComp")
MAKERS = {"dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray"}
CHANGING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
CHANGING |= {"setdefault", "update", "__setitem__"}


def python_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports of the package, as `room` or `room.module`, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[2] for one in node.names if is_ours(one.name))
        elif isinstance(node, ast.ImportFrom) and node.module and is_ours(node.module):
            place = node.module.partition(".")[2]
            yield from [place] if place else (one.name for one in node.names)


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "overlapbench"


def may_import(user: str, used: str) -> bool:
    """Tell whether a file of the package may import `used`."""
    room, used_room = user.removesuffix(".py").split("/")[0], used.split(".")[0]
    used_room = PUBLIC.get(used_room, used_room)
    if room.startswith("__") or used_room in LOOSE:
        return True
    return room not in LOOSE and (room == used_room or ROOMS[room] > ROOMS[used_room])


def test_the_package_is_rooms_and_few_loose_modules() -> None:
    loose = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert loose == {*LOOSE}
    assert len(loose) <= 4
    assert rooms == {*ROOMS}
    assert max(ROOMS.values()) <= 6
    assert not {"results", "measure", "predict", "trace", "compare"} & rooms  # would hide functions


def test_rooms_import_only_rooms_below_them() -> None:
    wrong = [
        f"{name}: {used}"
        for name, tree in python_modules()
        for used in imports_of(tree)
        if not may_import(name, used)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("user", "used", "allowed"),
    [
        ("cli/chart.py", "view.chart", True),
        ("view/chart.py", "reading.result", True),
        ("judge/side.py", "view.comparison", False),
        ("judge/side.py", "traces.model", False),
        ("statistics/levels.py", "output", True),
        ("statistics/levels.py", "reading.names", False),
        ("output.py", "packages", True),
        ("output.py", "statistics.levels", False),
        ("measurement/measuring.py", "cli.command_line", False),
    ],
)
def test_a_room_below_is_told_from_one_above(user: str, used: str, allowed: bool) -> None:
    assert may_import(user, used) == allowed


def changed_names(tree: ast.Module) -> Iterator[str]:
    """Yield names of a module that its functions change: no module has a state."""
    kept = {
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and is_mutable(node.value)
    }
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield from node.names
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                yield from names_in(node.value, kept)
            elif isinstance(node, ast.AugAssign):
                yield from names_in(node.target, kept)
            elif is_change(node):
                yield from names_in(node.func.value, kept)  # type: ignore[attr-defined]


def is_change(node: ast.AST) -> TypeGuard[ast.Call]:
    """Tell whether a call such as `names.append(...)` changes what it is called on."""
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in CHANGING


def is_mutable(value: ast.expr | None) -> bool:
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return type(value).__name__ in MUTABLE or (made and value.func.id in MAKERS)  # type: ignore[union-attr]


def names_in(value: ast.expr, kept: set[str]) -> Iterator[str]:
    if isinstance(value, ast.Name) and value.id in kept:
        yield value.id


def test_no_module_has_a_state() -> None:
    assert [
        f"{name}: {one}" for name, tree in python_modules() for one in changed_names(tree)
    ] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A = {}\ndef f():\n    A[1] = 2", ["A"]),
        ("A: list[int] = []\ndef f():\n    A.append(2)", ["A"]),
        ("A = 1\ndef f():\n    global A\n    A = 2", ["A"]),
        ("A = defaultdict(list)\ndef f():\n    del A[1]", ["A"]),
        ("A = set()\ndef f():\n    lambda: A.add(1)", ["A", "A"]),
        ("A = {1: 2}\ndef f():\n    return A[1], A.get(2)", []),
        ("def f():\n    a = []\n    a.append(1)", []),
        ("A = {}\nA[1] = 2", []),
    ],
)
def test_a_state_is_recognized(text: str, found: list[str]) -> None:
    assert [*changed_names(ast.parse(text))] == found


@pytest.mark.parametrize(
    ("banned", "allowed"),
    # torchrun is not ours to hand its ranks a place to meet.
    [("gc.disable", set[str]()), ("gc.freeze", set[str]()), ("/proc/", {"ranks.py"})],
)
def test_processes_are_left_as_they_are(banned: str, allowed: set[str]) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert {path.name for path, text in texts.items() if banned in text} <= allowed


def test_no_script_replaces_its_process() -> None:
    """`overlapbench run` becomes ./bench, so that signals reach it; nothing else does."""
    found = [name for name, tree in python_modules() for node in ast.walk(tree)
             if isinstance(node, ast.Attribute) and node.attr.startswith("exec")
             and isinstance(node.value, ast.Name) and node.value.id == "os"]  # fmt: skip
    assert found == ["cli/run.py"]


HEAVY = ("altair", "asyncio", "jinja2", "json", "numpy", "rich", "sqlite3", "subprocess", "torch")


@pytest.mark.parametrize(
    ("program", "most", "without"),
    [
        ("import overlapbench as ob; dir(ob)", 30, [*HEAVY, "argparse"]),
        (
            "from overlapbench import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass",
            120,
            HEAVY,
        ),
    ],
)
def test_starting_imports_little(program: str, most: int, without: list[str]) -> None:
    """Modules are counted, because times depend on the machine; they come to some 10 and 60 ms."""
    program = f"import sys; before = {{*sys.modules}}; {program}\n"
    program += "print(*({*sys.modules} - before), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stderr.split()
    assert {*loaded} & {*without} == set()
    assert len(loaded) <= most
