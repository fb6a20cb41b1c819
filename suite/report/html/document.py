"""Renders pages from `templates/`: all text is escaped, and a page loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

#: Where a page's pictures may come from: the page itself, or files beside it. `file:` is for browsers in which a page
#: opened from a disk has no `'self'`.
EMBEDDED, BESIDE = "data:", "'self' file:"

#: The library that draws interactive charts, unchanged (`assets/README.md` says where it comes from), and its style.
LIBRARY, LIBRARY_STYLE = "uplot-1.6.32.js", "uplot-1.6.32.css"

#: The folder of a site that holds the script of the charts.
ASSETS = "assets"


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


@dataclass(frozen=True)
class Library:
    """How a page gets the script of its charts: from the relative ``address``, or embedded if there is none."""

    address: str = ""


def render(template: str, images: str = EMBEDDED, library: Library | None = None, **values: Any) -> str:
    """Returns the page. Its policy allows ``images`` and only the page's own style and scripts, by their hashes.

    With a ``library`` the page has interactive charts. Their script, if it is not embedded, is loaded by the page's own
    script, which `'strict-dynamic'` allows; over HTTP the browser checks the file's digest.
    """
    style, script = _template("page.css"), _template("page.js")
    scripts, integrity = [script], ""
    if library:
        style += asset(LIBRARY_STYLE)
        scripts = [script + _template("load.js")] if library.address else [script, charts_script()[1]]
        integrity = _hash(charts_script()[1])
    allowed = [f"'{_hash(text)}'" for text in scripts]
    allowed += ["'strict-dynamic'"] if library and library.address else []
    return (
        _environment()
        .get_template(template)
        .render(
            images=images,
            style=Markup(style),  # noqa: S704 - files of this package, here and below
            scripts=[Markup(text) for text in scripts],  # noqa: S704
            style_policy=Markup(f"'{_hash(style)}'"),  # noqa: S704
            script_policy=Markup(" ".join(allowed)),  # noqa: S704
            library=library,
            integrity=integrity,
            **values,
        )
    )


@cache
def charts_script() -> tuple[str, str]:
    """Returns name and text of the script that draws the charts, library included.

    The name has the digest of the text, so that pages of another version beside it keep theirs.
    """
    text = asset(LIBRARY).rstrip("\n") + "\n" + _template("charts.js")
    return f"charts-{hashlib.sha256(text.encode()).hexdigest()[:8]}.js", text


def asset(name: str) -> str:
    """Returns the text of a file in `assets/`."""
    return (resources.files("suite.report") / "assets" / name).read_text(encoding="utf-8")


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
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":"), "allow_nan": False}
    return environment


def _template(name: str) -> str:
    environment = _environment()
    assert environment.loader
    return environment.loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
