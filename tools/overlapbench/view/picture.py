"""Drawings as files: pictures, and offline pages that show one drawing."""

from pathlib import Path

import vl_convert

from overlapbench.output import ResultError
from overlapbench.view import theme
from overlapbench.view.page import render_template, vega_libraries
from overlapbench.view.vega import VERSION, Spec

SUFFIXES = (".png", ".svg", ".html")


def require_suffix(path: Path) -> None:
    """Refuse a file name whose suffix is unknown."""
    if path.suffix not in SUFFIXES:
        raise ResultError(f"-o {path}: the name must end in {', '.join(SUFFIXES)}")


def to_svg(specification: Spec) -> str:
    return vl_convert.vegalite_to_svg(specification, vl_version=VERSION, config=theme.LIGHT)


def pictures(name: str, specification: Spec) -> dict[str, bytes]:
    """Render the files `NAME.png` and `NAME.svg`, the former from the latter."""
    svg = to_svg(specification)
    png = vl_convert.svg_to_png(svg, scale=theme.SCALE)
    return {f"{name}.png": png, f"{name}.svg": svg.encode()}


def render(specification: Spec, title: str, suffix: str, hint: str = "") -> bytes:
    """Return the file's contents; a page also shows a hint on how to use it."""
    if suffix != ".html":
        return pictures("", specification)[suffix]
    return render_template(
        "picture.html",
        title=title,
        hint=hint,
        specification=specification,
        light=theme.LIGHT,
        dark=theme.DARK,
        vega=vega_libraries(),
    )
