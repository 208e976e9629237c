"""The page `index.html`: every chart, how to read it, and where the figures come from.

It is one file that needs no network: the Vega libraries are inside. It follows the reader's light
or dark system theme. The layout is in page.html; what comes from result files is escaped there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from overlapbench import theme
from overlapbench.chart import VEGA_LITE_VERSION, Chart
from overlapbench.result import Result
from overlapbench.series import KNEE_MEANING

_TEMPLATE = Path(__file__).with_name("page.html")
# Of Google Benchmark's own context, what tells a reader nothing about the figures.
_LEFT_OUT = frozenset({"caches", "executable", "json_schema_version", "load_avg"})


def render_page(title: str, results: Sequence[Result], charts: Sequence[Chart]) -> bytes:
    """Return the page as UTF-8."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters["context_entries"] = _context_entries
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        title=title,
        results=results,
        charts=charts,
        bad_rows=[row for result in results for row in result.rows if row.problem],
        host_figures=", ".join(result.label for result in results if result.backend == "host"),
        knee=KNEE_MEANING,
        light=theme.LIGHT,
        dark=theme.DARK,
        specifications={chart.kind.name: chart.spec for chart in charts},
        vega=vega_libraries(),
    ).encode()


def _context_entries(context: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted((key, value) for key, value in context.items() if key not in _LEFT_OUT)


def vega_libraries() -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed as a script that cannot end its own element."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE_VERSION)
    return Markup(script.replace("</script", r"<\/script"))
