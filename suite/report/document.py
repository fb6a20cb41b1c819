"""The frame of a page: no network, a phone's width, black on white and the other way round."""

from __future__ import annotations

import base64
import hashlib
from html import escape

STYLE = """
:root { color-scheme: light dark; --line: #8886; --shade: #8881; --mark: #e6a10055; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: right; vertical-align: top; }
th { cursor: pointer; white-space: nowrap; position: sticky; top: 0; background: Canvas; }
th[aria-sort=ascending]::after { content: " \\2191"; } th[aria-sort=descending]::after { content: " \\2193"; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.best { background: var(--mark); font-weight: 600; }
tbody tr:hover { background: var(--shade); }
img { max-width: 100%; height: auto; background: white; }
input { font: inherit; padding: .2rem .5rem; margin: .5rem 0; width: min(20rem, 100%); box-sizing: border-box; }
ul { padding-left: 1.2rem; } .notes { font-size: .85rem; } .muted { opacity: .7; }
pre { overflow-x: auto; background: var(--shade); padding: .7rem; }
"""

SCRIPT = """
const number = text => {
  const found = text.replace(/,/g, "").match(/^-?[0-9.]+(e-?[0-9]+)?(?![0-9.]*-[0-9])/);
  return found ? +found[0] : null;
};
const sort = (table, column, down) => {
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [a, b].map(row => row.cells[column].textContent.trim());
    const [m, n] = [number(x), number(y)];
    const by = m !== null && n !== null ? m - n : m !== null ? -1 : n !== null ? 1 : x.localeCompare(y);
    return down ? -by : by;
  });
  table.tBodies[0].append(...rows);
};
for (const head of document.querySelectorAll("th")) {
  head.tabIndex = 0;
  const act = () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    sort(head.closest("table"), head.cellIndex, down);
  };
  head.addEventListener("click", act);
  head.addEventListener("keydown", event => { if (event.key === "Enter") act(); });
}
for (const field of document.querySelectorAll("input[type=search]")) {
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\\s+/);
    for (const row of document.getElementById(field.dataset.table).tBodies[0].rows)
      row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
  });
}
"""


def head(title: str, *more: str) -> list[str]:
    """The lines before the body. A policy lets nothing be fetched, and no style and script run but the page's own."""
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'"
    return [
        "<!doctype html>",
        '<html lang="en"><head>',
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        *more,
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        "</head>",
    ]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
