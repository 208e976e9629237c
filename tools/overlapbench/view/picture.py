"""One drawing as a file: a picture or an offline page, depending on the suffix."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vl_convert

from overlapbench.reading.source import ResultError
from overlapbench.view import theme
from overlapbench.view.page import render_template, vega_libraries
from overlapbench.view.vega import VERSION

SUFFIXES = (".png", ".svg", ".html")


def require_suffix(path: Path) -> None:
    """Refuse a file name whose suffix is unknown."""
    if path.suffix not in SUFFIXES:
        raise ResultError(f"-o {path}: the name must end in {', '.join(SUFFIXES)}")


def render(specification: Mapping[str, Any], title: str, suffix: str, hint: str = "") -> bytes:
    """Return the file's contents; a page also shows a hint on how to use it."""
    drawn: dict[str, Any] = {"vl_spec": dict(specification), "config": theme.LIGHT}
    drawn["vl_version"] = VERSION
    if suffix == ".png":
        return vl_convert.vegalite_to_png(scale=theme.SCALE, **drawn)
    if suffix == ".svg":
        return vl_convert.vegalite_to_svg(**drawn).encode()
    return render_template(
        "picture.html",
        title=title,
        hint=hint,
        specification=specification,
        light=theme.LIGHT,
        dark=theme.DARK,
        vega=vega_libraries(),
    )
