"""The verdict on traces of a step, and what they show: exposed communication, and its causes.

The share of one window is counted, not estimated. Of several windows, a share has a margin, and
must be above what matters with all of it.
"""

from collections.abc import Sequence

from overlapbench.findings.finding import LEAST, Finding, Saving, largest
from overlapbench.statistics.intervals import proportion
from overlapbench.traces.breakdown import MIXES, Breakdown, worst_of
from overlapbench.traces.model import Class

_EXPOSED = [mix for mix in MIXES if Class.COMM in mix and Class.COMP not in mix]


def verdict(ranks: Sequence[Breakdown]) -> str:
    """State how much communication is exposed; "" without communication.

    A step ends when the slowest rank ends. So hiding all communication leaves the largest rest.
    """
    if not any(Class.COMM in mix and one.parts_ns[mix] for one in ranks for mix in MIXES):
        return ""
    most = max(ranks, key=_exposed)
    margin = most.margin_pct(_EXPOSED)
    told = f"{100 * _exposed(most):.1f} {'' if margin is None else f'±{margin:.1f} '}% of T"
    whose = f" on rank {most.rank}" if len(ranks) > 1 else ""
    longest = max(one.total_ns for one in ranks)
    rest = max(one.total_ns * (1 - _exposed(one)) for one in ranks)
    saved = (longest - rest) / 1e6
    return (
        f"Verdict: communication is exposed for {told}{whose}."
        f" Hiding all of it saves at most {100 * (1 - rest / longest):.1f} % ({saved:.3f} ms)."
    )


def find(ranks: Sequence[Breakdown]) -> list[Finding]:
    """Return what traces show, the largest shares first."""
    worst = worst_of(ranks)
    return largest([*_latest(ranks), *_patterns(worst)])


def _exposed(one: Breakdown) -> float:
    return sum(one.parts_ns[mix] for mix in _EXPOSED) / one.total_ns


def _latest(ranks: Sequence[Breakdown]) -> list[Finding]:
    """Find the rank that the others wait for: it is the last more often than chance."""
    known = {one.rank: one.waiting for one in ranks if one.waiting}
    if len(known) < 2:
        return []
    rank, one = max(known.items(), key=lambda entry: entry[1].awaited_ns)
    waited = sum(other.awaited_ns for other in known.values())
    if not one.collectives or not one.last:
        return []
    low, high = proportion(one.last, one.collectives)
    share = max(
        other.waiting.waiting_ns / other.total_ns
        for other in ranks
        if other.waiting and other.rank != rank
    )
    if low <= 1 / len(known) or share < LEAST:
        return []
    sentence = (
        f"Rank {rank} is the last in {one.last} of {one.collectives} collectives"
        f" ({100 * low:.0f} to {100 * high:.0f} %): the others wait for it for"
        f" {one.awaited_ns / 1e6:.3f} of {waited / 1e6:.3f} ms in all"
    )
    reason = f"waiting in collectives is up to {100 * share:.1f} % of T on another rank"
    action = f"See what rank {rank} does before: its idle time, its load, its clocks."
    saving = Saving(share, share, share, at_most=True)
    return [Finding("last rank", sentence, reason, action, saving, f"rank {rank}")]


def _patterns(one: Breakdown) -> list[Finding]:
    found = []
    for pattern in one.patterns:
        share = pattern.ns / one.total_ns
        saving = Saving(share, share, share, at_most=True)
        sentence = f"{pattern.name}: {pattern.pct:.1f} % of T"
        found.append(Finding(pattern.name, sentence, f"rank {one.rank}", pattern.advice, saving))
    return found
