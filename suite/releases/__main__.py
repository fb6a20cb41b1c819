"""Lists the releases of a framework, and builds or removes their environments: ``training-suite releases``."""

from __future__ import annotations

import argparse
import sys

from suite.catalog.defects import DEFECTS, find_defects
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.versions import INSTALLED
from suite.plan.command.common import command, one_of, option
from suite.plan.matrix import MatrixError
from suite.plan.sweeps.sweep import parse_values
from suite.releases.environments import Environment, build, folder, list_built, remove, say_defects, size_of
from suite.releases.index import releases, resolve
from suite.releases.uv import pythons
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT, RIGHT, Grid, View

EPILOG = """\
examples:
  training-suite releases                            what is built here, of all frameworks
  training-suite releases jax                        what there is, and what fits the Pythons of this machine
  training-suite releases jax --build 0.9.2,0.10.2,newest
  training-suite releases jax --remove 0.9.2
  training-suite run --workload imdb_lstm --release jax=0.9.2,0.10.2    builds what is missing, and measures

Environments are in the cache folder (SUITE_CACHE_DIR). They are built by uv, with the newest Python of this machine
that the release fits. docs/releases.md explains more.

exit status: 0; 2 for wrong usage, or where something cannot be built or removed; 130 if interrupted
"""


@command(
    "suite.releases", __doc__, EPILOG,
    option("framework", nargs="?", type=one_of("framework", FRAMEWORKS), metavar="FRAMEWORK",
           help=", ".join(FRAMEWORKS)),
    option("--build", metavar="LIST",
           help="build these, where they are not built yet, such as 0.9.2,newest or jax=0.9.2"),
    option("--remove", metavar="LIST", help="remove these, such as 0.9.2,newest or jax=0.9.2"),
    then="what was built before is kept",
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """List, build or remove, and return the exit status."""
    for framework, release in _parse_names(options.framework, options.remove):
        print(f"{framework} {release}: removed, {remove(framework, release) / 1e6:,.0f} MB")
    for framework, release in _parse_names(options.framework, options.build):
        say_defects(framework, release, print)
        build(framework, release, lambda text: print(text, flush=True))
    if not options.build and not options.remove:
        _list(options.framework)
    return 0


def _parse_names(framework: str | None, text: str | None) -> list[tuple[str, str]]:
    if text is None:
        return []
    values = parse_values("release", text if "=" in text or not framework else f"{framework}={text}")
    chosen = [value.partition("=") for value in resolve(values)]
    if wrong := next((name for name, _, release in chosen if release in ("", INSTALLED)), ""):
        raise MatrixError(f"{wrong} names no release; write a version, such as {wrong}=0.9.2")
    return [(name, release) for name, _, release in chosen]


def _list(framework: str | None) -> None:
    terminal = Terminal()
    if framework:
        terminal.show(_view(framework))
        return
    rows = [[name, made.release, *_of(made)] for name in FRAMEWORKS for made in list_built(name)]
    if not rows:
        terminal.say("No release is built. `training-suite releases FRAMEWORK` lists what there is.")
        return
    headers = ["framework", "release", "Python", "size", "lock"]
    terminal.show(View("Built releases", Grid(headers, rows, [LEFT, LEFT, LEFT, RIGHT, LEFT], 2), [f"In {folder()}."]))


def _view(framework: str) -> View:
    there = {made.release: made for made in list_built(framework)}
    declared, rows = FRAMEWORKS[framework], []
    for each in reversed(releases(framework)):
        made = there.get(each.version)
        download = "" if each.size is None else f"{each.size / 1e6:,.0f} MB"
        fits = ", ".join(f"3.{minor}" for minor in each.minors) or "none"
        defects = find_defects(framework, each.version)
        known = ", ".join(dict.fromkeys(f"{defect.kind} on {defect.device}" for defect in defects))
        rows.append([each.version, each.day, fits, download, *(_of(made) if made else ("", "", "")), known])
    headers = ["release", "published", "fits Python", declared.wheels, "built with Python", "size", "lock", "known"]
    here = ", ".join(python.version for python in pythons())
    notes = [
        f"Pythons of this machine: {here}. The suite supports {declared.title} from {declared.oldest} on.",
        f"In {folder()}.",
        *(f"{defect.releases}: {defect}." for defect in reversed(DEFECTS) if defect.framework == framework),
    ]
    return View(
        f"Releases of {declared.title}", Grid(headers, rows, [LEFT, LEFT, LEFT, RIGHT, LEFT, RIGHT, LEFT, LEFT]), notes
    )


def _of(made: Environment) -> tuple[str, str, str]:
    return made.python_version, f"{size_of(made.place) / 1e6:,.0f} MB", made.digest[:12]


if __name__ == "__main__":
    sys.exit(main())
