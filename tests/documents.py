"""The Markdown that readers meet: its pages, code blocks, links and headings, and the tables made from results."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "results" / name for name in ("README.md", "SCHEMA.md")),
        *ROOT.glob("docs/**/*.md"),
    ]
)

FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n+)?^(?P<indent> *)```(?P<language>[\w{}]*)[^\n]*\n(?P<text>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
COMMENT = re.compile(r"(^|\s)#.*$")


@dataclass(frozen=True)
class Block:
    """A code block. ``why`` is the reason why its lines are not run, empty for most."""

    page: Path
    language: str
    text: str
    why: str

    @property
    def file(self) -> str:
        """The file name in the comment of the first line, such as ``# sweep.toml``; empty without one."""
        found = re.match(r"# (\w+\.\w+)\n", self.text)
        return found[1] if found else ""

    @property
    def lines(self) -> list[str]:
        """The commands of a shell block, without comments."""
        joined = self.text.replace("\\\n", " ")
        return [line for text in joined.splitlines() if (line := COMMENT.sub("", text).strip())]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for found in FENCE.finditer(page.read_text(encoding="utf-8")):
            indent = len(found["indent"])
            text = "".join(line[indent:] for line in found["text"].splitlines(keepends=True))
            yield Block(page, found["language"], text, found["why"] or "")


def run_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run ``python -m NAME`` in this process, though another test may have imported a command already."""
    for module in [module for module in sys.modules if module.endswith(".__main__")]:
        monkeypatch.delitem(sys.modules, module)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """The targets of all links and pictures, but not of those to the web."""
    return [link for link in LINK.findall(prose(page)) if not link.startswith(("http://", "https://"))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts and the documentation form them."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        base = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")
        count = sum(re.fullmatch(rf"{re.escape(base)}(-\d+)?", other) is not None for other in found)
        found.add(f"{base}-{count}" if count else base)
    return found
