"""Where pages lead, and who made them: read without what renders them."""

from __future__ import annotations

from dataclasses import dataclass

#: What the pages of a site say that they were made by.
GENERATOR = "suite.compare"


@dataclass(frozen=True)
class Link:
    """A link to another file, or to a part of the page."""

    text: str
    address: str
