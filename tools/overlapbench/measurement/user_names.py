"""Names that users may give to rows, labels, steps and lanes.

Tools match rows of different files by name. So a word that would break a name is refused before
anything is measured, and so is a label that looks like a setting.
"""

import difflib
import re
from collections.abc import Mapping

from overlapbench.measurement.settings import AXES, OF_PROCESS, OF_ROWS

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[^\s/,=:]+")
# Settings of a call or of configure(). As labels, they would be mistaken for settings.
_SETTINGS = ("gated", "kind", *AXES, *OF_ROWS, *OF_PROCESS)
_ALIKE = 0.85  # of 1: a label this similar is probably a misspelt setting


def check_names(name: str, labels: Mapping[str, str | int]) -> None:
    """Raise ValueError for an invalid row name or label."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name is {name!r}: use letters and digits, starting with a letter")
    for label, value in labels.items():
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"{label!r} is not a label: use lowercase letters, digits and _, as in n=4096"
            )
        if label in _SETTINGS:
            raise ValueError(
                f"{label} is a setting that this call does not have; it cannot be a label"
            )
        if meant := difflib.get_close_matches(label, _SETTINGS, n=1, cutoff=_ALIKE):
            raise ValueError(f"{label} cannot be a label: did you mean the setting {meant[0]}?")
        check_word(label, str(value))


def check_word(what: str, word: str) -> None:
    """Raise ValueError for a word that a name cannot contain; `what` describes the word."""
    if not isinstance(word, str) or not word.isprintable() or not _VALUE.fullmatch(word):
        raise ValueError(f"{what} is {word!r}: use printable characters except spaces and / , = :")
