"""``training-suite submit``: makes one file of a run, for others to check and to set beside their own."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from framework_training_suite import typed
from suite.analysis.options import PRICE_HOUR, STORAGE_FOLDER
from suite.analysis.records.load import find
from suite.analysis.records.machines import gpus, processor
from suite.plan.command.common import JOURNAL_FOLDER, command, list_of, option
from suite.record.bundle import SUFFIX, BundleError, write
from suite.record.text import clean
from suite.submit.contents import Contents, contents, describe
from suite.submit.privacy import names_in

FOLDER = Path("results/submitted")

EPILOG = """\
The bundle has the records of all launches, in the order of the journal, the versions, the data's digests and what the
doctor says of the machine. There is no user, host, path or serial number in it; what is in it is shown before it is
written. Send it by a pull request that adds this one file (docs/submit.md).

exit status: 0 written, 1 not wanted, 2 unusable input or a file that cannot be written
"""


@command(
    "suite.submit", __doc__, EPILOG,
    option("run", nargs="?", metavar="RUN", help="a file, or a run's number or name (default: the last)"),
    option("--output", type=Path, default=FOLDER, metavar="DIR", help=f"default: {FOLDER}"),
    option("--redact", action="store_true",
           help="leave out more: variables, logs and reasons of failed launches, what was typed, all packages but the "
           "frameworks, the doctor"),
    option("--variable", **list_of(default=[]),
           help="send environment variables that are not known to tell nothing of you"),
    option("--yes", action="store_true", help="write without asking"),
    PRICE_HOUR, STORAGE_FOLDER, JOURNAL_FOLDER,
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Show what a bundle would hold, ask, and write it."""
    paths, notes = find([options.run] if options.run else [], options.storage)
    made = contents(
        paths[0], options.journals, redacted=options.redact, price_hour=options.price_hour, named=options.variable
    )
    print("\n".join([*describe(made), *(f"note         {clean(note)}" for note in notes)]))
    if left := next(names_in([*made.lines, made.about.run, made.about.doctor, made.about.installed]), ""):
        raise BundleError(f"{clean(left)} would be published; leave out more with --redact, or name it otherwise")
    if not options.yes and not _agrees():
        print("training-suite submit: nothing was written; answer y, or use --yes", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / name_of(made)
    size = write(path, made.about, made.lines)
    print(f"written: {path}, {size / 1000:.0f} kB. Check it with: {typed(f'training-suite verify {path}')}")
    return 0


def name_of(made: Contents) -> str:
    """A file's name that says device and run: ``nvidia-h100-20261124T201843-2755.bundle``."""
    first = next((record for record in made.records if record.outcome.ok), made.records[0])
    device = gpus(first) if first.settings.get("device") != "cpu" else ""
    words = f"{device or processor(first)}-{made.about.run.get('id')}"
    return re.sub(r"[^a-zA-Z0-9]+", "-", words).strip("-").lower()[:120] + SUFFIX


def _agrees() -> bool:
    """Whether somebody at a terminal says so; closed input is no, as is its end by Ctrl-D."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print("write it? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


if __name__ == "__main__":
    sys.exit(main())
