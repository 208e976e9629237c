"""What the doctor found, as tables for people and as a picture."""

from collections.abc import Sequence

from overlapbench.doctor.checks import BAD, NO_MODEL, Outcome
from overlapbench.doctor.nodes import Difference
from overlapbench.doctor.recordings import Recording
from overlapbench.doctor.rules import Verdict
from overlapbench.findings.finding import LEAST
from overlapbench.grouping import grouped
from overlapbench.output import counted, listed
from overlapbench.view import theme
from overlapbench.view.console import Entry, Screen, folded, table
from overlapbench.view.row_chart import draw_bars
from overlapbench.view.vega import Record, Spec

_NOISY = "too noisy, such as"
_STYLES = {Verdict.SUSPICIOUS: "yellow", Verdict.BAD: "red"}
_COLOURS = {Verdict.SUSPICIOUS: theme.ORANGE, Verdict.BAD: theme.VERMILION}


def text_of_outcomes(
    outcomes: Sequence[Outcome],
    machine: Recording,
    references: Sequence[Recording],
    screen: Screen,
) -> str:
    """Write a table of what was judged, then what was not, and what to do."""
    judged = [one for one in outcomes if one.verdict is not Verdict.UNKNOWN]
    entries = [
        Entry(one.name, [(one.measured, one.expected, str(one.verdict))], "", _style(one.verdict))
        for one in judged
    ]
    text = [f"{machine.machine}, {_driver(machine)}\n"]
    text.append(table(screen, ("measured", "expected", ""), entries, words=3, title="check"))
    missing = [one for one in outcomes if one.verdict is Verdict.UNKNOWN]
    for reason, of in grouped(missing, _why_missing).items():
        names = ", ".join(f"{one.name} {one.measured}" if one.action else one.name for one in of)
        example = f" {of[0].reason.partition(': ')[2]}" if reason == _NOISY else ""
        text.append(folded(f"not available: {names}: {reason}{example}", screen) + "\n")
    # What was set, before what comes of it.
    alarms = sorted(
        (one for one in judged if one.verdict.alarms),
        key=lambda one: (-one.verdict, bool(one.row)),
    )
    text += ["\n"] * bool(alarms)
    for (verdict, why, action), of in grouped(alarms, _what_to_do).items():
        names = ", ".join(one.name for one in of)
        text.append(folded(f"{verdict}: {names}: {why}{action}", screen) + "\n")
        text += [folded(way, screen, "  ") + "\n" for way in of[0].ways]
    sources = list(dict.fromkeys(file for one in judged for file in one.sources))
    if sources:
        text.append(folded(f"Expected values: {listed(sources, 12)}.", screen) + "\n")
    elif not any(one.model == machine.model for one in references):
        text.append(folded(f"Expected values: {NO_MODEL} ({machine.machine}).", screen) + "\n")
    worst = max((one.verdict for one in alarms), default=Verdict.GOOD)
    text.append(f"{counted(len(judged), 'check')} judged: {worst}\n")
    if not any(one.row for one in judged):
        text.append("no figure could be judged\n")
    return "".join(text)


def specification(outcomes: Sequence[Outcome], machine: Recording) -> Spec:
    """Draw each figure that was compared with recorded ones, as a share of the expected rate."""
    records = [_record(one, *one.loss) for one in outcomes if one.loss]
    notes = (
        f"{_driver(machine)}. 100 % is as recorded, and the interval as far as healthy machines"
        " differ. A figure with all of it left of the first line is bad, of the second suspicious."
    )
    levels = (100 * (1 - loss) for loss in (BAD, LEAST))
    return draw_bars(records, "pct", "rate (% of the expected)", machine.machine, notes, *levels)


def _record(one: Outcome, loss: float, least: float, most: float) -> Record:
    rates = zip(("pct", "pct_low", "pct_high"), (loss, most, least), strict=True)
    shown = {
        "what": one.name,
        "name": one.row,
        "problem": one.reason,
        "text": f"{one.measured}, {one.verdict}",
        "colour": _COLOURS.get(one.verdict, theme.GREEN),
        "reach": 100 * (1 - least),
        "trusted": True,
    }
    return shown | {field: 100 * (1 - share) for field, share in rates}


def text_of_differences(
    found: Sequence[Difference], nodes: Sequence[Recording], screen: Screen
) -> str:
    """Write a table of the differences, each node's together."""
    text = [f"{counted(len(nodes), 'node')} of {nodes[0].machine}\n"]
    if not found:
        return "".join([*text, "no node differs\n"])
    entries = []
    for names, of in grouped(found, lambda one: one.nodes).items():
        rows = [(one.check, one.sentence, str(one.verdict)) for one in of]
        style = _style(max(one.verdict for one in of))
        entries.append(Entry(" and ".join(names) or "several nodes", rows, "", style))
    text.append(table(screen, ("check", "difference", ""), entries, words=3, title="node"))
    for action in dict.fromkeys(one.action for one in found if one.action):
        text.append(folded(action, screen) + "\n")
    return "".join(text)


def _what_to_do(one: Outcome) -> tuple[Verdict, str, str]:
    return one.verdict, f"{one.reason}. " if one.reason else "", one.action


def _driver(machine: Recording) -> str:
    version = machine.context["driver_version"]
    return f"driver {version}" if version else f"{machine.model[0]} backend"


def _why_missing(one: Outcome) -> str:
    return _NOISY if one.reason.startswith("noisy: ") else one.reason or one.action


def _style(verdict: Verdict) -> str:
    return _STYLES.get(verdict, "")
