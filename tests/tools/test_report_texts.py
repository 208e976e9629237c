"""The text of a whole report: every heading, figure, verdict and warning that its reader sees.

    python tests/tools/test_report_texts.py    writes tests/data/report.txt anew

A difference is either a fault, or needs a look at each changed line before the file is written.
"""

import tempfile
from html.parser import HTMLParser
from pathlib import Path

import samples
from overlapbench.cli import report

FILE = Path(__file__).parents[1] / "data/report.txt"
PAIR = "AllReduce+Gemm/bytes:67108864/n:4096"
_UNSEEN = {"script", "style", "svg", "head"}
_BLOCKS = {"p", "tr", "li", "h1", "h2", "h3", "section", "div", "summary", "dt", "header"}


class Text(HTMLParser):
    """The visible text of a page, a line for each paragraph, row of a table and heading."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self._unseen = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        if tag in _BLOCKS:
            self.lines.append("")
        elif tag in ("td", "th"):
            self.lines[-1] += " |"
        heat = dict(attrs).get("class") or ""
        if tag == "td" and heat:
            self.lines[-1] += f"({heat})"

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in _UNSEEN

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.lines[-1] += f" {data}"


def document(scale: float, **context: str) -> samples.Json:
    bounds = {"slowdown_low": 1.0, "slowdown_high": 1.1 * scale}
    energy = {"time_saved": 0.09, "energy_saved": 0.06}
    energy |= {"energy_saved_low": 0.05, "energy_saved_high": 0.07}
    rows = [
        samples.overlap(f"{PAIR}/grid:1x1", 1.04 * scale, **bounds),
        samples.overlap(f"{PAIR}/grid:8x8", 1.45 * scale, **energy),
        samples.overlap(f"{PAIR}/grid:16x16", 1.7, state="noisy", reason="load of 3 cores"),
        samples.overlap(f"{PAIR}/streams:1", 1.5, state="control", reason="one stream"),
        samples.row("Comm/AllReduce/bytes:67108864", real_time=0.5 * scale, busbw_GBps=250.0),
        samples.row("Comm/AllReduce/bytes:1024", error_occurred=True, error_message="it broke"),
        samples.row("Own/Thing/n:2", real_time=3.25),
    ]
    return samples.document(rows, **context)


def visible(folder: Path) -> str:
    """Write the report of a run compared with a base, and return its text."""
    base = samples.write(folder / "base.json", document(1.0))
    about = {"busy": "load 3.1", "gate": "off", "self_test": "failed: delays"}
    new = samples.write(folder / "new.json", document(1.25, **about) | {"incomplete": "killed"})
    page = folder / "page.html"
    across = ["--across", "gate"]
    assert report.main([str(new), "--base", str(base), "-o", str(page), *across]) == 0
    text = Text(page.read_text(encoding="utf-8"))
    lines = [line for one in text.lines if (line := " ".join(one.split()))]
    return "\n".join(lines).replace(f"{folder}/", "") + "\n"


def test_a_report_says_what_was_checked_by_eye(tmp_path: Path) -> None:
    assert visible(tmp_path).splitlines() == FILE.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        FILE.write_text(visible(Path(made)), encoding="utf-8")
