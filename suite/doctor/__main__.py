"""What can this machine measure, and how is what it cannot mended? ``python -m suite.doctor``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from suite.doctor.checks import BAD, MARKS, NOTE, OK, WARNING, Finding, data, frameworks, gpus, host
from suite.plan.cell import FRAMEWORKS, PRECISIONS, Cell
from suite.record.environment import machine
from suite.session.launch import LateError, LaunchError, ask
from suite.worker.frameworks import UnsupportedError

#: All frameworks are asked at once, so that this is about how long the command takes at most.
ANSWER_WITHIN_S = 12.0

COLOURS = {OK: "green", NOTE: "", WARNING: "yellow", BAD: "bold red"}

EPILOG = """\
Each line has an area, what was found and, after an arrow, how to mend it. `!!` stands before what keeps this machine
from measuring, `!` before what makes figures worse or less sure.

exit status: 0 it can measure, 1 it cannot, 2 wrong usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Look, print, and say by the exit status whether this machine can measure."""
    parser = argparse.ArgumentParser(
        prog="python -m suite.doctor", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="for machines: a list of findings, and what was found out")
    parser.add_argument("--data-dir", metavar="DIR", help="official archives or folders (default: $SUITE_DATA_DIR)")
    parser.add_argument(
        "--wait", type=float, default=ANSWER_WITHIN_S, metavar="S",
        help=f"seconds that each framework has to answer (default: {ANSWER_WITHIN_S:g})",
    )  # fmt: skip
    parser.add_argument("--framework", choices=FRAMEWORKS, help=argparse.SUPPRESS)  # in its own interpreter
    parser.add_argument("--answer", help=argparse.SUPPRESS)  # where that one writes what it found
    options = parser.parse_args(arguments)
    if options.answer:
        Path(options.answer).write_text(json.dumps(installation(options.framework)))
        return 0
    with ThreadPoolExecutor() as pool:
        asked = {name: pool.submit(_asked, name, options.wait) for name in FRAMEWORKS}
        driver, findings, described = gpus()
        findings = [*host(), *data(options.data_dir), *findings]
        installed = {name: each.result() for name, each in asked.items()}
    findings += frameworks(installed, driver)
    if options.json:
        told = {"machine": machine(), "gpus": described, "frameworks": installed}
        print(json.dumps({**told, "findings": [asdict(each) for each in findings]}))
    else:
        show(findings)
    return int(any(finding.status == BAD for finding in findings))


def installation(framework: str) -> dict[str, Any]:
    """What a framework says of itself: versions, devices, and which precisions it has here, or why not."""
    adapter = import_module(f"suite.worker.frameworks.{framework}")
    found: dict[str, Any] = adapter.installation()
    found["precisions"] = {}
    for precision in PRECISIONS:
        try:
            adapter.prepare(Cell("cifar100_cnn", framework, precision=precision), "auto", 0)
            found["precisions"][precision] = ""
        except UnsupportedError as error:
            found["precisions"][precision] = str(error)
    return found


def show(findings: Sequence[Finding]) -> None:
    """A line each, folded and coloured in a terminal; without rich, which may be missing here, as it stands."""
    try:
        from suite.report.terminal import Terminal
    except ImportError:
        print("\n".join(map(str, findings)))
        return
    rows = [
        (MARKS[each.status], each.area, f"{each.text}\n-> {each.mend}" if each.mend else each.text) for each in findings
    ]
    Terminal().show_rows(rows, [COLOURS[each.status] for each in findings])


def _asked(framework: str, wait_s: float) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ask(framework, "suite.doctor", ["--framework", framework], wait_s)
    except LateError as error:
        mend = f"ask again, as files read once are read faster, or for longer: --wait {5 * wait_s:g}"
        return {"error": str(error), "mend": mend}
    except LaunchError as error:
        return {"error": str(error)}
    return found


if __name__ == "__main__":
    sys.exit(main())
