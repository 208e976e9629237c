"""A reader of the jobs in docs/ci: their scripts, with the few expressions that they have."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

import samples

CI = samples.TOOLS.parent / "docs/ci"
BRANCHES = {"main": "push", "change": "merge_request_event"}


def loaded(name: str) -> Any:
    return yaml.safe_load((CI / name).read_text(encoding="utf-8"))


VALUES = {"inputs.runs": "3", "github.token": "secret", "github.event.number": "7"}


def of_github(branch: str) -> Iterator[str]:
    """Return the action's steps that run on a branch, as scripts with their variables.

    That which tells the branch is part of the next one, which measures.
    """
    action, pull = loaded("action.yml"), branch != "main"
    keep = keeps(*(("pull_request", "refs/pull/7/merge") if pull else ("push", "refs/heads/main")))
    values = {f"inputs.{name}": entry["default"] for name, entry in action["inputs"].items()} | {
        keeping(): str(keep).lower(),
        "steps.branch.outputs.keep": str(keep).lower(),
    }
    values |= VALUES
    before = ""
    conditions = {
        "": True,
        "always()": True,
        "always() && github.event_name == 'pull_request'": pull,
    }
    for step in action["runs"]["steps"]:
        if "run" in step and conditions[step.get("if", "")]:
            assert step["shell"] == "bash"
            given = {
                name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)
                for name, text in step.get("env", {}).items()
            }
            exports = [f"export {name}={shlex.quote(text)}" for name, text in given.items()]
            script = "\n".join([before, *exports, step["run"]])
            before = script if step.get("id") == "branch" else ""
            if not before:
                yield script


def keeping() -> str:
    """Return the expression of the action that says whether a measurement is kept."""
    (step,) = [step for step in loaded("action.yml")["runs"]["steps"] if step.get("id") == "branch"]
    return str(step["env"]["KEEP"]).removeprefix("${{ ").removesuffix(" }}")


def keeps(event: str, ref: str) -> bool:
    """Return that expression's value; the default branch is main."""
    values = {
        "github.event_name": repr(event),
        "github.ref": repr(ref),
        "github.event.repository.default_branch": "'main'",
    }
    text = keeping()
    for name, value in values.items():
        text = text.replace(name, value)
    text = text.replace("&&", "and").replace("||", "or").replace("!", "not ")
    functions = {
        "startsWith": str.startswith,
        "format": lambda pattern, *words: pattern.format(*words),
    }
    return bool(eval(text, {"__builtins__": {}}, functions))


def of_gitlab(branch: str, job: str = "overlap") -> Iterator[str]:
    """Return what a job runs, and then after it; nothing where no rule of it holds."""
    document = loaded("gitlab-watch.yml")[job]
    pipeline = {"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"} if branch == "main" else {}
    pipeline["CI_PIPELINE_SOURCE"] = BRANCHES[branch]
    rules = [rule for rule in document["rules"] if holds(rule["if"], pipeline)]
    if rules:
        given = document.get("variables", {}) | rules[0].get("variables", {})
        exports = [f"export {name}={shlex.quote(text)}" for name, text in given.items()]
        for part in ("script", "after_script"):
            yield "\n".join([*exports, *document.get(part, [])])


def holds(condition: str, variables: Mapping[str, str]) -> bool:
    """Tell whether all comparisons of a rule of GitLab hold."""
    truths = []
    for one in condition.split(" && "):
        left, operator, right = one.split()
        sides = [variables.get(s[1:]) if s.startswith("$") else s.strip('"') for s in (left, right)]
        truths.append((sides[0] == sides[1]) == (operator == "=="))
    return all(truths)


def of_buildkite(branch: str) -> Iterator[str]:
    """Return the step's script; `fork` is the default branch of a fork, which has the same name."""
    (step,) = loaded("buildkite-watch.yml")["steps"]
    given = step["env"] | {"BUILDKITE_BRANCH": "main" if branch == "fork" else branch}
    given["BUILDKITE_PULL_REQUEST"] = "false" if branch == "main" else "7"
    exports = [f"export {name}={shlex.quote(text)}" for name, text in given.items()]
    yield "\n".join([*exports, step["command"].replace("$$", "$")])


SCRIPTS = {
    "action.yml": of_github,
    "gitlab-watch.yml": of_gitlab,
    "buildkite-watch.yml": of_buildkite,
}
