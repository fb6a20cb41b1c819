"""Lists of the documentation that are made of declarations: ``UPDATE_GOLDEN=1 pytest tests/docs`` writes them anew."""

from __future__ import annotations

import os
import re

import pytest

from suite.analysis.records.ledger import CHECKS
from suite.verify.rules import RULES
from tests.documents import ROOT
from workloads.spec import WORKLOADS, read_declaration

#: What the bounds on a fingerprint are of, by their names.
BOUNDED = {
    "first_loss": "loss of step 1",
    "early_losses": "loss of steps 2 to 4",
    "early_updates": "norm of each tensor's update after two steps",
    "losses": "loss of later steps",
    "updates": "norm of each tensor's update after later steps",
}


def _list_bounds() -> list[str]:
    bounds = {name: read_declaration(name).bounds["fp32"] for name in WORKLOADS}
    rows = [[words, *(f"{getattr(each, name):g}" for each in bounds.values())] for name, words in BOUNDED.items()]
    head = ["agrees within", *(read_declaration(name).title for name in bounds)]
    return [f"| {' | '.join(line)} |" for line in (head, [":--"] * len(head), *rows)]


#: The page of each list, and its lines.
TABLES = {
    "rules": (
        "lab/bundles.md",
        [f"{each.number}. **{each.name}**: {each.reason}. Stops: {each.stops}" for each in RULES],
    ),
    "bounds": ("lab/identity.md", _list_bounds()),
    "ledger": ("lab/ledger.md", [f"- {check.what}: {check.bound}" for check in CHECKS]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_is_declared(name: str) -> None:
    page, lines = TABLES[name]
    path = ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")
    table = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    made = table.sub(lambda found: found[1] + "\n" + "\n".join(lines) + "\n\n" + found[2], text)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")
