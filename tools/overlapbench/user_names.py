"""What users may call what they measure: rows, labels, steps and lanes.

A row's name is how tools compare files, so a word that would break it is refused before anything is
measured, and so is a label that would be taken for a setting.
"""

import difflib
import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[^\s/,=:]+")
# What is set for a call or by configure(), and would be believed to be if it were a label.
_SETTINGS = (
    *("cache", "cadence", "first", "streams", "comp_sms", "comp_priority", "comm_priority"),
    *("gate", "gated", "kind", "budget_ms", "timeout_s", "host_cores", "self_test"),
)
_ALIKE = 0.85  # of 1: a label that is likely to be a setting with a slip


def check_names(name: str, labels: Mapping[str, str | int]) -> None:
    """Refuse a row's name or a label, by ValueError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name is {name!r}: use letters and digits, a letter first")
    for label, value in labels.items():
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"{label!r} is not a label: use lowercase letters, digits and _, as in n=4096"
            )
        if label in _SETTINGS:
            raise ValueError(f"{label} is a setting that this call does not have, and no label")
        if meant := difflib.get_close_matches(label, _SETTINGS, n=1, cutoff=_ALIKE):
            raise ValueError(f"{label} cannot be a label: did you mean the setting {meant[0]}?")
        check_word(label, str(value))


def check_word(what: str, word: str) -> None:
    """Refuse a word that cannot stand in a name, by ValueError; `what` says whose it is."""
    if not isinstance(word, str) or not word.isprintable() or not _VALUE.fullmatch(word):
        raise ValueError(f"{what} is {word!r}: use printable characters but spaces and / , = :")
