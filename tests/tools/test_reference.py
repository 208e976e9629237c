"""docs/reference.md is that of the docstrings, which tell of every parameter and of errors."""

import ast
import re
from pathlib import Path

import pytest

import overlapbench
import update_reference
from update_reference import MODULES, Definition, Module

DEFINED = [(module, node) for module in MODULES for node in update_reference.definitions(module)]
FUNCTIONS = [(module, node) for module, node in DEFINED if isinstance(node, ast.FunctionDef)]


def test_the_page_is_up_to_date() -> None:
    page = update_reference.REFERENCE.read_text(encoding="utf-8")
    assert page == update_reference.up_to_date(), "run dev/update_reference.py"


def test_it_has_everything_that_the_package_exports() -> None:
    documented = {name for module in MODULES if module.prefix == "ob." for name in module.names}
    assert set(overlapbench.__all__) <= documented


@pytest.mark.parametrize(("module", "node"), FUNCTIONS, ids=lambda part: getattr(part, "name", ""))
def test_a_function_tells_of_its_parameters_and_errors(module: Module, node: Definition) -> None:
    text = ast.get_docstring(node) or ""
    assert isinstance(node, ast.FunctionDef)
    parameters = [one.arg for one in (*node.args.args, *node.args.kwonlyargs) if one.arg[0] != "_"]
    told = [name for name in parameters if re.search(rf"^{name}  |`{name}`", text, re.MULTILINE)]
    if node.name != "overlap_benchmark":  # which pytest calls
        assert told == parameters
    if parameters and module is not MODULES[1]:
        assert re.search(r"^\w+Error\b", text, re.MULTILINE)


@pytest.mark.parametrize(("_", "node"), DEFINED, ids=lambda part: getattr(part, "name", ""))
def test_everything_has_a_docstring(_: Module, node: Definition) -> None:
    members = [*update_reference.members(node)]
    assert [one.name for one in (node, *members) if not ast.get_docstring(one)] == []


def test_a_docstring_s_first_paragraph_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made.py").write_text('''"""What it is (docs/method.md).

    import made

    made.up()

It has no state.
"""
def up(x: "int | None" = None, *rest: dict[str, tuple[int, int]], y: str = "a,b") -> "float":
    """Go up,
    or down.

    x     how far, in steps
    """
class Lift:
    """It moves (docs/method.md)."""
    def go(self) -> None:
        """Go."""
def _hidden() -> None: ...
''')  # fmt: skip
    monkeypatch.setattr(update_reference, "PACKAGE", tmp_path)
    monkeypatch.setattr(update_reference, "MODULES", (Module("It's made", "m.", ("made.py",)),))
    _, page = update_reference.up_to_date().split("how to install.\n")
    assert page.split("\n\n") == [
        "\n- [It's made](#its-made)",
        "## It's made",
        "What it is ([method.md](method.md)).",
        "- `m.up(x, *rest, y) -> float`: Go up, or down.\n"
        "- `m.Lift`: It moves ([method.md](method.md)).\n"
        "  - `go`: Go.\n",
    ]


def test_a_name_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Module("None", "", ("measurement/callables.py",), ("Work", "Wrok"))
    monkeypatch.setattr(update_reference, "MODULES", (missing,))
    assert update_reference.main([]) == 2
    assert capsys.readouterr().err == "update_reference: measurement/callables.py: no Wrok\n"
