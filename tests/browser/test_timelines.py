"""Pictures of timelines, on a page of their own and in a report: pointed at, zoomed and dark."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser.conftest import Tab, drawn, write_report
from tests.browser.test_layout import COLLISIONS, FILLED

from overlapbench.cli import timeline

RECORDED = Path(__file__).parents[2] / "docs/results/host"
TRACES = str(RECORDED / "traces")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("timelines")
    page = folder / "timelines.html"
    assert timeline.main([TRACES, "-o", str(page)]) == 0
    report = write_report(folder, RECORDED / "pipeline.json", "--traces", TRACES)
    return {"page": page, "report": report}


def figure_of(page: Page, name: str) -> Locator:
    return page.locator("[data-chart=timeline-0]" if name == "report" else "figure").first


def bars(drawing: Locator, step: str) -> list[float]:
    """Return the widths of a step's bars, in pixels, in the order of the panels."""
    found = drawing.locator(f"path[aria-label*='step: {step};']")
    widths = found.evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    return [width for width in widths if width > 10]


@pytest.mark.parametrize("name", ["page", "report"])
def test_a_bar_tells_its_figures(tab: Tab, pages: dict[str, Path], name: str) -> None:
    page = tab.open(pages[name])
    drawing = drawn(figure_of(page, name))
    drawing.locator("path[aria-label*='step: 0F0;']").first.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_be_visible()
    for text in ("0F0", "COMP", "duration (ms)", "compute", "longest path"):
        expect(tooltip).to_contain_text(text)
    expect(tooltip.locator("tr", has_text="bytes")).to_be_hidden()  # a delay has none


@pytest.mark.parametrize("name", ["page", "report"])
def test_time_is_zoomed_by_ctrl_and_the_wheel_and_seen_whole_again(
    tab: Tab, pages: dict[str, Path], name: str
) -> None:
    page = tab.open(pages[name])
    drawing = drawn(figure_of(page, name))
    before = bars(drawing, "0F0")
    assert len(before) == (1 if name == "report" else 2)
    drawing.locator("path[aria-label*='step: 0F0;']").first.hover(force=True)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")

    def the_row_moves() -> bool:
        zoomed = bars(drawing, "0F0")
        return zoomed[0] > 1.2 * before[0] and zoomed[1:] == before[1:]

    await_true(page, the_row_moves)
    page.mouse.dblclick(*middle_of(drawing))
    await_true(page, lambda: bars(drawing, "0F0") == pytest.approx(before))


def await_true(page: Page, condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; a busy machine draws late."""
    for _ in range(100):
        if condition():
            return
        page.wait_for_timeout(300)
    pytest.fail("not within 30 s")


def middle_of(drawing: Locator) -> tuple[float, float]:
    box = drawing.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_wheel_alone_scrolls_the_report(tab: Tab, pages: dict[str, Path]) -> None:
    page = tab.open(pages["report"])
    drawing = drawn(figure_of(page, "report"))
    before, place = bars(drawing, "0F0"), page.evaluate("scrollY")
    page.mouse.move(*middle_of(drawing))
    page.mouse.wheel(0, -100)
    await_true(page, lambda: page.evaluate("scrollY") < place)
    assert bars(drawing, "0F0") == before


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["page", "report"])
def test_a_picture_fits_its_window_and_no_labels_collide(
    tab: Tab, pages: dict[str, Path], name: str, width: int
) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.open(pages[name])
    for figure in page.locator("figure").all():
        drawn(figure)
    page.wait_for_function(FILLED, timeout=60_000)
    assert page.evaluate(COLLISIONS) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("name", ["page", "report"])
def test_the_longest_path_is_outlined_in_the_colour_of_text(
    tab: Tab, pages: dict[str, Path], name: str
) -> None:
    page = tab.open(pages[name])
    drawn(figure_of(page, name))
    outline = figure_of(page, name).locator("[class*=layer_5_marks] path")
    schemes: tuple[tuple[Literal["light", "dark"], str], ...]
    schemes = (("light", "#1c1c1c"), ("dark", "#ececec"))
    for scheme, colour in schemes:
        page.emulate_media(color_scheme=scheme)
        expect(outline.first).to_have_attribute("stroke", colour)
