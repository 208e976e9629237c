"""Replay: follows a schedule through time, from event to event.

A step starts when the step before it on its lane, the one before it on its engine and those that it
waits for have ended, and when the host has enqueued it. Two rules go beyond that:

- A communication that needs SMs and becomes ready while a kernel holds all of them starts when that
  kernel ends. A step may be several kernels. Copies pass.
- Between two events, step i beside step j advances at the rate 1 / slowdown[i][j].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from overlapbench.prediction.schedules import Run

_TINY_MS = 1e-9


@dataclass(frozen=True)
class Rules:
    """How steps meet. The first two are for a work that is beside another."""

    slowdown: Sequence[Sequence[float]]  # how many times as long it takes
    waits: Sequence[Sequence[int]]  # of how many kernels the other is, for which it waits; 0: none
    latency_ms: Sequence[float] = ()  # of a work's start, part of its time alone: others pass it
    handover_ms: float = 0  # from the end of a step to the start of one on another lane
    enqueue_ms: float = 0  # by the host, of a step that no gate holds back


@dataclass
class Replayed:
    total_ms: float
    end_ms: list[float]  # of each step
    beside_ms: list[float]  # of each step, with anything else


def replay(
    run: Run, alone_ms: Sequence[float], rules: Rules, starts_ms: Sequence[float] = ()
) -> Replayed:
    """Return when each step ends.

    alone_ms   each step's time alone
    starts_ms  when each lane may start; at once if there are none
    """
    steps, count = run.steps, len(run.steps)
    before = _predecessors(run)
    followers: list[list[int]] = [[] for _ in steps]
    for step, earlier in enumerate(before):
        for one in earlier:
            followers[one].append(step)
    waiting = [len(earlier) for earlier in before]
    latency_ms = [rules.latency_ms[step.work] if rules.latency_ms else 0.0 for step in steps]
    ready_ms = [starts_ms[step.lane] if starts_ms else 0.0 for step in steps]
    left_ms = [max(0.0, ms - late) for ms, late in zip(alone_ms, latency_ms, strict=True)]
    done = Replayed(0.0, [math.inf] * count, [0.0] * count)
    free = {step for step in range(count) if not waiting[step]}
    running: list[int] = []
    blocked: dict[int, tuple[int, float]] = {}  # by which step, until so much of it is left
    now, enqueued, host_ms = 0.0, 0, 0.0
    while True:
        while enqueued < count:
            awaited = [done.end_ms[earlier] for earlier in steps[enqueued].host_after]
            if max(awaited, default=0.0) > now:
                break
            host_ms = max(host_ms, *awaited, 0.0) + rules.enqueue_ms
            ready_ms[enqueued] = max(ready_ms[enqueued], host_ms)
            enqueued += 1
        upcoming = math.inf
        # At the start, the few blocks of a communication are placed first.
        turns = [(ready_ms[s], -latency_ms[s], s) for s in free if s < enqueued]
        for at_ms, _, step in sorted(turns):
            if at_ms > now:
                upcoming = at_ms
                break
            free.remove(step)
            holder = _holder(run, running, step, rules)
            if holder is None:
                running.append(step)
            else:
                kernel_ms = (
                    max(alone_ms[holder], _TINY_MS)
                    / rules.waits[steps[step].work][steps[holder].work]
                )
                later = math.floor((left_ms[holder] - _TINY_MS) / kernel_ms)
                blocked[step] = holder, later * kernel_ms
        if not running:
            if upcoming == math.inf:
                done.total_ms = now
                return done
            now = upcoming
            continue
        rates = [_rate(run, running, step, rules) for step in running]
        passed = min(left_ms[step] / rate for step, rate in zip(running, rates, strict=True))
        passed = min(passed, upcoming - now)
        for holder, until_ms in blocked.values():
            passed = min(passed, (left_ms[holder] - until_ms) / rates[running.index(holder)])
        now += passed
        for step, rate in zip(running, rates, strict=True):
            left_ms[step] -= passed * rate
            done.beside_ms[step] += passed * (len(running) > 1)
        ended = [step for step in running if left_ms[step] <= _TINY_MS]
        running = [step for step in running if step not in ended]
        for step in ended:
            done.end_ms[step] = now
            for follower in followers[step]:
                waiting[follower] -= 1
                handover = rules.handover_ms * (steps[follower].lane != steps[step].lane)
                ready_ms[follower] = max(
                    ready_ms[follower], now + max(handover, latency_ms[follower])
                )
                if not waiting[follower]:
                    free.add(follower)
        # What waited for a kernel is in front of what follows it.
        passes = [
            s for s, (one, until_ms) in blocked.items() if left_ms[one] <= until_ms + _TINY_MS
        ]
        running += passes
        for step in passes:
            del blocked[step]


def _predecessors(run: Run) -> list[set[int]]:
    last: dict[tuple[int | None, str], int] = {}
    before = []
    for place, step in enumerate(run.steps):
        lane = f"lane {step.lane}"
        keys = {(run.owners[step.lane], key) for key in (lane, step.engine or lane)}
        before.append({*step.after, *step.host_after, *(last[key] for key in keys if key in last)})
        last.update(dict.fromkeys(keys, place))
    return before


def _meet(run: Run, one: int, other: int) -> bool:
    """Tell whether two steps run on one rank."""
    owners = run.owners[run.steps[one].lane], run.owners[run.steps[other].lane]
    return one != other and (None in owners or owners[0] == owners[1])


def _holder(run: Run, running: Sequence[int], step: int, rules: Rules) -> int | None:
    """Return the running kernel that leaves a communication no SM."""
    waits = rules.waits[run.steps[step].work]
    holders = (i for i in running if waits[run.steps[i].work] and _meet(run, i, step))
    return next(holders, None)


def _rate(run: Run, running: Sequence[int], step: int, rules: Rules) -> float:
    slowdown = rules.slowdown[run.steps[step].work]
    others = (slowdown[run.steps[i].work] for i in running if _meet(run, i, step))
    return 1 / math.prod(others)
