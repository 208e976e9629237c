"""The notebook of docs/examples, executed cell by cell as a kernel does, on the host backend."""

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Program

EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples"
# Shows the last value of each cell as Jupyter would: as HTML, a chart, or text.
SHOW = """
def show(value):
    html = getattr(value, "_repr_html_", None)
    bundle = getattr(value, "_repr_mimebundle_", None)
    tell(type(value).__name__, html() if html else "" if bundle else repr(value))
"""


def cells() -> list[str]:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "commit it without outputs"
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def showing(cell: str) -> str:
    """Return the code of a cell, with its last expression shown."""
    *lines, last = ast.parse(cell).body
    if isinstance(last, ast.Expr):
        shown = ast.Expr(ast.Call(ast.Name("show"), [last.value], []))
        return ast.unparse(ast.Module([*lines, shown], []))
    return cell


def test_a_notebook_is_executed(program: "Program") -> None:
    pytest.importorskip("altair")
    code = "\n".join([SHOW, *map(showing, cells())])
    told = program(code, OVERLAPBENCH_EXAMPLES=str(EXAMPLES))
    shown = {name: text for name, text in told if text.startswith(("<p", "<table"))}
    assert list(shown) == ["Row", "Results", "Comparison", "TraceBreakdown"]
    assert "Overlap/mineComm+mineComp/n:512/cache:cold" in shown["Row"]
    assert "Compute/copy/n:3" in shown["Results"]
    assert "<svg" in shown["Row"]
    assert any(name.endswith("Chart") for name, _ in told)
