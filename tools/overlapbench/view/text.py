"""Text on lines that it fits, wherever it comes from."""

import re
import textwrap

from overlapbench.reading.source import harmless
from overlapbench.view.console import Screen


class Wrapper(textwrap.TextWrapper):
    """Breaks text at spaces, and names after a slash."""

    wordsep_re = re.compile(r"(\s+|(?<=/))")


def paragraph(text: str, screen: Screen, indent: str = "") -> str:
    """Break text that may contain names from files."""
    wrapper = Wrapper(screen.width, initial_indent=indent, subsequent_indent=indent)
    return wrapper.fill(harmless(text))


def shortened(text: str, letters: int) -> str:
    """Cut text that is too long."""
    return text if len(text) <= letters else text[: letters - 1] + "…"
