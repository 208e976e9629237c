#!/usr/bin/env python3
"""Write docs/reference.md: the package's public functions, how they are called, what they do.

    dev/update_reference.py

MODULES lists them. The script reads the sources without importing them, so it needs neither PyTorch
nor pytest. help() shows a docstring as a whole, with types, defaults and errors.

tests/tools/test_reference.py fails while the page is stale, or a public function has no docstring.

Exit status: 0 the page is up to date now; 2 a file is not as expected, or not writable.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import checkout  # noqa: F401
from overlapbench.output import ResultError, replace_file

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tools/overlapbench"
REFERENCE = ROOT / "docs/reference.md"
HEAD = """\
# Reference of the Python package

*Which public functions are there, and what do they return?*

```python
import overlapbench as ob
help(ob.measure)    # with types, defaults, units and errors
```

`dev/update_reference.py` makes this page from the docstrings.
[measuring-your-own.md](measuring-your-own.md) explains how to measure, and [package.md](package.md)
how to install.
"""
_DOCUMENT = re.compile(r"(?<=\()docs/([\w-]+\.md)(?=\))")

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """A section of the page."""

    title: str
    prefix: str  # of the names, as a user writes them
    files: tuple[str, ...]  # of tools/overlapbench; the first one's docstring is the introduction
    names: tuple[str, ...] = ()  # in the order of the page; none: all public names


MODULES = (
    Module(
        "Measuring",
        "ob.",
        tuple(
            f"measurement/{name}.py" for name in ("measuring", "callables", "interface", "bench")
        ),
        (
            *("measure", "measure_schedule", "measure_alone", "measure_row", "do_bench"),
            *("results", "configure", "init_torch_distributed"),
            *("Work", "Verdict", "Step", "MeasureError"),
        ),
    ),
    Module(
        "The fixture of pytest",
        "",
        ("measurement/pytest_plugin.py",),
        ("overlap_benchmark", "OverlapBenchmark"),
    ),
    Module(
        "Kernels on PyTorch's tensors",
        "torch_kernels.",
        ("measurement/torch_kernels.py",),
        ("gelu", "gelu_backward", "softmax", "grid_gemm", "KernelsError"),
    ),
    Module(
        "Reading results",
        "ob.",
        ("reading/result.py", "reading/rows.py"),
        ("read", "Results", "Row", "State", "Figure", "Inconclusive"),
    ),
    Module(
        "Comparing results",
        "ob.",
        ("judge/verdicts.py",),
        ("compare", "Comparison"),
    ),
    Module(
        "Predictions",
        "ob.",
        ("prediction/answers.py", "prediction/model.py"),
        ("predict", "Prediction"),
    ),
    Module("Pictures of rows", "ob.", ("view/row_chart.py",), ("plot",)),
    Module("Traces", "ob.", ("view/tracing.py",), ("trace", "Traces", "TraceBreakdown")),
)


def up_to_date() -> str:
    """Return what the page must contain."""
    return "\n".join([HEAD, _contents(), *map(_section, MODULES)])


def definitions(module: Module) -> list[Definition]:
    """Return the definitions in a section; ValueError if a name is not defined."""
    trees = [ast.parse((PACKAGE / name).read_text(encoding="utf-8")) for name in module.files]
    found = {
        node.name: node
        for tree in reversed(trees)
        for node in tree.body
        if isinstance(node, Definition) and not node.name.startswith("_")
    }
    if missing := {*module.names} - found.keys():
        raise ValueError(f"{', '.join(module.files)}: no {', '.join(sorted(missing))}")
    return [found[name] for name in module.names or found]


def _contents() -> str:
    return "".join(f"- [{one.title}](#{_anchor(one.title)})\n" for one in MODULES)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _section(module: Module) -> str:
    source = (PACKAGE / module.files[0]).read_text(encoding="utf-8")
    entries = (line for node in definitions(module) for line in _described(node, module.prefix))
    parts = (f"## {module.title}\n", f"{_summary(ast.parse(source))}\n", *entries, "")
    return "\n".join(parts)


def members(node: Definition) -> Iterator[ast.FunctionDef]:
    """Return the public methods and properties of a class, and its __call__."""
    for part in node.body if isinstance(node, ast.ClassDef) else ():
        public = isinstance(part, ast.FunctionDef) and not part.name.startswith("_")
        if isinstance(part, ast.FunctionDef) and (public or part.name == "__call__"):
            yield part


def _described(node: Definition, prefix: str) -> Iterator[str]:
    yield f"- `{_signature(node, prefix)}`: {_summary(node)}"
    for one in members(node):
        yield f"  - `{one.name}`: {_summary(one)}"
    if isinstance(node, ast.ClassDef):
        yield from (f"  {line}" for line in map(_value, node.body) if line)


def _summary(node: Definition | ast.Module) -> str:
    """Return the first paragraph of a docstring, with linked documents."""
    text = (ast.get_docstring(node) or "").split("\n\n")[0]
    return _DOCUMENT.sub(r"[\1](\1)", " ".join(text.split()))


def _value(node: ast.stmt) -> str:
    """Return a line for a class's attribute that is `property(function, doc=...)`."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id="property"), keywords=[ast.keyword(value=text)]),
        ):
            return f"- `{name}`: {ast.literal_eval(text)}"
    return ""


def _signature(node: Definition, prefix: str) -> str:
    """Return how it is called, with its parameters' names; a class without fields is its name."""
    if isinstance(node, ast.ClassDef):
        fields = [ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)]
        return f"{prefix}{node.name}({', '.join(fields)})" if fields else f"{prefix}{node.name}"
    if "pytest.fixture" in {ast.unparse(one) for one in node.decorator_list}:
        return f"{prefix}{node.name}: {_type(node.returns)}"
    names = ", ".join(_parameters(node.args))
    return f"{prefix}{node.name}({names}) -> {_type(node.returns)}"


def _parameters(of: ast.arguments) -> Iterator[str]:
    yield from (one.arg for one in of.args if one.arg != "self")
    if of.vararg or of.kwonlyargs:
        yield f"*{of.vararg.arg if of.vararg else ''}"
    yield from (one.arg for one in of.kwonlyargs)
    if of.kwarg:
        yield f"**{of.kwarg.arg}"


def _type(node: ast.expr | None) -> str:
    """Return an annotation, without the quotes that keep it from being evaluated."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case None:
            return "None"
    return ast.unparse(node)


def main(arguments: Sequence[str] | None = None) -> int:
    assert __doc__
    parser = argparse.ArgumentParser(prog="update_reference", description=__doc__.splitlines()[0])
    parser.parse_args(arguments)
    try:
        replace_file(REFERENCE, up_to_date().encode())
    except (OSError, ValueError, ResultError) as error:
        print(f"update_reference: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
