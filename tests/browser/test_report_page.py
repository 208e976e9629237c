"""The report as its reader uses it: clicked, searched, hovered, linked to, dark, on a phone."""

import re
import time
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser.conftest import Tab, drawn, write_report

import samples

GRID = "Overlap/AllToAll+Gemm/bytes:67108864/n:4096/grid:{0}x{0}/work:tile/cache:cold"
HOSTILE = "A+B/x:<script>throw(1)<img>"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of every family and one row whose name tries to break out, with a base."""
    folder = tmp_path_factory.mktemp("full")
    rows = [*samples.full_run(), samples.overlap(HOSTILE, label="</script><img src=x>")]
    new = samples.write(folder / "new.json", samples.document(rows))
    base = samples.write(folder / "base.json", samples.document(samples.full_run()))
    return write_report(folder, new, "--base", base)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 2,000 rows with a dozen counters each, in two families."""
    folder = tmp_path_factory.mktemp("large")
    counters: samples.Json = dict.fromkeys(
        ("p05_ms", "p95_ms", "cv", "skew_us", "hidden_comm", "coverage"), 0.1234
    )
    rows = [
        samples.overlap(f"{c}+Gemm/bytes:{size}/grid:{g}x{g}", 1 + g / 1000, **counters)
        for c in samples.COLLECTIVES
        for size in (1 << 20, 1 << 26)
        for g in range(1, 121)
    ]
    rows += [
        samples.row(f"Comm/{c}/bytes:{4096 * i}", busbw_GBps=float(i), **counters)
        for c in samples.COLLECTIVES
        for i in range(1, 161)
    ]
    assert len(rows) == 2000
    return write_report(folder, samples.write(folder / "large.json", samples.document(rows)))


def names(page: Page, section: str) -> list[str]:
    """Return the rows of a section that can be seen, from the top."""
    rows = page.locator(f"#{section} .table tbody tr:visible")
    return list(rows.evaluate_all("rows => rows.map(row => row.id)"))


def column(page: Page, section: str, key: str) -> list[float]:
    """Return the figures of a column, from the top, without empty ones."""
    header = page.locator(f"#{section} .table th[data-counter='{key}']")
    index = header.evaluate("header => header.cellIndex")
    texts = page.locator(
        f"#{section} .table tbody tr:visible > td:nth-child({index + 1})"
    ).all_inner_texts()
    return [float(text) for text in texts if text.strip()]


# Charts that are still being drawn move the table, and a click can miss what it was aimed at.
def sort_by(header: Locator, order: str, key: str = "Enter") -> None:
    header.get_by_role("button").press(key)
    expect(header).to_have_attribute("aria-sort", order)


def test_a_click_sorts_and_another_reverses(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    header = page.locator("#Overlap .table th[data-counter='slowdown']")
    before = column(page, "Overlap", "slowdown")
    sort_by(header, "descending")
    assert column(page, "Overlap", "slowdown") == sorted(before, reverse=True) != before
    sort_by(header, "ascending", "Space")
    assert column(page, "Overlap", "slowdown") == sorted(before)
    header.click()
    expect(header).to_have_attribute("aria-sort", "descending")


def test_names_sort_by_the_numbers_in_them(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    sort_by(page.locator("#Overlap .table th").filter(has_text="benchmark"), "ascending")
    tile = [name for name in names(page, "Overlap") if "work:tile" in name]
    assert tile == [GRID.format(grid) for grid in samples.GRIDS]


def test_rows_without_a_figure_stay_at_the_end(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    header = page.locator("#Overlap .table th[data-counter='slowdown']")
    for order in ("descending", "ascending"):
        sort_by(header, order)
        assert "SendRecv" in names(page, "Overlap")[-1]


def test_a_search_shows_rows_with_every_word(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    page.get_by_role("searchbox").fill("GRID:16x16 tile")
    expect(page.locator("#found")).to_have_text(re.compile("^1 of "))
    assert names(page, "Overlap") == [GRID.format(16)]
    expect(page.locator("#Overlap .matching")).to_have_text("· 1 found")
    assert names(page, "Comm") == []
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#found")).to_have_text("")
    assert len(names(page, "Comm")) == len(samples.bandwidths())


@pytest.mark.parametrize("size", ["67108864", "64M"])
def test_a_size_is_found_in_both_forms(tab: Tab, full: Path, size: str) -> None:
    page = tab.open(full, f"?search=AllReduce bytes:{size}")
    expect(page.locator("#found")).to_have_text(re.compile("^4 of "))
    assert all("/bytes:67108864/" in name for name in names(page, "Overlap"))


def test_a_search_is_in_the_address_and_leads_to_its_first_hit(tab: Tab, large: Path) -> None:
    page = tab.open(large)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("AllGather bytes:8192")
    hit = page.locator("[id='Comm/AllGather/bytes:8192']")
    expect(hit).to_be_in_viewport()
    assert page.url.endswith("report.html?search=AllGather+bytes%3A8192")
    page.keyboard.type("/")
    expect(page.get_by_role("searchbox")).to_have_value("AllGather bytes:8192/")

    again = tab.open(large, "?search=AllGather+bytes%3A8192")
    expect(again.get_by_role("searchbox")).to_have_value("AllGather bytes:8192")
    expect(again.locator("#found")).to_have_text("2 of 2000 rows")
    expect(hit).to_be_in_viewport()
    again.get_by_role("searchbox").fill("")
    expect(again.locator("#found")).to_have_text("")
    assert again.url.endswith("report.html")


def test_a_link_opens_scrolls_to_and_marks_its_row(tab: Tab, large: Path) -> None:
    name = "Comm/HostToDevice/bytes:655360"
    page = tab.open(large, f"#{quote(name)}")
    row = page.locator(f"[id='{name}']")
    expect(row).to_be_in_viewport()
    plain = page.locator("[id='Comm/HostToDevice/bytes:651264']")
    background = "row => getComputedStyle(row).backgroundColor"
    assert row.evaluate(background) != plain.evaluate(background)


def test_a_link_in_the_page_finds_a_row_that_a_search_hides(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    worst = page.get_by_role("link", name="worst slowdown")
    name = unquote((worst.get_attribute("href") or "").removeprefix("#"))
    page.get_by_role("searchbox").fill("Softmax")
    expect(page.locator("#found")).not_to_have_text("")
    worst.click()
    expect(page.locator(f"[id='{name}']")).to_be_in_viewport()
    expect(page.get_by_role("searchbox")).to_have_value("")


def test_a_mark_leads_to_a_row_that_a_search_hides(tab: Tab, full: Path) -> None:
    page = tab.open(full, "?search=Softmax")
    chart = drawn(page.locator("figure[data-chart=slowdown]"))
    mark = chart.locator(".mark-symbol.role-mark path").last
    mark.scroll_into_view_if_needed()
    mark.click()
    expect(page.locator("#Overlap tr:target")).to_be_in_viewport()
    expect(page.get_by_role("searchbox")).to_have_value("")


def test_a_row_stays_marked_when_its_table_is_sorted_and_searched(tab: Tab, full: Path) -> None:
    page = tab.open(full, f"#{quote(GRID.format(16))}")
    marked = page.locator("#Overlap tr:target")
    expect(marked).to_be_in_viewport()
    sort_by(page.locator("#Overlap .table th[data-counter='slowdown']"), "descending")
    expect(marked).to_have_attribute("id", GRID.format(16))
    for words in ("grid:1x1", "grid:16x16"):
        page.get_by_role("searchbox").fill(words)
        expect(page.locator("#found")).to_have_text(re.compile("^[1-9]"))
    expect(marked).to_have_attribute("id", GRID.format(16))


def test_an_address_without_a_row_is_reported(tab: Tab, full: Path) -> None:
    page = tab.open(full, "#Comm/Nothing")
    expect(page.locator("#found")).to_have_text("no row is called Comm/Nothing")


def test_all_counters_are_shown_when_asked_for(tab: Tab, large: Path) -> None:
    page = tab.open(large, "#Comm")
    page.locator("#Comm summary").click()
    cell = page.locator("#Comm .table tbody tr").first.locator("td:visible")
    few = cell.count()
    page.get_by_label("all counters").check()
    expect(cell).to_have_count(few + 6)
    assert column(page, "Comm", "cv") == [0.1234] * 800
    page.get_by_label("all counters").uncheck()
    expect(cell).to_have_count(few)


def test_more_counters_keep_the_order_and_the_search(tab: Tab, full: Path) -> None:
    page = tab.open(full, "?search=tile")
    sort_by(page.locator("#Overlap .table th[data-counter='slowdown']"), "descending")
    before = names(page, "Overlap")
    page.get_by_label("all counters").check()
    header = page.locator("#Overlap .table th[data-counter='time']")
    expect(header).to_be_visible()
    assert names(page, "Overlap") == before
    sort_by(header, "descending")
    times = column(page, "Overlap", "time")
    assert times == sorted(times, reverse=True)
    assert len(times) == len(before)


def test_a_mark_tells_its_values_and_leads_to_its_row(tab: Tab, full: Path) -> None:
    page = tab.open(full, "#Overlap")
    mark = page.locator("figure[data-chart=slowdown] .mark-symbol.role-mark path").last
    mark.scroll_into_view_if_needed()
    mark.hover()
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_be_visible()
    expect(tooltip).to_contain_text("slowdown")
    name = tooltip.locator("tr", has_text="name").locator(".value").inner_text()
    mark.click()
    expect(page.locator(f"[id='{name}']")).to_be_in_viewport()
    assert page.locator(f"[id='{name}']").inner_text().count("Overlap/") == 1


def test_a_mark_tells_no_figure_that_its_row_lacks(tab: Tab, full: Path) -> None:
    page = tab.open(full, "#Comm")
    chart = drawn(page.locator("figure[data-chart=families-Comm]"))
    chart.locator(".mark-symbol.role-mark path").last.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_contain_text("busbw_GBps")
    expect(tooltip.locator("tr", has_text="expected")).to_be_hidden()  # there is no prediction
    assert not re.search("NaN|null|undefined", tooltip.inner_text())


def test_every_chart_is_drawn(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    figures = page.locator("figure")
    assert figures.count() == 22
    for index in range(figures.count()):
        assert drawn(figures.nth(index)).locator("path").count() > 3
    expect(page.locator(".error")).to_have_count(0)


def test_a_chart_of_many_rows_is_drawn_when_asked_for(tab: Tab, large: Path) -> None:
    page = tab.open(large, "#Comm")
    figure = page.locator("figure[data-chart=families]")
    button = figure.get_by_role("button", name="Draw this chart of 800 rows")
    button.click()
    expect(figure.locator("svg")).to_be_visible()


def test_dark_and_light_follow_the_system(tab: Tab, full: Path) -> None:
    page = tab.open(full, "#Overlap")
    colour = "getComputedStyle(document.body).backgroundColor"
    label = page.locator("figure[data-chart=slowdown] .role-axis-label text").first
    expect(label).to_be_visible()
    seen = {}
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        expect(label).to_have_attribute("fill", {"light": "#1c1c1c", "dark": "#ececec"}[scheme])
        seen[scheme] = page.evaluate(colour)
    assert seen == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}


def test_markup_in_a_name_is_text(tab: Tab, full: Path) -> None:
    page = tab.open(full)
    page.get_by_role("searchbox").fill("<script>throw(1)<img>")
    expect(page.locator("#found")).to_have_text(re.compile("^1 of "))
    assert page.locator("img").count() == 0


def test_changes_are_listed_and_link_to_their_rows(tab: Tab, full: Path) -> None:
    page = tab.open(full, "#changes")
    line = page.locator("#changes tbody tr", has_text="new").first
    line.locator("a").click()
    expect(page.locator("tr:target")).to_be_in_viewport()


def test_two_thousand_rows_open_within_two_seconds(tab: Tab, large: Path) -> None:
    assert large.stat().st_size < 10_000_000

    def opens_in_time() -> bool:
        start = time.monotonic()
        page = tab.open(large)
        page.get_by_role("searchbox").fill("AllReduce grid:99x99")
        expect(page.locator("#found")).to_have_text("2 of 2000 rows")
        return time.monotonic() - start < 2

    # Other tests run at the same time, and may delay one attempt.
    assert any(opens_in_time() for _ in range(3))
