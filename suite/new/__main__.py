"""Writes the folder of a new workload, which runs as it stands: ``training-suite new workload NAME``."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path

from framework_training_suite import CommandError, typed
from suite.plan.command.common import FRAMEWORK, command, option
from workloads.registry import FRAMEWORK_FILES, NAME
from workloads.spec import WORKLOADS

TEMPLATE = Path(__file__).parent / "template"

EPILOG = """\
examples:
  training-suite new workload my_model                        all three frameworks
  training-suite new workload my_model --framework pytorch    one of them; add the others' files when you port it

exit status: 0; 1 if the folder cannot be written; 2 for wrong usage
"""


@command(
    "suite.new", __doc__, EPILOG,
    option("what", choices=("workload",), metavar="workload", help="what to write"),
    option("name", metavar="NAME", help="small letters, digits and underscores"),
    FRAMEWORK,
    option("--into", type=Path, default=Path(), metavar="DIR", help="default: this folder"),
)  # fmt: skip
def main(options: Namespace) -> int:
    """Write the folder and say what to run next; nothing that exists is replaced."""
    if not NAME.fullmatch(options.name):
        rule = "use small letters, digits and underscores, at most 40, first a letter"
        raise CommandError(f"NAME is {options.name!r}; {rule}")
    if options.name in WORKLOADS:
        raise CommandError(f"NAME is {options.name!r}, a workload of the suite; choose another, so that no answer is "
                           "mistaken")  # fmt: skip
    folder: Path = options.into / options.name
    files = ("spec", "data", *(options.framework or FRAMEWORK_FILES))
    if os.path.lexists(folder):
        print(
            f"training-suite new: {folder} is there already, and stays as it is; choose another name", file=sys.stderr
        )
        return 1
    partial = options.into / f".{options.name}-{os.getpid()}"
    try:
        partial.mkdir(parents=True)
        for file in files:
            text = (TEMPLATE / f"{file}.py.txt").read_text(encoding="utf-8").replace("NAME", options.name)
            (partial / f"{file}.py").write_text(text, encoding="utf-8")
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        print(f"training-suite new: {folder} cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    print(f"wrote {folder}: {', '.join(f'{file}.py' for file in files)}")
    print(f"\nIs it the same model in all of them?   {typed(f'training-suite prove {folder}')}")
    print(f"How fast is it?                        {typed(f'training-suite run --workloads {folder}')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
