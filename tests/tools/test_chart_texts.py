"""Every chart as text: titles, units, marks and sums of the figures, as they were checked by eye.

    python tests/tools/test_chart_texts.py    writes tests/data/charts.txt anew

A difference is either a fault, or needs a look at each changed line before the file is written.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import samples
from overlapbench.reading.result import parse_result
from overlapbench.view.chart import draw_charts

FILE = Path(__file__).parents[1] / "data/charts.txt"
_LISTED = 3  # different texts of a field
_SAME = {"name", "file", "problem", "trusted", "panel"}  # fields of the data that rows have anyway


def described() -> str:
    """Describe all charts of a whole run with intervals."""
    document = samples.with_intervals(samples.document(samples.full_run()))
    charts = draw_charts([parse_result("run.json", json.dumps(document))], "made up", True)
    lines: list[str] = []
    for chart in charts:
        lines += [f"== {chart.name}", *dict.fromkeys(_lines(chart.spec))]
    return "\n".join(lines) + "\n"


def _lines(node: Any) -> Iterator[str]:
    """Describe a specification and all parts of it."""
    if isinstance(title := node.get("title", {}), str):
        title = {"text": title}
    for told in (title.get("text", []), title.get("subtitle", [])):
        yield from [told] if isinstance(told, str) else told
    if data := node.get("data"):
        yield _figures(data["values"])
    if "mark" in node:
        conditions = [one["filter"] for one in node.get("transform", []) if "filter" in one]
        yield f"{node['mark']['type']} {' '.join(map(str, conditions))}".rstrip()
        yield from (_channel(*one) for one in node["encoding"].items() if one[0] != "tooltip")
    for key in ("layer", "concat", "vconcat"):
        for part in node.get(key, []):
            yield from _lines(part)


def _channel(channel: str, encoding: Any) -> str:
    scale = encoding.get("scale") or {}
    looks = [encoding.get("field") or encoding.get("value"), encoding.get("title")]
    looks += [scale.get("type"), scale.get("zero"), (encoding.get("axis") or {}).get("format")]
    return f"{channel}: {', '.join(str(look) for look in looks if look is not None)}"


def _figures(records: list[dict[str, Any]]) -> str:
    """Sum up the numbers of each field of the data, and count its different texts."""
    names = dict.fromkeys(name for record in records for name in record if name not in _SAME)
    told = [f"{len(records)} records"]
    for name in names:
        values = [record[name] for record in records if name in record]
        numbers = [value for value in values if isinstance(value, int | float)]
        texts = list(dict.fromkeys(value for value in values if isinstance(value, str)))
        shown = [f"{sum(numbers):.6g}"] * bool(numbers) + texts[:_LISTED]
        shown += [f"{len(texts)} in all"] * (len(texts) > _LISTED)
        told.append(f"{name} {' | '.join(shown)}")
    return "; ".join(told)


def test_every_title_unit_and_figure_is_as_it_was_checked() -> None:
    assert described().splitlines() == FILE.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    FILE.write_text(described(), encoding="utf-8")
