"""Replay: follows a schedule through time, from event to event.

A step starts when the step before it on its lane, the one before it on its engine and those that it
waits for have ended, and when the host has enqueued it. Two rules go beyond that:

- A communication that needs SMs and becomes ready while a kernel holds all of them starts when that
  kernel ends. A step may be several kernels. Copies pass.
- Between two events, step i beside step j advances at the rate 1 / slowdown[i][j]. Of three, each
  disturbs the others as much less as the third slows it down itself: two collectives that share a
  link take from a computation hardly more than one of them.
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
    begin_ms: list[float]  # of each step
    end_ms: list[float]
    beside_ms: list[float]  # of each step, with anything else


def replay(
    run: Run, alone_ms: Sequence[float], rules: Rules, starts_ms: Sequence[float] = ()
) -> Replayed:
    """Return when each step ends.

    alone_ms   each step's time alone
    starts_ms  when each lane may start; at once if there are none
    """
    return _Replay(run, alone_ms, rules, starts_ms).follow()


class _Replay:
    """What is known of each step at the time `now_ms`."""

    def __init__(
        self, run: Run, alone_ms: Sequence[float], rules: Rules, starts_ms: Sequence[float]
    ) -> None:
        self.run, self.alone_ms, self.rules = run, alone_ms, rules
        before = _predecessors(run)
        self.followers: list[list[int]] = [[] for _ in run.steps]
        for step, earlier in enumerate(before):
            for one in earlier:
                self.followers[one].append(step)
        self.waiting = [len(earlier) for earlier in before]
        self.latency_ms = [
            rules.latency_ms[step.work] if rules.latency_ms and step.delay_ms is None else 0.0
            for step in run.steps
        ]
        self.ready_ms = [starts_ms[step.lane] if starts_ms else 0.0 for step in run.steps]
        for place, begun in enumerate(run.steps):
            self.ready_ms[place] += begun.recorded.enqueued_ms if begun.recorded else 0.0
        self.left_ms = [
            max(0.0, ms - late) for ms, late in zip(alone_ms, self.latency_ms, strict=True)
        ]
        count = len(run.steps)
        self.done = Replayed(0.0, [math.inf] * count, [math.inf] * count, [0.0] * count)
        self.free = {step for step in range(count) if not self.waiting[step]}
        self.running: list[int] = []
        self.blocked: dict[int, tuple[int, float]] = {}  # by a step, until so much of it is left
        self.now_ms, self.enqueued, self.host_ms = 0.0, 0, 0.0

    def follow(self) -> Replayed:
        while True:
            self.enqueue()
            upcoming_ms = self.start_what_is_ready()
            if self.running:
                self.advance(upcoming_ms)
                self.end_what_is_done()
            elif upcoming_ms < math.inf:
                self.now_ms = upcoming_ms
            else:
                self.done.total_ms = self.now_ms
                return self.done

    def enqueue(self) -> None:
        """Let the host enqueue steps, up to one before which it waits."""
        for step in self.run.steps[self.enqueued :]:
            awaited_ms = [self.done.end_ms[earlier] for earlier in step.host_after]
            if max(awaited_ms, default=0.0) > self.now_ms:
                return
            self.host_ms = max([self.host_ms, *awaited_ms]) + self.rules.enqueue_ms
            self.ready_ms[self.enqueued] = max(self.ready_ms[self.enqueued], self.host_ms)
            self.enqueued += 1

    def start_what_is_ready(self) -> float:
        """Return when the next step will be ready; infinite if none will by itself."""
        # At the start, the few blocks of a communication are placed first.
        turns = [(self.ready_ms[s], -self.latency_ms[s], s) for s in self.free if s < self.enqueued]
        for at_ms, _, step in sorted(turns):
            if at_ms > self.now_ms:
                return at_ms
            self.free.remove(step)
            holder = _holder(self.run, self.running, step, self.rules)
            if holder is None:
                self.begin(step)
            else:
                self.blocked[step] = holder, self.left_after_this_kernel_ms(step, holder)
        return math.inf

    def left_after_this_kernel_ms(self, step: int, holder: int) -> float:
        """Return how much is left of the holder when its present kernel ends."""
        steps = self.run.steps
        kernels = self.rules.waits[steps[step].work][steps[holder].work]
        kernel_ms = max(self.alone_ms[holder], _TINY_MS) / kernels
        return math.floor((self.left_ms[holder] - _TINY_MS) / kernel_ms) * kernel_ms

    def advance(self, upcoming_ms: float) -> None:
        """Go on to the next event."""
        rates = [rate_of(self.run, self.running, step, self.rules) for step in self.running]
        pairs = list(zip(self.running, rates, strict=True))
        passed_ms = min(self.left_ms[step] / rate for step, rate in pairs)
        passed_ms = min(passed_ms, upcoming_ms - self.now_ms)
        for holder, until_ms in self.blocked.values():
            rate = rates[self.running.index(holder)]
            passed_ms = min(passed_ms, (self.left_ms[holder] - until_ms) / rate)
        self.now_ms += passed_ms
        for step, rate in pairs:
            self.left_ms[step] -= passed_ms * rate
            self.done.beside_ms[step] += passed_ms * (len(self.running) > 1)

    def end_what_is_done(self) -> None:
        ended = [step for step in self.running if self.left_ms[step] <= _TINY_MS]
        self.running = [step for step in self.running if step not in ended]
        for step in ended:
            self.done.end_ms[step] = self.now_ms
            for follower in self.followers[step]:
                self.release(follower, step)
        # What waited for a kernel is in front of what follows it.
        passes = [
            step
            for step, (holder, until_ms) in self.blocked.items()
            if self.left_ms[holder] <= until_ms + _TINY_MS
        ]
        for step in passes:
            self.begin(step)
            del self.blocked[step]

    def begin(self, step: int) -> None:
        self.running.append(step)
        self.done.begin_ms[step] = self.now_ms

    def release(self, follower: int, step: int) -> None:
        """Note that a step waits no longer for the one that ended."""
        steps = self.run.steps
        self.waiting[follower] -= 1
        crosses, recorded = steps[follower].lane != steps[step].lane, steps[follower].recorded
        if recorded and recorded.delay_ms is not None:
            delay_ms = recorded.delay_ms * (crosses is recorded.crosses)
        else:
            delay_ms = max(self.rules.handover_ms * crosses, self.latency_ms[follower])
        self.ready_ms[follower] = max(self.ready_ms[follower], self.now_ms + delay_ms)
        if not self.waiting[follower]:
            self.free.add(follower)


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
    if run.steps[step].delay_ms is not None:  # its wait is part of it
        return None
    waits = rules.waits[run.steps[step].work]
    holders = (i for i in running if waits[run.steps[i].work] and _meet(run, i, step))
    return next(holders, None)


def rate_of(run: Run, running: Sequence[int], step: int, rules: Rules) -> float:
    """Return how fast a step advances beside the others that are running."""
    slowdown = rules.slowdown
    own = slowdown[run.steps[step].work]
    others = [run.steps[i].work for i in running if _meet(run, i, step)]
    rate = 1.0
    for place, one in enumerate(others):
        third = others[:place] + others[place + 1 :]
        speed = 1 / math.prod(max(1.0, slowdown[one][other]) for other in third)
        rate /= 1 + (own[one] - 1) * speed
    return rate
