"""The page `index.html`: every chart, how to read it, and where the figures come from.

It is one file that needs no network: the Vega libraries are inside. It follows the reader's light
or dark system theme. The layout is in page.html; what comes from result files is escaped there.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from overlapbench.reading.result import Result
from overlapbench.view import theme
from overlapbench.view.chart import Chart
from overlapbench.view.series import KNEE_MEANING
from overlapbench.view.vega import VERSION

_TEMPLATES = Path(__file__).parent
# Keys of Google Benchmark's context that say nothing about the figures.
LEFT_OUT = frozenset({"caches", "executable", "json_schema_version", "load_avg"})
_FIGURES_IN_TOOLTIPS = {"numberFormat": ".4~r"}


def render_page(title: str, results: Sequence[Result], charts: Sequence[Chart]) -> bytes:
    """Return the page as UTF-8."""
    return render_template(
        "page.html",
        title=title,
        results=results,
        charts=charts,
        bad_rows=[row for result in results for row in result.rows if row.bad],
        host_figures=", ".join(result.label for result in results if result.backend == "host"),
        knee=KNEE_MEANING,
        vega=vega_libraries(),
        charts_script=charts_script(),
    )


def render_template(template: str, **values: object) -> bytes:
    """Return a filled template of this folder as UTF-8."""
    page = page_environment().get_template(template).render(values)
    return page.encode(errors="replace")  # lone surrogates, which JSON can contain


def page_environment() -> jinja2.Environment:
    """Return an environment for the templates of this folder, which escape all insertions.

    `looks` are the values that charts.css and figures.html use from the theme.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {"untitled": _untitled, "context_entries": _context_entries}
    environment.globals["looks"] = {
        name: {**config, "tooltipFormat": _FIGURES_IN_TOOLTIPS}
        for name, config in (("light", theme.LIGHT), ("dark", theme.DARK))
    }
    return environment


def _untitled(specification: Mapping[str, object]) -> dict[str, object]:
    """Return a chart's specification for a page that writes the title and notes itself."""
    return {key: value for key, value in specification.items() if key != "title"}


def charts_script() -> Markup:
    """Return the script that draws the charts of a page with Vega."""
    return Markup((_TEMPLATES / "charts.js").read_text(encoding="utf-8"))


def _context_entries(context: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted((key, value) for key, value in context.items() if key not in LEFT_OUT)


@functools.cache
def vega_libraries() -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed as a script that cannot end its own element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION)
    return inside_element(script)


def inside_element(script: str) -> Markup:
    """Return a script in which no text or pattern can end its element."""
    return Markup(re.sub("<(?=!--|/?script)", r"\\x3C", script, flags=re.IGNORECASE))
