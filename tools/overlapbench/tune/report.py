"""The outcome of a search, as text and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from overlapbench.tune.advice import Advice, advise, command_of
from overlapbench.tune.replay import SCHEMA, Replayed, measurement, record
from overlapbench.tune.space import Grid, Point
from overlapbench.tune.study import Study

_CONTEXT = (
    *("date", "backend", "device", "device_multiprocessors", "ranks", "driver_version"),
    *("nccl_version", "mpi_version", "git_revision"),
)
_WIDTH = 11
_GOOD = 0.02  # the promise: how much longer than the best of all a choice may take


def text_of(studies: Sequence[Study]) -> str:
    return "\n".join("\n".join(_lines(study)) + "\n" for study in studies)


def json_of(studies: Sequence[Study], interrupted: bool) -> bytes:
    document = {
        "tune_schema": SCHEMA,
        "context": _context(studies[0].context) if studies else {},
        "interrupted": interrupted,
        "pairs": [_pair(study) for study in studies],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def text_of_replays(replays: Sequence[Replayed]) -> str:
    """Say what the search found on each recorded grid and, for several, how often it was good."""
    texts = [_text_of_replay(replayed) for replayed in replays]
    if len(replays) > 1:
        good = sum(replayed.gap <= _GOOD for replayed in replays)
        most = max(replayed.evaluations / len(replayed.recorded.grid) for replayed in replays)
        summary = (
            f"{good} of {len(replays)} choices take at most {100 * _GOOD:.0f} % longer than"
            " the best of all.\n"
            f"The most evaluations were {_percent(most)} % of a grid.\n"
        )
        then = [r.recorded.gap_then for r in replays if r.recorded.gap_then is not None]
        if then:
            good_then = sum(gap <= _GOOD for gap in then)
            summary += f"When the grids were measured, {good_then} of {len(then)} did.\n"
        texts.append(summary)
    return "\n".join(texts)


def _text_of_replay(replayed: Replayed) -> str:
    recorded, grid = replayed.recorded, replayed.recorded.grid
    lines = [recorded.name]
    if replayed.choice is None:
        gap = "no setting that the search tried was measured"
    elif replayed.gap == 0:
        gap = "the choice is the best of all"
    else:
        gap = f"the choice takes {_percent(replayed.gap)} % longer than the best of all"
    default = grid.default if grid.default in recorded.known else None
    points = (("default", default), ("choice", replayed.choice), ("best", replayed.best))
    for title, point in points:
        if point is not None:
            one = recorded.known[point]
            interval = f"({one.low:.4g} to {one.high:.4g})"
            lines.append(_entry(title, f"{one.ms:.4g} ms {interval}  {_of(grid, point)}"))
    lines += [_entry("replay", gap), _entry("search", _effort(replayed.evaluations, grid))]
    return "\n".join(lines) + "\n"


def _entry(title: str, what: str) -> str:
    return f"  {title:<{_WIDTH}}{what}"


def verdict_of(study: Study) -> str:
    """State the outcome in one line."""
    tried = f"{len(study.race.tried)} of {len(study.grid)} settings were tried"
    if study.problem:
        return f"{study.problem}; {tried}"
    if study.choice is None:
        return f"not finished; {tried}"
    gain = study.gain
    if study.choice == study.grid.default:
        return f"no setting beats the default on this machine; {tried}"
    if gain is None:
        why = "the search ended early" if study.launches else "with --launches 0, none is claimed"
        return f"not confirmed: {why}; {tried}"
    interval = f"({_percent(gain.low)} % to {_percent(gain.high)} %; 95 % interval,"
    interval += f" {gain.launches} launches a side)"
    if not gain.certain:
        return (
            "no setting beats the default on this machine: the best saves"
            f" {_percent(gain.share)} % {interval}; {tried}"
        )
    ratio = gain.default_ms / gain.best_ms
    return f"saves {_percent(gain.share)} % of the time {interval}, speed-up {ratio:.2f}"


def _lines(study: Study) -> Iterator[str]:
    grid, best, gain = study.grid, study.best, study.gain
    yield str(study.row)
    time = _time(study, grid.default, gain.default_ms if gain else None)
    yield _entry("default", f"{time}{_spell(grid.settings(grid.default))}")
    if best is not None and best != grid.default:
        time = _time(study, best, gain.best_ms if gain else None)
        yield _entry("best", f"{time}{_of(grid, best)}")
    yield _entry("gain", verdict_of(study))
    yield _entry("search", _effort(study.race.spent, grid))
    if study.exhaustive is not None:
        whole = study.exhaustive
        longer = f"takes {_percent(whole.gap)} % longer than {_of(grid, whole.best)}"
        took = "is the best of all" if whole.gap == 0 else longer
        yield _entry("whole grid", f"the choice {took}")
    if gain is not None and gain.certain and best is not None:
        again = command_of(study.machine.command, study.wish, grid.changed(best))
        yield _entry("again", again)
        yield from _advice_lines(_advice(study, best))


def _advice_lines(advice: Advice) -> Iterator[str]:
    if advice.variables:
        yield _entry("variables", " ".join(f"{k}={v}" for k, v in advice.variables.items()))
    if advice.config:
        fields = "; ".join(f"config.{k} = {v}" for k, v in advice.config.items())
        yield _entry("NCCL", f"ncclConfig_t: {fields}")
    yield from (_entry("to do", note) for note in advice.notes)


def _time(study: Study, point: Point, confirmed_ms: float | None) -> str:
    """Write a point's time: from the confirmation if there was one, or else from the search."""
    known = study.race.known
    ms = known[point].ms if confirmed_ms is None and point in known else confirmed_ms
    return "" if ms is None else f"{ms:.4g} ms  "


def _pair(study: Study) -> dict[str, object]:
    grid, best, gain = study.grid, study.best, study.gain
    known = study.race.known
    found: dict[str, object] = {
        "pair": study.wish.pair,
        "name": str(study.row),
        "evaluations": study.race.spent,
        "grid": len(grid),
        "tried": len(study.race.tried),
        "verdict": verdict_of(study),
        "default": {
            "name": grid.names[grid.default],
            "settings": grid.settings(grid.default),
            "command": command_of(study.machine.command, study.wish, {}),
        },
        "beats_default": gain is not None and gain.certain,
        "measured": [measurement(grid.names[point], one) for point, one in known.items()],
    }
    if best is not None:
        advice = _advice(study, best)
        found["best"] = {
            "name": grid.names[best],
            "settings": grid.changed(best),
            "command": command_of(study.machine.command, study.wish, grid.changed(best)),
            "variables": advice.variables,
            "ncclConfig_t": advice.config,
            "notes": advice.notes,
        }
    if gain is not None:
        found["gain"] = asdict(gain)
    if study.exhaustive is not None:
        whole = study.exhaustive
        found["exhaustive"] = asdict(whole) | {"best": grid.names[whole.best], "gap": whole.gap}
    if study.whole_grid:
        found["whole_grid"] = record(grid, study.whole_grid)
    return found


def _advice(study: Study, best: Point) -> Advice:
    queues = {k: v for k, v in study.wish.fixed.items() if k == "connections"}
    return advise({**study.grid.changed(best), **queues})


def _context(context: Mapping[str, object]) -> dict[str, object]:
    return {key: context[key] for key in _CONTEXT if key in context}


def _of(grid: Grid, point: Point) -> str:
    changed = grid.changed(point)
    return _spell(changed) if changed else "the default"


def _spell(settings: Mapping[str, str]) -> str:
    return " ".join(f"{knob}:{value}" for knob, value in settings.items())


def _effort(evaluations: int, grid: Grid) -> str:
    share = evaluations / len(grid)
    of = f"{_percent(share)} % of {len(grid)}" if share < 1 else f"for {len(grid)}"
    return f"{evaluations} evaluations, {of} settings"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
