"""The README's picture: an all-gather beside a product, by NCCL and by copy engine.

    PYTHONPATH=tools python3 docs/examples/two_transports.py docs/images/transports.svg

It draws two recorded rows as `ob.plot` does, with one time axis.
"""

import sys
from pathlib import Path
from typing import Any

import overlapbench as ob
from overlapbench.view import page, row_chart

RECORDED = Path(__file__).parents[1] / "results/h200x2/transport-pairs.json"
PAIR = "Overlap/AllGather+CublasGemm/bytes:1073741824/{}cache:cold"
ROWS = {
    "NCCL: its kernel waits for the product's SMs": "n:8192/precision:bf16/",
    "Copy engines: they need no SMs": "transport:copy/n:8192/precision:bf16/sm_target:116/",
}


def picture() -> str:
    """Return the picture as SVG."""
    rows = {str(row.name): row for row in ob.read(RECORDED)}
    panels = [panel(title, rows[PAIR.format(settings)]) for title, settings in ROWS.items()]
    return page.to_svg({"vconcat": panels, "resolve": {"scale": {"x": "shared"}}})


def panel(title: str, row: ob.Row) -> dict[str, Any]:
    """Return a row's bars under a title that tells what they show."""
    told = f"C the product alone, M the all-gather alone, T both: {row.slowdown:.2f} × the longer"
    return {**row_chart.specification(row), "title": {"text": title, "subtitle": told}}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
