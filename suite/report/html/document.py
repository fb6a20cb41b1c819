"""Renders pages from `templates/`: all text is escaped, and a page loads nothing, from nowhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@dataclass(frozen=True)
class PageTable:
    """A table of a page, with the columns of `suite.report.format.view.Grid`. ``rows`` are iterated once.

    Columns in ``more`` are hidden until the reader asks for them, and those in ``narrow`` on a narrow screen.
    """

    id: str
    caption: str
    headers: Sequence[str]
    rows: Iterable[Sequence[str]]
    align: Sequence[str]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()
    more: frozenset[int] = frozenset()
    narrow: frozenset[int] = frozenset()


def render(template: str, looks: str = "", **values: Any) -> str:
    """Returns the page. Its policy allows only the page's own style and script, by their digests.

    ``looks`` is the style of the page's pictures.
    """
    style, script = _template("page.css") + looks, _template("page.js")
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
    return Environment(
        loader=PackageLoader("suite.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _template(name: str) -> str:
    environment = _environment()
    assert environment.loader
    return environment.loader.get_source(environment, name)[0]


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
