"""Builds the documentation with Sphinx: `tox run -e docs`.

The pages are plain Markdown with links that work in the repository. Here the links are changed to those of the
published site, where this documentation lies in ``docs/``, beside ``results/``.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from suite import __version__

ROOT = Path(__file__).resolve().parents[1]

project = "Framework training suite"
author = "Framework training suite maintainers"
version = release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_site"]
nitpicky = True

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
myst_url_schemes = {"http": None, "https": None} | {
    name: f"{up}results/{{{{path}}}}" for name, up in (("results", "../"), ("results-of-lab", "../../"))
}

smartquotes = False  # which would make one dash of the two before an option

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["suite.css"]
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}

#: Pages whose text is a file of the repository. The page itself only links to that file, for readers on a code host.
COPIES = {
    "contributing": "CONTRIBUTING.md",
    "changes": "CHANGELOG.md",
    "results-folder": "results/README.md",
    "launches-table": "results/SCHEMA.md",
}
PAGES = {path: f"{name}.md" for name, path in COPIES.items()} | {"README.md": "index.md"}

FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"[\d.,]+ \([\d.,\W]+\)|(same|undecided) \(\S+\)|\w+ \d/\d|[\d.,]+<br>.*", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def read(_app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the text of a page by the file that it stands for, and its links by those of the site."""
    path = COPIES.get(name, f"docs/{name}.md")
    folder = posixpath.dirname(name)
    text = (ROOT / path).read_text(encoding="utf-8") if name in COPIES else source[0]
    pieces, last = [], 0
    for fence in FENCE.finditer(text):
        pieces += [_linked(text[last : fence.start()], path, folder), fence.group()]
        last = fence.end()
    source[0] = "".join([*pieces, _linked(text[last:], path, folder)])


def _linked(text: str, path: str, folder: str) -> str:
    return LINK.sub(lambda found: f"]({_target(found[1], path, folder)}{found[2] or ''})", text)


def _target(link: str, path: str, folder: str) -> str:
    """Where a link of the file at this path leads, from a page in this folder of the documentation."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if target in PAGES:
        return posixpath.relpath(PAGES[target], folder or ".")
    up = "../../" if folder else "../"
    if target.startswith("results/"):
        if target.endswith(".png"):
            return f"{up}{target}"
        shown = re.sub(r"/table\.md$", "/report.html", target)
        return f"{'results-of-lab' if folder else 'results'}:{shown.removeprefix('results/')}"
    return posixpath.relpath(target, posixpath.join("docs", folder))


def keep_figures(_app: Sphinx, page: nodes.document) -> None:
    """Mark the cells of tables that hold a figure, so that the style sheet can keep each on one line."""
    for cell in page.findall(nodes.entry):
        if FIGURE.fullmatch(cell.astext()):
            cell["classes"].append("value")


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)
    app.connect("doctree-read", keep_figures)
