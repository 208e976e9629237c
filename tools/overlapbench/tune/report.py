"""The outcome of a search, as text and as JSON."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from overlapbench.findings.apply import Advice, advise, takes_a_kernel
from overlapbench.findings.finding import Finding, Saving, text_of
from overlapbench.statistics.intervals import digits
from overlapbench.tune.machine import OF_TIME, Objective
from overlapbench.tune.search import Estimate
from overlapbench.tune.space import Point, axis_flags
from overlapbench.tune.study import Gain, Study

SCHEMA = "1"  # of the JSON
_CONTEXT = (
    *("date", "backend", "device", "device_multiprocessors", "ranks", "driver_version"),
    *("nccl_version", "mpi_version", "git_revision"),
)


def report_of(studies: Sequence[Study]) -> str:
    told = [f"{study.row}\n{_entries(study)}" for study in studies]
    found = text_of([one for study in studies for one in findings_of(study)], whole=True)
    return "\n".join([*told, found] if found else told)


def _entries(study: Study) -> str:
    return "".join(f"  {title:<11}{what}\n" for title, what in _lines(study))


def _lines(study: Study) -> Iterator[tuple[str, str]]:
    grid, best, gain = study.grid, study.best, study.gain
    default_figure, best_figure = (gain.default, gain.best) if gain else (None, None)
    settings = _spell(grid.settings(grid.default))
    yield "default", _figure(study, grid.default, default_figure) + settings
    if best is not None and best != grid.default:
        yield "best", _figure(study, best, best_figure) + _spell(grid.changed(best))
    yield "gain", verdict_of(study)
    share = study.race.spent / len(grid)
    of = f"{_percent(share)} of {len(grid)}" if share < 1 else f"for {len(grid)}"
    yield "search", f"{study.race.spent} evaluations, {of} settings"
    if gain is not None and gain.certain and best is not None:
        yield "again", _command(study, best)
        advice = _advice(study, best)
        if advice.variables:
            yield "variables", " ".join(f"{k}={v}" for k, v in advice.variables.items())
        if advice.config:
            fields = "; ".join(f"config.{k} = {v}" for k, v in advice.config.items())
            yield "NCCL", f"ncclConfig_t: {fields}"


def verdict_of(study: Study) -> str:
    """State the outcome in one line."""
    gain, none = study.gain, "no setting beats the default on this machine"
    if gain is not None and not study.problem:
        interval = (
            f"{_percent(gain.share)} {{}}({_percent(gain.low)} to {_percent(gain.high)};"
            f" 95 % interval, {gain.runs} runs a side)"
        )
        if gain.certain:
            objective = study.machine.objective
            saves = f"saves {interval.format(f'of the {objective.word} ')}"
            return (
                f"{saves}, speed-up {gain.default / gain.best:.2f}"
                if objective is OF_TIME
                else saves
            )
        outcome = f"{none}: the best saves {interval.format('')}"
    elif study.problem:
        outcome = study.problem
    elif study.choice is None:
        outcome = "not finished"
    elif study.choice == study.grid.default:
        outcome = none
    elif study.runs:
        outcome = "not confirmed: the search ended early"
    else:
        outcome = "not confirmed: with --runs 0, none is claimed"
    return f"{outcome}; {len(study.race.tried)} of {len(study.grid)} settings were tried"


def _figure(study: Study, point: Point, confirmed: float | None) -> str:
    """Write a point's figure: from the confirmation if there was one, or else from the search."""
    known = study.race.known
    figure = known[point].figure if confirmed is None and point in known else confirmed
    return "" if figure is None else f"{digits(figure)} {study.machine.objective.unit}  "


def json_of(studies: Sequence[Study], interrupted: bool) -> bytes:
    context = studies[0].context if studies else {}
    document = {
        "tune_schema": SCHEMA,
        "context": {key: context[key] for key in _CONTEXT if key in context},
        "interrupted": interrupted,
        "pairs": [_pair(study) for study in studies],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _pair(study: Study) -> dict[str, object]:
    grid, best, race = study.grid, study.best, study.race

    def setting(point: Point) -> dict[str, object]:
        changed = grid.changed(point)
        command = _command(study, point)
        return {"name": grid.names[point], "settings": changed, "command": command}

    found: dict[str, object] = {
        "pair": study.wish.pair,
        "minimises": study.machine.objective.name,
        "name": str(study.row),
        "evaluations": race.spent,
        "grid": len(grid),
        "tried": len(race.tried),
        "verdict": verdict_of(study),
        "default": setting(grid.default) | {"settings": grid.settings(grid.default)},
        "beats_default": study.gain is not None and study.gain.certain,
        "measured": [
            _measurement(grid.names[point], one, study.machine.objective)
            for point, one in race.known.items()
        ],
    }
    if best is not None:
        advice = _advice(study, best)
        found["best"] = setting(best) | {
            "variables": advice.variables,
            "ncclConfig_t": advice.config,
            "notes": advice.notes,
        }
    if study.gain is not None:
        found["gain"] = _gain(study.gain, study.machine.objective)
    if study.plain is not None and study.plain_gain is not None:
        found["best_without_new_code"] = setting(study.plain) | {
            "gain": _gain(study.plain_gain, study.machine.objective)
        }
    found["findings"] = [one.to_dict() for one in findings_of(study)]
    return found


def _gain(gain: Gain, objective: Objective) -> dict[str, object]:
    told, unit = asdict(gain), _unit_in_names(objective)
    told |= {f"{side}_{unit}": told.pop(side) for side in ("default", "best")}
    return told | {"launches": told.pop("runs")}  # the format's older word


def findings_of(study: Study) -> Iterator[Finding]:
    """Yield the best settings, and the best that need no new code, if they surely save."""
    if study.problem:
        return
    for point, gain in ((study.best, study.gain), (study.plain, study.plain_gain)):
        if point is not None and gain is not None and gain.certain:
            yield _finding(study, point, gain)


def _finding(study: Study, point: Point, gain: Gain) -> Finding:
    changed = study.grid.changed(point)
    plain = not takes_a_kernel(changed)
    rule = "best without new code" if plain else "best"
    unit = study.machine.objective.unit
    kind = "no new code" if plain else "a kernel, or copies, of your own"
    sentence = (
        f"{study.wish.pair}: {digits(gain.best)} instead of {digits(gain.default)} {unit},"
        f" saves {_percent(gain.low)} to {_percent(gain.high)} with {kind}"
    )
    saving = Saving(gain.share, gain.low, gain.high)
    reason = f"{gain.runs} runs a side, in turn"
    ways = _advice(study, point).notes
    return Finding(
        rule, sentence, reason, f"Set {_spell(changed)}.", saving, str(study.row), "", ways
    )


def _command(study: Study, point: Point) -> str:
    """Return the command that measures these settings."""
    flags = axis_flags(study.grid.changed(point))
    return shlex.join([*study.machine.command, *study.wish.flags, *flags])


def _measurement(name: str, found: Estimate, objective: Objective) -> dict[str, object]:
    """Return one setting; JSON has no infinity, so an interval may lack its upper bound."""
    unit = _unit_in_names(objective)
    high = {f"high_{unit}": found.high} if math.isfinite(found.high) else {}
    return {"name": name, objective.counter: found.figure, f"low_{unit}": found.low, **high}


def _unit_in_names(objective: Objective) -> str:
    return objective.unit.replace(" ", "")


def _advice(study: Study, best: Point) -> Advice:
    queues = {k: v for k, v in study.wish.fixed.items() if k == "connections"}
    return advise({**study.grid.changed(best), **queues})


def _spell(settings: Mapping[str, str]) -> str:
    return " ".join(f"{knob}:{value}" for knob, value in settings.items())


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
