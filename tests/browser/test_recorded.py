"""Reports of recorded results of every kind: they fit a phone and a desktop, and no text is cut."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from tests.browser.conftest import Tab, write_report
from tests.browser.test_layout import COLLISIONS, FILLED, draw_all

RECORDED = Path(__file__).parents[2] / "docs/results"
PAGES = {
    "pairs": ["h200x2/overlap.json"],
    "several machines": [
        *("h200x2/transport-pairs.json", "h100x2/traced-costs.json"),
        "h200x4/overlap-steps.json.gz",
    ],
    "transports": ["h200x2/comm.json", "h200x2/transports.json"],
    "laboratory": ["h200x2/lab-matrix.json", "h200x2/lab-partition.json"],
    "three sides": ["h200x4/triple.json.gz"],
    "decoding": ["h200x4/decode.json.gz"],
    "training": ["h200x2/training.json"],
    "peers": ["h200x2/training-peers.json.gz"],
    "settings": ["h200x2/apply.json"],
}
CUT = """() => [...document.querySelectorAll("figure svg text")]
  .map(text => text.textContent).filter(text => text.includes("…"))"""


@pytest.mark.parametrize("name", PAGES)
def test_a_report_fits_a_phone_and_a_desktop(tab: Tab, tmp_path: Path, name: str) -> None:
    page = tab.open(write_report(tmp_path, *(RECORDED / file for file in PAGES[name])))
    looks: Sequence[tuple[int, Literal["light", "dark"]]] = ((1280, "light"), (400, "dark"))
    for width, scheme in looks:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        draw_all(page)
        page.wait_for_function(FILLED, timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(COLLISIONS) == [], width
        if width == 1280:
            assert page.evaluate(CUT) == []
