"""Packages that Python lacks: one line says which, and nothing else hides behind it."""

import ast
import sys

import pytest

import samples
from overlapbench.packages import PackageError, optional, packages

LINE = r"package altair is not installed: pip install 'overlapbench\[charts\]'"


def test_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PackageError, match=f"^{LINE}$"), packages():
        import altair
    with pytest.raises(ValueError, match=f"^{LINE}$"), packages(ValueError):
        import altair  # noqa: F401
    assert optional("altair") is None


def test_what_is_there_is_imported_and_other_errors_are_themselves() -> None:
    assert optional("ast") is ast
    with pytest.raises(ImportError, match="cannot import name 'nothing'") as caught, packages():
        from ast import nothing  # type: ignore[attr-defined]  # noqa: F401
    assert not isinstance(caught.value, PackageError)


def test_nothing_else_looks_for_packages() -> None:
    """Only packages.py may look for packages."""
    others = [
        path.relative_to(samples.TOOLS).as_posix()
        for path in samples.TOOLS.rglob("*.py")
        if any(word in path.read_text() for word in ("ModuleNotFoundError", "find_spec("))
    ]
    assert others == ["overlapbench/packages.py"]
