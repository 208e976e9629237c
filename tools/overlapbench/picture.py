"""One drawing as a file: a picture, or a page that works offline, as its suffix says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import vl_convert

from overlapbench import theme
from overlapbench.chart import VEGA_LITE_VERSION
from overlapbench.page import page_environment, vega_libraries
from overlapbench.source import ResultError


def require_suffix(path: Path) -> None:
    """Refuse a name that does not say what to write."""
    if path.suffix not in RENDERERS:
        raise ResultError(f"-o {path}: the name must end in {', '.join(RENDERERS)}")


def render(specification: Mapping[str, Any], title: str, suffix: str, hint: str = "") -> bytes:
    """Return the file; a page also says in a hint what can be done with it."""
    return RENDERERS[suffix](dict(specification), title, hint)


def _picture(
    convert: Callable[..., Any], **options: Any
) -> Callable[[dict[str, Any], str, str], bytes]:
    def picture(specification: dict[str, Any], _title: str, _hint: str) -> bytes:
        made = convert(specification, vl_version=VEGA_LITE_VERSION, config=theme.LIGHT, **options)
        return made.encode() if isinstance(made, str) else bytes(made)

    return picture


def _page(specification: dict[str, Any], title: str, hint: str) -> bytes:
    page = (
        page_environment()
        .get_template("picture.html")
        .render(
            title=title,
            hint=hint,
            specification=specification,
            light=theme.LIGHT,
            dark=theme.DARK,
            vega=vega_libraries(),
        )
    )
    return page.encode(errors="replace")  # halves of characters, which JSON can hold


RENDERERS: Mapping[str, Callable[[dict[str, Any], str, str], bytes]] = {
    ".png": _picture(vl_convert.vegalite_to_png, scale=theme.SCALE),
    ".svg": _picture(vl_convert.vegalite_to_svg),
    ".html": _page,
}
