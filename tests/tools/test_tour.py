"""The tour of the code quotes the real code, and stays short enough to be read."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOUR = (ROOT / "docs/internals/tour.md").read_text(encoding="utf-8")
LEFT_OUT = "…"
MOST_WORDS = 2000  # ten minutes at 200 words a minute, code included


def quotes() -> Iterator[tuple[str, str]]:
    """Yield the file that each example names before it, and the example's code."""
    file = ""
    for text, code in re.findall(r"(.*?)^```cpp\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL):
        file = (re.findall(r"`(\w+/[\w/]+\.(?:cc|h|cu))`", text) or [file])[-1]
        yield file, code


def stripped(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def missing(code: str, source: str) -> list[str]:
    """Return the first piece of the code whose lines do not follow each other in the source."""
    lines, at = stripped(source), 0
    for piece in code.split(f"{LEFT_OUT}\n"):
        quoted = stripped(piece)
        places = range(at, len(lines) - len(quoted) + 1)
        found = [place for place in places if lines[place : place + len(quoted)] == quoted]
        if not found:
            return quoted
        at = found[0] + len(quoted)
    return []


def test_the_quoted_code_is_the_real_code() -> None:
    found = list(quotes())
    assert len(found) >= 15
    for file, code in found:
        assert missing(code, (ROOT / file).read_text(encoding="utf-8")) == [], file


def test_changed_code_is_noticed() -> None:
    source = "void F() {\n  a();\n  b();\n  c();\n}\n"
    assert missing("a();\nb();\n", source) == []
    assert missing("a();\n…\nc();\n", source) == []
    assert missing("c();\n…\na();\n", source) == ["a();"]
    assert missing("a();\nc();\n", source) == ["a();", "c();"]
    assert missing("a()\n", source) == ["a()"]


def test_the_tour_takes_ten_minutes() -> None:
    assert len(TOUR.split()) <= MOST_WORDS
