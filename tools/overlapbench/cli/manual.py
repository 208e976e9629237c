"""Manuals: the docstrings of commands, with lines that fit a terminal.

Unindented text is prose, or a list item after a dash. An indented line with a gap is a row of a
table; any other indented line is a command.
"""

import re
import textwrap

_WIDEST = 100  # wider text is hard to read
_ROW = re.compile(r"( +\S+(?: \S+)*? {2,})\S")
# A word with its quoted parts, or a flag with the following word, which may be its value.
_WORD = re.compile(r"""(?:-- |-[\w-]+ (?!-))?(?:'[^']*'|"[^"]*"|\S)+""")


def fitted(manual: str, columns: int) -> str:
    """Break the lines of a manual; commands that are too long are broken with backslashes."""
    lines: list[str] = []
    hanging: int | None = None  # indent of lines that continue the last one
    for line in manual.splitlines():
        goes_on = bool(lines and lines[-1]) and _indent(line) == hanging
        if line and goes_on and not line.startswith("- "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
            hanging = _hanging(line)
    return "\n".join(_broken(line, min(columns, _WIDEST)) for line in lines)


def _hanging(line: str) -> int | None:
    """Return the indent of continuation lines; None for a command, which has none."""
    if not line.startswith(" "):
        return 2 if line.startswith("- ") else 0
    row = _ROW.match(line)
    return row.end(1) if row else None


def _broken(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    hanging = _hanging(line)
    if hanging is None:
        return _broken_command(line, columns)
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _broken_command(command: str, columns: int) -> str:
    first, *words = _WORD.findall(command)
    indent = " " * _indent(command)
    lines = [indent + first]
    for word in words:
        longer = f"{lines[-1]} {word}"
        if len(f"{longer} \\") <= columns:
            lines[-1] = longer
        else:
            lines.append(f"{indent}    {word}")
    return " \\\n".join(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
