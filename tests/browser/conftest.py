"""A real browser, reports for it to open, and checks that no error goes unnoticed.

The browser is the system's Chromium, else the one that `playwright install chromium` installs.
Without either, the tests are skipped and say so.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from overlapbench.cli import report

NAMES = ("chromium", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium: install the package chromium, or playwright install chromium")
        # A container has no namespaces for the sandbox, and only the test's own pages are opened.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


class Tab:
    """A page of the browser that fails its test on any message, error or request."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"{message.type}: {message.text}")

    def _see(self, request: Request) -> None:
        self.requests.append(re.split("[?#]", request.url)[0])

    def open(self, path: Path, fragment: str = "") -> Page:
        self.page.goto(path.as_uri() + fragment)
        return self.page


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found = Tab(context.new_page())
    yield found
    context.close()
    assert not found.complaints
    assert all(url.startswith("file://") for url in found.requests)
    assert len(set(found.requests)) <= 1, "the page itself, and nothing else"


def write_report(folder: Path, *arguments: str | Path) -> Path:
    """Run the command and return the page."""
    page = folder / "report.html"
    assert report.main([*map(str, arguments), "-o", str(page)]) == 0
    return page


def drawn(figure: Locator) -> Locator:
    """Scroll to a chart and return its drawing.

    Playwright's own scrolling waits until nothing moves, and each chart that is drawn moves those
    below it.
    """
    figure.evaluate("figure => figure.scrollIntoView()")
    drawing = figure.locator("svg")
    expect(drawing).to_be_visible(timeout=30_000)
    return drawing
