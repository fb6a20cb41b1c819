"""Stores samples with the framework's own library, in a process of its own, before anything is measured."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from suite.worker.frameworks import UnsupportedError, import_framework
from suite.worker.loaders import container_of, refuse_samples, require
from workloads.data.augment import Batches
from workloads.data.cache import open_cached
from workloads.data.dataset import DataError
from workloads.data.formats import prepare_store


def main(arguments: list[str]) -> None:
    """Make or verify the store of a cache folder. The answer says what is wrong with the data; empty if nothing is.

    What a launch will report as unsupported is no fault of the data.
    """
    parser = argparse.ArgumentParser()
    for name in ("framework", "folder", "format", "answer"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(arguments)
    problem = ""
    try:
        _store(options.framework, Path(options.folder), options.format)
    except (UnsupportedError, ModuleNotFoundError):
        pass
    except DataError as error:
        problem = str(error)
    Path(options.answer).write_text(json.dumps(problem))


def _store(framework: str, folder: Path, name: str) -> None:
    import_framework(framework)
    container = container_of(name, import_module(f"suite.worker.loaders.{framework}").SHARDS)
    data = open_cached(folder)
    require(container)
    refuse_samples(Batches(data, 1, 0))
    prepare_store(data, folder, container, print)


if __name__ == "__main__":
    main(sys.argv[1:])
