"""The table of rules in docs/submit.md is made from the rules: ``UPDATE_GOLDEN=1 pytest tests/docs`` writes it anew."""

from __future__ import annotations

import os
import re

from suite.verify.rules import RULES
from tests.documents import ROOT

PAGE = ROOT / "docs" / "submit.md"
TABLE = re.compile(r"(<!-- rules -->\n).*?(<!-- end of rules -->)", re.DOTALL)


def test_the_table_of_rules_is_the_rules() -> None:
    lines = ["| | rule | reason | stops |", "| :-- | :-- | :-- | :-- |"]
    lines += [f"| {rule.number} | {rule.name} | {rule.reason} | {rule.stops} |" for rule in RULES]
    text = PAGE.read_text(encoding="utf-8")
    made = TABLE.sub(lambda found: found[1] + "\n" + "\n".join(lines) + "\n\n" + found[2], text)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
    assert made == PAGE.read_text(encoding="utf-8")
