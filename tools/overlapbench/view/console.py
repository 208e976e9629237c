"""Tables for people: as wide as the terminal, or 80 columns and without colours anywhere else.

Each entry of a table has a title, such as a benchmark's name. If all rows fit beside their titles,
the titles are the first column. Otherwise a title has its own lines, broken after a /, never cut.
"""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.padding import Padding
from rich.table import Table

from overlapbench.output import Wrapper, harmless

_INDENT = "  "


@dataclass(frozen=True)
class Screen:
    """Where text is shown; by default a file or a pipe."""

    width: int = 80
    colours: bool = False


@dataclass(frozen=True)
class Entry:
    """The rows of a title, and a remark below them."""

    title: str
    rows: Sequence[Sequence[str]] = ()
    note: str = ""
    style: str = ""


def table(
    screen: Screen, heads: Sequence[str], entries: Sequence[Entry], words: int = 1, title: str = ""
) -> str:
    """Write entries under the heads of their columns, the first `words` of which hold words.

    `title` heads the column of titles.
    """
    rows = [heads, *(row for entry in entries for row in entry.rows)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    titles = max((cell_len(entry.title) for entry in entries), default=0)
    indent, gap = len(_INDENT), 2
    if entries and titles + sum(widths) + gap * len(widths) <= screen.width:
        entries = [_beside(entry, len(heads)) for entry in entries]
        heads, words, indent = (title, *heads), words + 1, 0
        widths.insert(0, max(titles, cell_len(title)))
    room = screen.width - indent
    if sum(widths) + gap * (len(widths) - 1) > room:
        gap = 1
    if indent and sum(widths) + gap * (len(widths) - 1) > room:
        indent, room = 1, screen.width - 1
    while sum(widths) + gap * (len(widths) - 1) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    file = io.StringIO()
    console = Console(  # text is never markup
        file=file,
        width=screen.width,
        force_terminal=screen.colours,
        force_jupyter=False,
        markup=False,
        emoji=False,
        highlight=False,
    )

    def show(rows: Sequence[Sequence[str]], style: str = "") -> None:
        grid = Table(box=None, show_header=False, padding=(0, gap, 0, 0), pad_edge=False)
        for place, width in enumerate(widths):
            justify: JustifyMethod = "left" if place < words else "right"
            grid.add_column(width=width, justify=justify, overflow="fold")
        for row in rows:
            grid.add_row(*row)
        console.print(Padding(grid, (0, 0, 0, indent)), style=style)

    if any(entry.rows for entry in entries):
        show([heads], "bold")
    for entry in entries:
        if indent:
            console.print("\n".join(broken(entry.title, screen.width)), style=entry.style)
        if entry.rows:
            show(entry.rows, entry.style)
        if entry.note:
            note = folded(entry.note, screen, _INDENT)
            console.print(note, style=entry.style, soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _beside(entry: Entry, cells: int) -> Entry:
    """Return an entry whose title is the first cell of its first row."""
    rows = entry.rows or [("",) * cells]
    titles = (entry.title, *[""] * (len(rows) - 1))
    told = [(title, *row) for title, row in zip(titles, rows, strict=True)]
    return Entry("", told, entry.note, entry.style)


def folded(sentence: str, screen: Screen, indent: str = "") -> str:
    """Break a sentence at its spaces, but not within paths."""
    return textwrap.fill(
        sentence,
        screen.width,
        initial_indent=indent,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def broken(name: str, width: int) -> list[str]:
    """Break a name into lines, after a / or a space if there is one."""
    indent = _INDENT * 2 if width > len(_INDENT * 2) else ""
    return Wrapper(width, subsequent_indent=indent).wrap(name) or [""]


def paragraph(text: str, screen: Screen, indent: str = "") -> str:
    """Break text that may contain names from files."""
    wrapper = Wrapper(screen.width, initial_indent=indent, subsequent_indent=indent)
    return wrapper.fill(harmless(text))


def shortened(text: str, letters: int) -> str:
    """Cut text that is too long."""
    return text if len(text) <= letters else text[: letters - 1] + "…"
