"""Drawings as files: pictures, pages that show one drawing, and the page of all charts.

`index.html` has every chart, how to read it, and where the figures come from. A page is one file
that needs no network: the Vega libraries are inside. It follows the reader's light or dark system
theme. The layout is in page.html, which escapes what comes from result files.
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from overlapbench.reading.result import Result
from overlapbench.view import theme
from overlapbench.view.charts.finish import KNEE_MEANING
from overlapbench.view.vega import VERSION, Drawing, Spec

_TEMPLATES = Path(__file__).parent
# Keys of Google Benchmark's context that say nothing about the figures.
LEFT_OUT = frozenset({"caches", "executable", "json_schema_version", "load_avg"})
_FIGURES_IN_TOOLTIPS = {"numberFormat": ".4~r"}


def to_svg(specification: Spec) -> str:
    return vl_convert.vegalite_to_svg(specification, vl_version=VERSION, config=theme.LIGHT)


def pictures(name: str, specification: Spec) -> dict[str, bytes]:
    """Render the files `NAME.png` and `NAME.svg`, the former from the latter."""
    svg = to_svg(specification)
    png = vl_convert.svg_to_png(svg, scale=theme.SCALE)
    return {f"{name}.png": png, f"{name}.svg": svg.encode()}


def render(specification: Spec, suffix: str, hint: str = "") -> bytes:
    """Return the file's contents; a page also shows a hint on how to use it."""
    if suffix != ".html":
        return pictures("", specification)[suffix]
    title, told = (" ".join(specification["title"][part]) for part in ("text", "subtitle"))
    notes = told, hint
    drawing = Drawing("picture", title, [specification], [*filter(None, notes)], specification)
    return render_page(title, [], [drawing])


def render_page(title: str, results: Sequence[Result], charts: Sequence[Drawing]) -> bytes:
    """Return a page of charts, of results if there are any, as UTF-8."""
    return render_template(
        "page.html",
        title=title,
        results=results,
        charts=charts,
        bad_rows=[row for result in results for row in result.rows if row.bad],
        host_figures=", ".join(result.label for result in results if result.backend == "host"),
        knee=KNEE_MEANING,
        vega=vega_libraries(),
        charts_script=inserted("charts.js"),
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
    environment.filters["untitled"] = _untitled
    environment.globals["left_out"] = LEFT_OUT
    environment.globals["looks"] = {
        name: {**config, "tooltipFormat": _FIGURES_IN_TOOLTIPS}
        for name, config in (("light", theme.LIGHT), ("dark", theme.DARK))
    }
    return environment


def _untitled(specification: Spec) -> Spec:
    """Return a chart's specification for a page that writes the title and notes itself."""
    return {key: value for key, value in specification.items() if key != "title"}


def inserted(file: str) -> Markup:
    """Return a file of this folder, such as a script, that a page contains as it is."""
    return Markup((_TEMPLATES / file).read_text(encoding="utf-8"))


@functools.cache
def vega_libraries() -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed as a script that cannot end its own element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION)
    return Markup(re.sub("<(?=!--|/?script)", r"\\x3C", script, flags=re.IGNORECASE))
