"""Renders pages from `templates/`: all text is escaped, and a page loads nothing, from nowhere."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from itertools import compress
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from suite.report.format.view import LEFT, Grid
from suite.report.html.links import GENERATOR

#: A number that a browser would break after its hyphen.
_SMALL = re.compile(r"\d[\d.]*e-\d+")


def _classes(grid: Grid, column: int, best: bool = False, long: bool = False) -> Markup:
    """Returns the attribute with the classes of a cell in this column; empty if it has none."""
    return _class_attribute((grid.align[column] == LEFT, column in grid.more, column in grid.narrow, best, long))


def _usual_classes(grid: Grid) -> list[Markup]:
    """Returns the same of the usual cell of each column, which a large table asks for once."""
    return [_classes(grid, column) for column in range(len(grid.headers))]


def unbroken(text: object) -> Markup:
    """Returns the text, in which no line breaks within a number such as 2e-06."""
    return Markup(_SMALL.sub(r'<span class="number">\g<0></span>', str(escape(text))))  # noqa: S704 - escaped


@cache
def _class_attribute(applies: tuple[bool, ...]) -> Markup:
    names = " ".join(compress(("text", "more", "broad", "best", "long"), applies))
    return Markup(f' class="{names}"' if names else "")  # noqa: S704 - names of this function


def render(template: str, **values: Any) -> str:
    """Returns the page. Its policy allows only the page's own style and script, by their digests."""
    style, script = _template("page.css"), _template("page.js")
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),  # noqa: S704 - files of this package, here and below
            script=Markup(script),  # noqa: S704
            style_policy=Markup(_digest(style)),  # noqa: S704
            script_policy=Markup(_digest(script)),  # noqa: S704
            **values,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("suite.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["unbroken"] = unbroken
    environment.globals |= {"classes": _classes, "usual_classes": _usual_classes, "generator": GENERATOR}
    return environment


def _template(name: str) -> str:
    environment = _environment()
    assert environment.loader
    return environment.loader.get_source(environment, name)[0]


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
