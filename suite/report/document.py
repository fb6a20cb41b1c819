"""Renders pages from `templates/`: all text is escaped, and a page loads nothing but pictures beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

#: Where a page's pictures may come from: the page itself, or files beside it. `file:` is for browsers in which a page
#: opened from a disk has no `'self'`.
EMBEDDED, BESIDE = "data:", "'self' file:"


@dataclass(frozen=True)
class PageTable:
    """A table of a page, with the columns of `suite.report.view.Grid`. ``rows`` are iterated once."""

    id: str
    caption: str
    headers: Sequence[str]
    rows: Iterable[Sequence[str]]
    align: Sequence[str]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()


def render(template: str, images: str = EMBEDDED, **values: Any) -> str:
    """Returns the page. Its policy allows ``images``, and only the page's own style and script, by their hashes."""
    own = {name: _source(f"page.{suffix}") for name, suffix in (("style", "css"), ("script", "js"))}
    hashes = {f"{name}_hash": _hash(text) for name, text in own.items()}
    trusted = {name: Markup(text) for name, text in own.items()}  # noqa: S704 - files of this package
    return _environment().get_template(template).render(images=images, **trusted, **hashes, **values)


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


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader
    return environment.loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
