#!/usr/bin/env python3
"""Make a file the comment of a pull or merge request, and update that comment in later runs.

    comment.py comparison.md

In a job of GitHub Actions it takes the pull request from NUMBER and the token from GH_TOKEN; in one
of GitLab, the token from GITLAB_TOKEN. The other variables are those that such jobs have.

A hidden first line names the workflow or job, and TITLE, where one job measures on several kinds of
machine. A comment that begins with it, and that the token's owner wrote, is updated; no other
comment is touched.

Without a token, or with one that may not write, as in a pull request from a fork, it says so and
succeeds: the job's status, log and summary have the result all the same.

Exit status: 0; 1 if the server is not reached or refuses for another reason; 2 for bad usage.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT_S = 30
LIMIT = 60_000  # characters; GitHub takes 65,536
DENIED = (401, 403, 404)  # what servers answer to a token that may not
_COMMENTS = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      comments(first: 100, after: $after) {
        nodes { databaseId body viewerDidAuthor }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
"""


class DeniedError(Exception):
    """The token may not do this."""


def ask(method: str, url: str, headers: dict[str, str], body: object = None) -> Any:
    """Send a request; return the answer's JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = headers | {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code in DENIED:
            raise DeniedError(f"the server answers {error.code}") from None
        raise


def on_github(name: str, text: str) -> None:
    number, token = os.environ["NUMBER"], _token("GH_TOKEN")
    repository = os.environ["GITHUB_REPOSITORY"]
    issues = f"{os.environ['GITHUB_API_URL']}/repos/{repository}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    marker = _marker(name)
    for comment in _github_comments(repository, int(number), headers):
        if comment["viewerDidAuthor"] and comment["body"].startswith(marker):
            url = f"{issues}/comments/{comment['databaseId']}"
            ask("PATCH", url, headers, {"body": marker + text})
            return
    ask("POST", f"{issues}/{number}/comments", headers, {"body": marker + text})


def _github_comments(
    repository: str, number: int, headers: dict[str, str]
) -> Iterator[dict[str, Any]]:
    owner, _, name = repository.partition("/")
    variables: dict[str, object] = {"owner": owner, "name": name, "number": number}
    while True:
        question = {"query": _COMMENTS, "variables": variables}
        answer = ask("POST", os.environ["GITHUB_GRAPHQL_URL"], headers, question)
        if answer.get("errors"):
            raise DeniedError(str(answer["errors"][0].get("message")))
        page = answer["data"]["repository"]["pullRequest"]["comments"]
        yield from page["nodes"]
        if not page["pageInfo"]["hasNextPage"]:
            return
        variables["after"] = page["pageInfo"]["endCursor"]


def on_gitlab(name: str, text: str) -> None:
    headers = {"PRIVATE-TOKEN": _token("GITLAB_TOKEN")}
    server, number = os.environ["CI_API_V4_URL"], os.environ["CI_MERGE_REQUEST_IID"]
    project = os.environ.get("CI_MERGE_REQUEST_PROJECT_ID") or os.environ["CI_PROJECT_ID"]
    notes = f"{server}/projects/{project}/merge_requests/{number}/notes"
    mine, marker = ask("GET", f"{server}/user", headers)["id"], _marker(name)
    page = 1
    while found := ask("GET", f"{notes}?per_page=100&page={page}", headers):
        for note in found:
            if note["author"]["id"] == mine and note["body"].startswith(marker):
                ask("PUT", f"{notes}/{note['id']}", headers, {"body": marker + text})
                return
        page += 1
    ask("POST", notes, headers, {"body": marker + text})


def _token(name: str) -> str:
    token = os.environ.get(name, "")
    if not token:
        raise DeniedError(f"{name} is not set")
    return token


def _marker(name: str) -> str:
    names = " ".join(filter(None, [name, os.environ.get("TITLE")]))
    return f"<!-- overlapbench: {names.replace('--', '-')} -->\n"


def shortened(text: str) -> str:
    """Return as many of the first lines as a comment holds."""
    if len(text) <= LIMIT:
        return text
    kept = text[:LIMIT].rpartition("\n")[0]
    return f"{kept}\n\nToo long for a comment: the job's artifact has the rest.\n"


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: comment.py FILE.md", file=sys.stderr)
        return 2
    text = shortened(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        if os.environ.get("GITHUB_ACTIONS"):
            on_github(os.environ["GITHUB_WORKFLOW"], text)
        else:
            on_gitlab(os.environ["CI_JOB_NAME"], text)
    except DeniedError as reason:
        print(f"comment.py: no comment: {reason}; a job of a fork may not write one")
    except (KeyError, OSError, ValueError) as error:
        print(f"comment.py: no comment: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
