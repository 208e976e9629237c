"""The defaults that a project sets in its pyproject.toml."""

from pathlib import Path

import pytest

from overlapbench.reading.project import read_defaults


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("budget = 3", "budget: unknown; did you mean budget_ms?"),
        ("budget_ms = 2.5", "budget_ms: is 2.5, must be a whole number"),
        ("budget_ms = true", "budget_ms: is true, must be a whole number"),
        ('when_noisy = "warn"', "when_noisy: is .warn., must be 'skip' or 'fail'"),
        ("=", "cannot be read: "),
    ],
)
def test_bad_defaults_are_refused(tmp_path: Path, line: str, fault: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.overlapbench]\n{line}\n")
    (tmp_path / "inner").mkdir()
    with pytest.raises(ValueError, match=f"pyproject.toml: (tool.overlapbench.)?{fault}"):
        read_defaults(tmp_path / "inner")
