"""``training-suite verify FILE...``: checks bundles by numbered rules, one line each."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from suite.plan.command.common import command, one_of, option
from suite.plan.schema import SchemaError, decode
from suite.record.text import clean
from suite.verify.rule import FAILED, WARNING, Answer
from suite.verify.rules import RULES, verify
from workloads.data.files import read_regular

MARKS = {FAILED: "!!", WARNING: " !"}

#: Bytes of an answer in JSON, at most.
LARGEST = 1 << 20

EPILOG = """\
docs/lab/bundles.md lists the rules, with the reason of each and the fault that it stops, and what no rule can stop.

exit status: 0 all files are accepted, warnings or not; 1 a rule refuses one; 2 a file cannot be read
"""


@dataclass(frozen=True)
class Said:
    """One rule's answer in JSON, as another process hands it on."""

    rule: Annotated[int, Meta(ge=1, le=len(RULES))]
    kind: Literal["passed", "warning", "failed", "not reached"]
    why: Annotated[str, Meta(max_length=500)] = ""
    mend: Annotated[str, Meta(max_length=200)] = ""


@dataclass(frozen=True)
class Checked:
    file: Annotated[str, Meta(max_length=200)]
    rules: Annotated[tuple[Said, ...], Meta(max_length=len(RULES))]


@command(
    "suite.verify", __doc__, EPILOG,
    option("file", nargs="+", type=Path, metavar="FILE", help="a bundle of training-suite submit"),
    option("--format", type=one_of("format", ("text", "json")), default="text", metavar="{text,json}",
           help="what to print (default: text)"),
    option("--table", action="store_true", help="print what --format json wrote to FILE as Markdown"),
)  # fmt: skip
def main(options: Namespace) -> int:
    """Print what each rule says of each file."""
    if options.table:
        print("\n".join(map(table, options.file)))
        return 0
    answers = {path: verify(path) for path in options.file}
    if options.format == "json":
        print(json.dumps([_json(path, each) for path, each in answers.items()]))
    else:
        print("\n\n".join(_text(path, each) for path, each in answers.items()))
    return int(any(answer.kind == FAILED for each in answers.values() for answer in each))


def _text(path: Path, answers: Sequence[Answer]) -> str:
    lines = [clean(path.name, 200)]
    for answer in answers:
        words = ": ".join(filter(None, [answer.kind, answer.why]))
        mend = f" -> {answer.mend}" if answer.mend else ""
        lines.append(f"{MARKS.get(answer.kind, '  ')} {answer.rule.number:2} {answer.rule.name:10} {words}{mend}")
    return "\n".join([*lines, f"   {verdict([each.kind for each in answers])}"])


def verdict(kinds: Sequence[str]) -> str:
    """The answers of all rules in a few words."""
    failed, warned = kinds.count(FAILED), kinds.count(WARNING)
    return f"{f'refused by {failed}' if failed else 'accepted by all'} rules, {warned} warnings"


def _json(path: Path, answers: Sequence[Answer]) -> Mapping[str, Any]:
    said = [{"rule": each.rule.number, "kind": each.kind, "why": each.why, "mend": each.mend} for each in answers]
    return {"file": clean(path.name, 200), "rules": said}


def table(path: Path) -> str:
    """The answers in a file, which anybody may have written, as Markdown. Raises `SchemaError`, and `OSError`."""
    try:
        found = json.loads(read_regular(path, LARGEST))
    except (ValueError, RecursionError):
        raise SchemaError(f"{path.name} is no JSON") from None
    if not isinstance(found, list) or len(found) > 1:
        raise SchemaError(f"{path.name} has not one file's answers")
    lines = []
    for each in (decode(Checked, one) for one in found):
        lines += [f"**{_escape(each.file)}**: {verdict([said.kind for said in each.rules])}", ""]
        lines += ["| rule | | why | what to do |", "|:--|:--|:--|:--|"]
        lines += [
            f"| {said.rule} {RULES[said.rule - 1].name} | {said.kind} | {_escape(said.why)} | {_escape(said.mend)} |"
            for said in each.rules
        ]
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Words of a stranger in Markdown, in which nobody is called either."""
    from suite.report.screen.markdown import escape  # pandas and SciPy, which checking a file does not need

    return escape(clean(text, 500)).replace("@", "(at)")


if __name__ == "__main__":
    sys.exit(main())
