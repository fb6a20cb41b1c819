"""Checks what this machine can measure, and says how to fix what it cannot: ``training-suite doctor``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from suite.doctor.checks import BAD, MARKS, NOTE, OK, WARNING, Finding, data, frameworks, gpus, host, launching
from suite.doctor.probes import ANSWER_WITHIN_S, Installed, ask_all, installation
from suite.plan.cell import FRAMEWORKS
from suite.plan.command.common import DATA_DIR, command, duration, one_of, option
from suite.record.parts.environment import machine
from workloads.data.progress import waiting

COLOURS = {OK: "green", NOTE: "", WARNING: "yellow", BAD: "bold red"}

EPILOG = """\
Each line names an area, says what was found and, after an arrow, how to fix it. `!!` marks a problem that prevents
measuring, `!` one that makes results worse or less certain.

Progress goes to stderr. A framework that does not answer in time may still be installed; its line says so.

exit status: 0 this machine can measure, 1 it cannot, 2 wrong usage
"""


@command(
    "suite.doctor", __doc__, EPILOG,
    option("--json", action="store_true", help="print JSON: the findings and what they are based on"),
    DATA_DIR,
    option("--wait", type=duration, default=ANSWER_WITHIN_S, metavar="TIME",
           help=f"how long the frameworks may take to answer, all at the same time (default: {ANSWER_WITHIN_S:g} s)"),
    option("--framework", type=one_of("framework", FRAMEWORKS), help=argparse.SUPPRESS),
    option("--answer", help=argparse.SUPPRESS),  # where that one writes what it found
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Run all checks and print their findings; the exit status says whether this machine can measure."""
    if options.answer:
        Path(options.answer).write_text(json.dumps(installation(options.framework)))
        return 0
    driver, findings, gpu_descriptions = gpus()
    findings = [*host(), *launching(), *data(options.data_dir), *findings]
    answers = _answers(options.wait)
    installed = {name: answers[name] for name in FRAMEWORKS}
    findings += frameworks(installed, driver)
    if options.json:
        facts = {"machine": machine(), "gpus": gpu_descriptions, "frameworks": installed}
        print(json.dumps({**facts, "findings": [asdict(each) for each in findings]}))
    else:
        show(findings)
    return int(any(finding.status == BAD for finding in findings))


def _answers(wait_s: float) -> dict[str, Installed]:
    """Returns the answers of all frameworks; shows who is still asked, with a spinner in a terminal."""
    if not sys.stderr.isatty():
        return dict(ask_all(wait_s, lambda line: print(line, file=sys.stderr, flush=True)))
    with waiting("asking the frameworks") as describe:
        return dict(ask_all(wait_s, describe))


def show(findings: Sequence[Finding]) -> None:
    """Print a line per finding, wrapped and coloured in a terminal; as plain text if rich is not installed."""
    try:
        from suite.report.format.terminal import Terminal
    except ImportError:
        print("\n".join(map(str, findings)))
        return
    rows = [
        (MARKS[each.status], each.area, f"{each.text}\n-> {each.mend}" if each.mend else each.text) for each in findings
    ]
    Terminal().show_rows(rows, [COLOURS[each.status] for each in findings])


if __name__ == "__main__":
    sys.exit(main())
