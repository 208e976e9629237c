"""The tuner's results (overlapbench tune --output), read for the page. Files are untrusted."""

from collections.abc import Sequence
from dataclasses import dataclass

from overlapbench.output import ResultError, harmless
from overlapbench.reading.source import Document, Fields, load
from overlapbench.tune.report import SCHEMA


@dataclass(frozen=True)
class Tuned:
    """One row that was tuned, as text."""

    name: str
    times_ms: Sequence[str]  # of default and best, if both were confirmed
    verdict: str
    command: str  # "" if nothing beats the default
    notes: Sequence[str]


def read_tuned(paths: Sequence[str]) -> list[Tuned]:
    """Read files of the tuner; ResultError names an unusable field."""
    return [tuned for path in paths for tuned in _read(path)]


def _read(path: str) -> list[Tuned]:
    document = Document.parse(path, load(path), "pairs")
    if document.values.get("tune_schema") != SCHEMA:
        raise ResultError(f"{path}: tune_schema: not {SCHEMA!r}: not a result of overlapbench tune")
    return [*map(_tuned, document.rows)]


def _tuned(fields: Fields) -> Tuned:
    times: Sequence[str] = ("", "")
    if "gain" in fields.values:
        gain = fields.inner("gain")
        times = [f"{gain.number(key):.4g}" for key in ("default_ms", "best_ms")]
    command, notes = "", []
    if fields.values.get("beats_default") is True:
        best = fields.inner("best")
        command = best.line("command")
        settings = (*_entries(best.inner("variables")), *_entries(best.inner("ncclConfig_t")))
        notes = [*settings, *_notes(best)]
    return Tuned(fields.printable("name"), times, fields.line("verdict"), command, notes)


def _entries(fields: Fields) -> list[str]:
    return [f"{harmless(key)} = {fields.line(key)}" for key in fields.values]


def _notes(best: Fields) -> list[str]:
    notes = best.values.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise best.error("notes", "not a list of texts")
    return [harmless(note) for note in notes]
