"""``training-suite data``: prepares the data sets, verifies them, or shows where they are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from framework_training_suite import entry, spelled
from suite.plan.command.common import command_parser, one_of
from workloads.data import cache as caches
from workloads.data.dataset import KINDS, DataError, arrays
from workloads.data.prepare import (
    NAMES,
    SOURCES,
    UnavailableError,
    cache_directory,
    data_directory,
    prepare,
    verify_identity,
)

DESCRIPTION = """\
Download, verify or list the data sets of the suite.

The suite trains on two data sets: cifar100 (CIFAR-100, a download of 161 MiB) and imdb (the Large Movie Review Dataset,
80 MiB). `fetch` verifies and parses them once and keeps the result in the cache (about 170 MiB and 50 MiB), which all
later runs open in milliseconds. The downloads stay in the cache's folder `downloads`, which you may remove.
"""

EPILOG = """\
examples:
  training-suite data fetch                       download and parse both
  training-suite data fetch --data-dir ~/data     use archives or folders that you have
  training-suite data fetch imdb --source auto    synthetic data if the real data is not available
  training-suite data verify                      hash every byte in the cache
  training-suite data where                       list what is cached: folder, kind, size, digest

A data directory may contain cifar-100-python.tar.gz or cifar-100-python/, and aclImdb_v1.tar.gz or aclImdb/, at its top
or one folder below. Nothing is written to it.

environment:
  SUITE_DATA_DIR    the data directory, unless --data-dir names one
  SUITE_CACHE_DIR   the cache directory, unless --cache-dir names one; by default framework-training-suite in
                    $XDG_CACHE_HOME or ~/.cache

exit status: 0 done, 1 not available or damaged, 2 wrong usage, 130 interrupted
"""


@entry("run the same command again, and the download continues where it stopped")
def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except DataError as error:
        print(f"error: {spelled(str(error))}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("suite.data", DESCRIPTION, EPILOG)
    commands = parser.add_subparsers(required=True, dest="command", metavar="{fetch,verify,where}")
    fetch = commands.add_parser("fetch", help="parse data sets from the data directory, or else download them")
    fetch.add_argument(
        "names", nargs="*", type=one_of("data set", NAMES), metavar="NAME",
        help=f"which ones: {', '.join(NAMES)} (default: all)",
    )  # fmt: skip
    fetch.add_argument("--data-dir", metavar="D", help="folder with archives or folders (SUITE_DATA_DIR)")
    fetch.add_argument(
        "--source",
        choices=("auto", "real", "synthetic"),
        default="real",
        help="real: fail if it is not available (default); auto: then use the synthetic twin; synthetic: use the twin",
    )
    verify = commands.add_parser("verify", help="hash every byte in the cache")
    where = commands.add_parser("where", help="list what is cached: folder, kind, size, digest")
    for command, run in ((fetch, _fetch), (verify, _verify), (where, _where)):
        command.add_argument("--cache-dir", metavar="C", help="the cache directory (SUITE_CACHE_DIR)")
        command.set_defaults(run=run)
    return parser


def _fetch(options: argparse.Namespace) -> int:
    failed = False
    for name in options.names or NAMES:
        try:
            folder = prepare(name, options.source, options.data_dir, options.cache_dir)
        except DataError as error:  # the others may still be available
            print(f"error: {spelled(str(error))}", file=sys.stderr)
            if isinstance(error, UnavailableError):
                print(f"Until then the suite measures with the synthetic twin of {name}, and says so.", file=sys.stderr)
            failed = True
        else:
            print(_line(folder))
    return int(failed)


def _verify(options: argparse.Namespace) -> int:
    folders = _list_caches(cache_directory(options.cache_dir))
    if not folders:
        raise DataError(f"nothing is cached in {cache_directory(options.cache_dir)}; run `training-suite data fetch`")
    failed = False
    for name, kind, folder in folders:
        try:
            verify_identity(folder, kind, SOURCES[name])
        except DataError as error:
            print(f"error: {spelled(str(error))}", file=sys.stderr)
            failed = True
        else:
            print(f"{_line(folder)}  verified")
    return int(failed)


def _where(options: argparse.Namespace) -> int:
    cache, directory = cache_directory(options.cache_dir), data_directory()
    print(f"cache directory: {cache}")
    print(f"data directory:  {directory or 'none (SUITE_DATA_DIR is not set)'}")
    failed = False
    cached = _list_caches(cache)
    for _, _, folder in cached:
        try:
            print(_line(folder))
        except DataError as error:
            print(f"error: {spelled(str(error))}", file=sys.stderr)
            failed = True
    for name in NAMES:
        if name not in {cached_name for cached_name, _, _ in cached}:
            print(spelled(f"{name:9} not cached; run `training-suite data fetch {name}`"))
    return int(failed)


def _list_caches(cache: Path) -> list[tuple[str, str, Path]]:
    folders = ((name, kind, caches.folder_of(cache, name, kind)) for name in NAMES for kind in KINDS)
    try:
        return [(name, kind, folder) for name, kind, folder in folders if folder.exists()]
    except OSError as error:
        raise DataError(
            f"cache directory {cache} cannot be read: {error.strerror}; set SUITE_CACHE_DIR to another one"
        ) from error


def _line(folder: Path) -> str:
    data = caches.open_cached(folder)
    size = sum(array.nbytes for array in arrays(data).values())
    return f"{data.name:9} {data.kind:9} {size / 2**20:6.1f} MiB  {data.digest[:16]}  {folder}"


if __name__ == "__main__":
    sys.exit(main())
