"""Replaces how pytest-benchmark saves: compactly, completely or not at all, and without touching other files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from errno import EBUSY, EEXIST
from pathlib import Path
from typing import Any

import pytest
import pytest_benchmark
from pytest_benchmark import plugin as benchmarks
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import get_commit_info, get_machine_id, safe_dumps

from suite.plan.blocks import launch_id
from suite.plan.command.common import OLDER, SAVED
from suite.record.record import Record
from suite.record.saved import SCHEMA, compress, open_run, pack
from suite.record.scratch import scratch
from suite.record.text import clean
from suite.session.run import Run

#: Bytes of a file's name, on every usual file system.
NAME_MOST = 255

PROJECT = "framework-training-suite"
#: What a saved run says of the commit, and in which form. What else git says may name a folder or a person.
COMMIT = {
    "id": "un(versioned|known)|[0-9a-f]{7,64}",
    "time": r"None|[\d:.T+-]{10,40}",
    "author_time": r"None|[\d:.T+-]{10,40}",
    "dirty": "True|False",
    "branch": r"main|master|\([a-z ]+\)",
}


class SaveError(RuntimeError):
    """Something could not be saved; one line that says what and why."""


def describe_commit(info: Mapping[str, Any]) -> dict[str, Any]:
    """What of pytest-benchmark's description of the commit is saved: no error of git, and no name of a folder."""
    known = {name: info[name] for name in COMMIT if name in info and re.fullmatch(COMMIT[name], str(info[name]))}
    return {**known, "project": PROJECT}


def name_fits(name: str) -> bool:
    """Whether a run can be saved under this name."""
    return len(_file(1, name).encode()) <= NAME_MOST


def shorten_name(name: str) -> str:
    """The name, cut where it is too long for that of a file."""
    return name if name_fits(name) else shorten_name(name[: min(NAME_MOST, len(name) - 1)])


@contextlib.contextmanager
def atomic_saves(benchmarks: Any) -> Iterator[None]:
    """Have pytest-benchmark's session save by `save`; what cannot be written stops nothing that can.

    Raises `SaveError` at the end, with the first thing that could not be saved.
    """
    problems: list[str] = []
    if not hasattr(getattr(benchmarks, "storage", None), "path"):  # no session, or one that saves elsewhere
        yield
        return
    storage, write_json = benchmarks.storage, benchmarks.save_json

    def save_json(content: Any) -> None:
        try:
            write_json(content)
        except OSError as error:
            problems.append(f"cannot write {clean(benchmarks.json)}: {error.strerror or error}")

    def save_run(content: Any, name: str) -> None:
        try:
            path = save(Path(storage.get("x")).parent, name, compact(content).encode())
            storage.logger.info(f"Saved benchmark data in: {path}")
        except OSError as error:
            problems.append(f"cannot save in {storage.path}: {error.strerror or error}; free some space")

    storage.save, benchmarks.save_json = save_run, save_json
    yield
    if problems:
        raise SaveError(problems[-1])


def compact(content: Mapping[str, Any]) -> str:
    """A run as JSON with a launch per line, a fifth of its bytes when indented: see `suite.record.saved`."""
    return "{\n" + ",\n".join(f"{_json(name)}:{_lines(value)}" for name, value in pack(content).items()) + "\n}\n"


def _lines(value: Any) -> str:
    return "[\n" + ",\n".join(map(_json, value)) + "\n]" if value and isinstance(value, list) else _json(value)


def _json(value: Any) -> str:
    return str(safe_dumps(value, ensure_ascii=True, separators=(",", ":")))


def save(folder: Path, name: str, content: bytes) -> Path:
    """Write a run under the next free number, all of it or nothing. Raises OSError; never replaces a file.

    Two runs that end at once get two numbers: the name is claimed by a link, which fails if the file exists.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _write(folder, content) as whole:
        beside = OLDER[SAVED].glob("*") if folder.resolve().parent == SAVED.resolve() else ()
        number = max(map(_last, [folder, *beside]))  # so that no number is that of a published run too
        while True:
            number += 1
            path = folder / _file(number, name)
            with contextlib.suppress(FileExistsError):
                _claim(path, whole, content)
                return path


def copy(source: Path, path: Path) -> None:
    """Copy a run and compress it, unless that was done before; in place of no other. Raises OSError."""
    taken = FileExistsError(EEXIST, f"{path} is there already, so {source} stays")
    if path.with_suffix("").exists():  # the same run as it is not compressed
        raise taken
    path.parent.mkdir(parents=True, exist_ok=True)
    content = source.read_bytes()
    with _write(path.parent, compressed := compress(content)) as whole:
        shutil.copystat(source, whole)  # the age of a run is that of its file
        try:
            _claim(path, whole, compressed)
        except FileExistsError:
            if open_run(path).read() != content:
                raise taken from None


def drop(source: Path, path: Path) -> None:
    """Remove a run that was copied. Raises OSError, also where it is no longer what was copied, and stays."""
    with open_run(path) as copied:
        if source.read_bytes() != copied.read():
            raise OSError(EBUSY, "it changed meanwhile")
    source.unlink()


def _claim(path: Path, whole: Path, content: bytes) -> None:
    """Give the whole file this name. Raises `FileExistsError`, and OSError."""
    try:
        path.hardlink_to(whole)
    except OSError:  # it exists, or the file system has no links
        _write_new(path, content)


@contextlib.contextmanager
def _write(folder: Path, content: bytes) -> Iterator[Path]:
    with scratch(folder, ".partial-") as temporary:
        path = temporary / "run.json"
        _write_new(path, content)
        yield path


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _file(number: int, name: str) -> str:
    return f"{number:04}_{name}.json"


def _last(folder: Path) -> int:
    numbers = (re.match(r"(\d{4,})_", path.name) for path in folder.glob("*.json*"))
    return max((int(number[1]) for number in numbers if number), default=0)


def save_failed(config: pytest.Config, benchmarks: Any) -> None:
    """Save a run without benchmarks as pytest-benchmark saves one with them."""
    commit_info = config.hook.pytest_benchmark_generate_commit_info(config=config)
    config.hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit_info)
    output = config.hook.pytest_benchmark_generate_json(
        config=config, benchmarks=[], include_data=False,
        machine_info=benchmarks.get_machine_info(), commit_info=commit_info,
    )  # fmt: skip
    config.hook.pytest_benchmark_update_json(config=config, benchmarks=[], output_json=output)
    if benchmarks.json:
        benchmarks.save_json(output)
    if name := benchmarks.save or benchmarks.autosave:
        benchmarks.storage.save(output, name)


def save_run(run: Run, storage: Path, name: str) -> Path:
    """Save the launches of a run under the next free number; returns the file. Raises OSError."""
    return save(storage / get_machine_id(), shorten_name(name), compact(content(run)).encode())


def content(run: Run) -> dict[str, Any]:
    """The run as pytest-benchmark writes it, with the suite's part; of a repeated launch the last one counts."""
    records = list({record.key: record for record in run.records}.values())
    machine = benchmarks.pytest_benchmark_generate_machine_info()
    machine.pop("node", None)  # so that a saved run can be published as it is
    failed = [record.to_json() for record in records if not record.outcome.ok]
    return {
        "machine_info": machine,
        "commit_info": describe_commit(get_commit_info(PROJECT)),
        "benchmarks": list(_entries(records)),
        "datetime": datetime.now(UTC).isoformat(),
        "version": pytest_benchmark.__version__,
        "suite": {"schema": SCHEMA, "run": run.info, "failed": failed},
    }


def _entries(records: Iterable[Record]) -> Iterable[dict[str, Any]]:
    for record in records:
        if record.outcome.ok:
            launch = launch_id(record.cell, record.launch)
            stats = Stats()
            for seconds in record.phases["train"].step_times_s:
                stats.update(seconds)
            yield {
                "group": record.cell.workload,
                "name": f"test_training[{launch}]",
                "fullname": f"suite/test_training.py::test_training[{launch}]",
                "params": {"launch_id": launch},
                "param": launch,
                "extra_info": {"record": record.to_json()},
                "options": {},
                "stats": {**stats.as_dict(), "data": stats.data, "iterations": 1},
            }
