"""A comparison for people and programs: a table, and files of other formats.

- The table lists the worst rows first, and folds unchanged ones.
- JSON contains every figure; missing ones are null.
- In JUnit XML a benchmark is a test case, which fails if the comparison does.
- GitHub Actions gets an error for each failure, otherwise a notice.
- Markdown is for a pull request or a job's summary, whose size is limited. Unchanged rows, and
  those that are too noisy and do not fail, are counted, and listed only on request.
"""

import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from xml.etree import ElementTree

from overlapbench.judge import wording
from overlapbench.judge.judgements import Judgement, Verdict
from overlapbench.judge.verdicts import Comparison, Row
from overlapbench.output import harmless
from overlapbench.reading.names import family_of
from overlapbench.statistics.estimates import POWERS
from overlapbench.view.console import Entry, Screen, folded, table

SCHEMA = "3"  # of the JSON
_ANNOTATED = frozenset({Verdict.FASTER, Verdict.INCONCLUSIVE})
_SKIPPED = frozenset({Verdict.NEW, Verdict.INCONCLUSIVE})
_COLOURS = {
    Verdict.SLOWER: "bold red",
    Verdict.INVALID: "red",
    Verdict.MISSING: "red",
    Verdict.INCOMPARABLE: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.FASTER: "green",
}
_PLAIN = frozenset({Verdict.SLOWER, Verdict.FASTER})  # the figures say why
_FILE = Screen()


def format_table(comparison: Comparison, screen: Screen = _FILE, every: bool = False) -> str:
    """Return the rows and the summary; `every` also lists unchanged rows."""
    rows = wording.listed(comparison, every)
    entries = [
        Entry(
            row.name,
            [(f.verdict.value, *wording.cells(f)) for f in wording.shown(row, every)],
            _note(row),
            _COLOURS.get(row.verdict, ""),
        )
        for row in rows
    ]
    sentences = wording.summary(comparison)
    if hidden := len(comparison.rows) - len(rows):
        told = f"{hidden} {'row is' if hidden == 1 else 'rows are'} the same (--all lists)"
        sentences.insert(0, told)
    text = table(screen, ("verdict", *wording.HEADS), entries, words=2, title="benchmark")
    return text + "".join(f"{folded(sentence, screen)}\n" for sentence in sentences)


def _note(row: Row) -> str:
    """Return the reason of a row whose figures do not show it."""
    if row.verdict in _PLAIN or not row.reason:
        return ""
    return f"{row.verdict.value}: {row.reason.removeprefix(f'{row.verdict.value}: ')}"


# ---- for programs


def format_json(comparison: Comparison, every: bool = True) -> str:
    document = {
        "overlapbench_comparison_schema": SCHEMA,
        "status": comparison.status,
        "base": [harmless(source) for source in comparison.base.sources],
        "new": [harmless(source) for source in comparison.new.sources],
        "doubts": comparison.doubts,
        "copies": comparison.copies,
        "differences": comparison.differences,
        "counts": {verdict.value: count for verdict, count in comparison.counts.items()},
        "matched": comparison.matched,
        "geometric_mean": comparison.geometric_mean,
        "guarded": len(comparison.guarded),
        "detectable": _by_power(comparison.detectable),
        "rows": [
            {
                "name": row.name,
                "verdict": row.verdict.value,
                "fails": bool(row.fails),
                "reason": row.reason,
                "launches": row.runs,
                "findings": [_judgement(judgement) for judgement in row.judgements],
                "not_judged": {metric: {"base": b, "new": n} for metric, b, n in row.shown},
            }
            for row in comparison.rows
        ],
    }
    return json.dumps(_known(document), indent=2, ensure_ascii=False) + "\n"


def _known(value: object) -> object:
    """Return what JSON can hold: NaN and infinity are null."""
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _judgement(judgement: Judgement) -> dict[str, object]:
    """Write a judgement; changes, floor and limit are relative, in percent in the table."""
    low, high = judgement.interval
    return {
        "metric": judgement.counter.name,
        "unit": judgement.counter.unit,
        "better": judgement.counter.better.value,
        "verdict": judgement.verdict.value,
        "floor_reason": judgement.floor_reason,
        "base": judgement.base,
        "new": judgement.new,
        "change": judgement.relative,
        "low": low,
        "high": high,
        "floor": judgement.floor,
        "detectable": _by_power(judgement.detectable),
        "limit": judgement.limit,
        "error": judgement.error,
        "freedom": judgement.freedom,
    }


def _by_power(changes: Sequence[float]) -> dict[str, float]:
    """Name changes by the probability with which they are found."""
    return {f"{power:.2f}": change for power, change in zip(POWERS, changes, strict=False)}


def format_junit(comparison: Comparison, every: bool = True) -> str:
    suite = ElementTree.Element("testsuite", name="overlapbench")
    for doubt in comparison.doubts:
        case = ElementTree.SubElement(suite, "testcase", name="doubt", classname="launches")
        ElementTree.SubElement(case, "failure", type="doubt", message=doubt)
    for row in comparison.rows:
        family, verdict = family_of(row.name), row.verdict.value
        case = ElementTree.SubElement(suite, "testcase", name=row.name, classname=family)
        if row.fails:
            ElementTree.SubElement(case, "failure", type=verdict, message=row.reason)
        elif row.verdict in _SKIPPED:
            ElementTree.SubElement(case, "skipped", message=f"{verdict}: {row.reason}")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("*/failure"))))
    suite.set("skipped", str(len(suite.findall("*/skipped"))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def format_github(comparison: Comparison, every: bool = False) -> str:
    told = [
        _command(row.fails, row.verdict.value, f"{row.name}: {row.reason}")
        for row in comparison.rows
        if row.fails or row.verdict in _ANNOTATED
    ]
    told.append(_command(comparison.status, "overlapbench", "; ".join(wording.summary(comparison))))
    return "\n".join(told) + "\n"


def _command(fails: int, title: str, message: str) -> str:
    level = "error" if fails else "notice"
    return f"::{level} title={_escaped(title, ':,')}::{_escaped(message)}"


def _escaped(text: str, besides: str = "") -> str:
    """Escape as GitHub's toolkit does: a message ends at a line's end, a title also at , and :."""
    for character in "%\r\n" + besides:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def format_markdown(comparison: Comparison, every: bool = False) -> str:
    """Return a title, sentences and rows; without those that are too noisy and do not fail."""
    title = f"## {_plain(comparison.title)}: {_plain(wording.headline(comparison))}"
    machine = wording.machine_of(comparison.new)
    sentences = [f"on {machine}"] * bool(machine) + wording.summary(comparison)
    told = [title, "", *(f"- {_plain(sentence)}" for sentence in sentences)]
    if not every:
        silent = (Verdict.INCONCLUSIVE, 0)
        kept = tuple(row for row in comparison.rows if (row.verdict, row.fails) != silent)
        comparison = replace(comparison, rows=kept)
    rows = [
        f"| {verdict and f'**{verdict}**'} | {name and f'{_plain(name)}<br>{_plain(reason)}'} |"
        f" {' | '.join(map(_plain, figures))} |"
        for verdict, name, reason, *figures in wording.lines(comparison, every)
    ]
    if rows:
        titles = ("verdict", "benchmark", *wording.HEADS)
        told += ["", f"| {' | '.join(titles)} |", "|---|---|---|--:|--:|--:|--:|--:|", *rows]
    return "\n".join(told) + "\n"


def _plain(text: str) -> str:
    """Escape text: it makes no link, HTML, end of a cell or mention of a person."""
    text = re.sub(r"([\\`*_{}\[\]()#|~!])", r"\\\1", html.escape(text, quote=False))
    text = text.replace("@", "&#64;")  # after the backslashes, which would show the entities
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")


# By name; the argument `every` also lists unchanged rows, in a text.
FORMATS: Mapping[str, Callable[..., str]] = {
    "table": format_table,
    "markdown": format_markdown,
    "json": format_json,
    "junit": format_junit,
    "github": format_github,
}
BY_SUFFIX = {".txt": "table", ".md": "markdown", ".json": "json", ".xml": "junit"}
