"""The layout of pages with charts: at every width, on paper, without colliding marks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Tab, drawn, write_report

import samples
from overlapbench.reading.result import parse_result
from overlapbench.view.chart import draw_charts
from overlapbench.view.page import render_page

WIDTHS = (400, 800, 1280, 1920)
# Whether every drawing is as wide as its place, and no wider.
FILLED = """() => [...document.querySelectorAll("figure.drawn .drawing")].every(place => {
  const width = place.querySelector("svg")?.width.baseVal.value ?? 0;
  return width > 0.9 * place.clientWidth && place.scrollWidth <= place.clientWidth;
})"""
# Pairs of texts in a drawing whose boxes, rotated like the texts, overlap; and texts that it cuts
# off. The letters fill only the middle of a box. A text and its halo are one text.
COLLISIONS = """() => {
  const corners = text => {
    const {x, y, width, height} = text.getBBox(), m = text.getScreenCTM(), ease = 0.18 * height;
    const [right, top, bottom] = [x + width, y + ease, y + height - ease];
    return [[x, top], [right, top], [right, bottom], [x, bottom]].map(
      ([a, b]) => [m.a * a + m.c * b + m.e, m.b * a + m.d * b + m.f]);
  };
  const apart = (p, q) => [p, q].some(box => box.some(([x, y], i) => {
    const [u, v] = box[(i + 1) % 4];
    const along = points => points.map(([a, b]) => (v - y) * a + (x - u) * b);
    const [one, other] = [along(p), along(q)];
    return Math.max(...one) <= Math.min(...other) || Math.max(...other) <= Math.min(...one);
  }));
  const found = [];
  for (const svg of document.querySelectorAll("figure svg")) {
    const name = svg.closest("figure").dataset.chart, {left, right} = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")]
      .filter(text => text.textContent.trim() && text.getAttribute("opacity") !== "0")
      .map(text => [text.textContent, corners(text)]);
    texts.forEach(([text, box], i) => {
      const cut = box.some(([x]) => x < left - 1 || x > right + 1);
      if (cut) found.push(`${name}: ${text} is cut off`);
      for (const [other, theirs] of texts.slice(i + 1)) {
        const [[x, y], [u, v]] = [box[0], theirs[0]];
        const halo = text === other && Math.hypot(x - u, y - v) < 1;
        if (!halo && !apart(box, theirs)) found.push(`${name}: ${text} on ${other}`);
      }
    });
  }
  return found;
}"""
# What covers the centre of each point of the chart, unless it is another point.
HIDDEN = """() => [...document.querySelectorAll("[data-chart=slowdown] .mark-symbol path")]
  .filter(path => path.closest(".role-mark"))
  .filter(path => !["transparent", "none"].includes(path.getAttribute("fill")))
  .map(path => {
    const {x, y, width, height} = path.getBoundingClientRect();
    return document.elementFromPoint(x + width / 2, y + height / 2);
  })
  .filter(met => !met.matches("path") || ["transparent", "none"].includes(met.getAttribute("fill")))
  .map(met => met.outerHTML)"""


def sources(folder: Path) -> Sequence[Path]:
    """Write two runs of everything that has a chart, whose knees are at the same places."""
    return [
        samples.write(
            folder / f"{name}.json",
            samples.with_intervals(samples.document(samples.full_run(), **context)),
        )
        for name, context in (("one", {}), ("another-with-a-longer-name", {"git_revision": "b"}))
    ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report, and the page of the charts alone."""
    folder = tmp_path_factory.mktemp("pages")
    written = sources(folder)
    rows = [*samples.sweep(), *samples.bandwidths(), *samples.priorities(), *samples.steps()]
    results = [parse_result("some.json", json.dumps(samples.document(rows)))]
    charts = folder / "index.html"
    charts.write_bytes(render_page("Charts", results, draw_charts(results, "Charts")))
    return {"report": write_report(folder, *written), "charts": charts}


def draw_all(page: Page) -> None:
    """Scroll until every chart is drawn."""
    for figure in page.locator("figure").all():
        drawn(figure)


@pytest.mark.parametrize(("name", "scheme"), [("report", "light"), ("charts", "dark")])
def test_a_page_fits_every_window_and_no_labels_collide(
    tab: Tab, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    page = tab.open(pages[name])
    draw_all(page)
    if name == "report":
        page.get_by_label("all counters").check()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(FILLED, timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(COLLISIONS) == [], width


def test_no_point_is_behind_a_ring_or_a_label(tab: Tab, pages: dict[str, Path]) -> None:
    tab.page.set_viewport_size({"width": 1280, "height": 1200})
    page = tab.open(pages["report"])
    chart = drawn(page.locator("figure[data-chart=slowdown]"))
    assert page.evaluate(HIDDEN) == []
    rings = chart.locator(".mark-symbol.role-mark path[fill=transparent]")
    places = rings.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => `${box.x} ${box.y}`)"
    )
    assert len(set(places)) == len(places) == 4, "one ring round the other"


@pytest.mark.parametrize("name", ["report", "charts"])
def test_every_chart_is_printed_in_light_colours(
    tab: Tab, pages: dict[str, Path], name: str
) -> None:
    tab.page.emulate_media(color_scheme="dark")
    page = tab.open(pages[name])
    drawn(page.locator("figure").first)
    assert page.locator("figure svg").count() < page.locator("figure").count()
    page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = [...document.querySelectorAll("
        "'figure')].map(one => one.querySelector('svg text')?.getAttribute('fill')) })"
    )
    unseen = page.pdf()
    assert page.evaluate("window.printed") == ["#1c1c1c"] * page.locator("figure").count()
    draw_all(page)
    assert len(page.pdf()) == pytest.approx(len(unseen), rel=0.01), (
        "the same, however much was seen"
    )
    assert page.locator("figure svg text").first.get_attribute("fill") == "#ececec"
