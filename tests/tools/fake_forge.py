"""A server of GitHub's and GitLab's comments that runs in the test: what comment.py asks of one.

The token's owner is number 7. `denied` refuses all writing, as a token of a fork's job is refused.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

OWNER, PAGE = 7, 100
Comment = dict[str, Any]


class Forge(ThreadingHTTPServer):
    """Holds the comments of one pull or merge request, number 7."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[Comment] = []
        self.status = 200  # of all writing
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def say(self, body: str, author: int) -> Comment:
        self.comments.append({"id": len(self.comments), "body": body, "author": author})
        return self.comments[-1]

    def mine(self) -> list[str]:
        return [one["body"] for one in self.comments if one["author"] == OWNER]

    def variables(self, repository: str = "someone/example") -> dict[str, str]:
        """Return what the jobs of both have in their environment."""
        return {
            "GITHUB_API_URL": self.address,
            "GITHUB_GRAPHQL_URL": f"{self.address}/graphql",
            "GITHUB_REPOSITORY": repository,
            "GITHUB_WORKFLOW": "overlap",
            "CI_API_V4_URL": self.address,
            "CI_PROJECT_ID": "3",
            "CI_JOB_NAME": "overlap",
        }

    def answer(self, method: str, path: str, body: Any, token: str) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        url, writes = urlsplit(path), method in ("PATCH", "PUT", "POST") and path != "/graphql"
        if token != "secret":
            return 401, {}
        if writes and self.status != 200:
            return self.status, {}
        if path == "/graphql":
            return 200, self._graphql(body["variables"])
        if path == "/user":
            return 200, {"id": OWNER}
        if method == "GET":
            first = PAGE * (int(parse_qs(url.query)["page"][0]) - 1)
            notes = self.comments[first : first + PAGE]
            return 200, [one | {"author": {"id": one["author"]}} for one in notes]
        if method == "POST":
            assert re.fullmatch("/repos/.*/issues/7/comments|/projects/3/.*/7/notes", path)
            return 201, self.say(body["body"], OWNER)
        self.comments[int(path.rpartition("/")[2])]["body"] = body["body"]
        return 200, {}

    def _graphql(self, variables: dict[str, Any]) -> Any:
        assert (variables["owner"], variables["name"], variables["number"]) == (
            "someone",
            "example",
            7,
        )
        first = int(variables.get("after") or 0)
        nodes = [
            {"databaseId": x["id"], "body": x["body"], "viewerDidAuthor": x["author"] == OWNER}
            for x in self.comments[first : first + PAGE]
        ]
        more = {"hasNextPage": first + PAGE < len(self.comments), "endCursor": str(first + PAGE)}
        comments = {"nodes": nodes, "pageInfo": more}
        return {"data": {"repository": {"pullRequest": {"comments": comments}}}}


class _Handler(BaseHTTPRequestHandler):
    server: Forge

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        token = bearer or self.headers.get("PRIVATE-TOKEN") or ""
        status, answer = self.server.answer(self.command, self.path, body, token)
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = _do  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[Forge]:
    with Forge() as forge:
        thread = threading.Thread(target=forge.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield forge
        forge.shutdown()
        thread.join()
