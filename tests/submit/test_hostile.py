"""Files that somebody made to harm who reads them: each ends in an answer, within bounds of memory, and writes nothing.

They are read by a process that may take `MEMORY` bytes and `SECONDS` of processor time; the system ends it otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.record import bundle as module
from suite.record.bundle import LAUNCHES, LAUNCHES_TAKE
from suite.verify.rules import verify
from tests.documents import ROOT
from tests.submit.hostile import HOSTILE, JUDGED, UNREADABLE, Held, blocks, cells, largest, many, names, tensors
from tests.submit.tampering import Line, bundle, container, honest, members

#: Bytes and seconds of the process that reads a file. An honest one takes 60 MB, most of it for what it imports.
MEMORY, SECONDS = 300 << 20, 30

#: Reads the paths of files, and writes for each what a fork of it, within the bounds, says: status, output, its memory.
SERVER = f"""
import contextlib, io, json, os, resource, sys
from suite.verify.__main__ import main
for path in map(str.strip, sys.stdin):
    reading, writing = os.pipe()
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))
        resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = main([path])
            except BaseException as error:
                status = repr(error)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        os.write(writing, json.dumps([status, said.getvalue()[:20000], peak]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    ended = os.waitpid(child, 0)[1]
    print(text or json.dumps([f"ended by {{ended}}", "", 0]), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Callable[[Path], tuple[Any, str, int]]]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each further thread of it takes memory of its own
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask(path: Path) -> tuple[Any, str, int]:
            print(path, file=stdin, flush=True)
            status, said, peak = json.loads(stdout.readline())
            return status, said, peak

        yield ask
        stdin.close()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """The members of an honest bundle."""
    folder = tmp_path_factory.mktemp("honest")
    made = honest("0025_evidence", folder)
    return members(bundle(folder / "a.bundle", made, made.lines))


def answers(said: str) -> dict[str, str]:
    """What each rule says, by its name."""
    lines = (line for line in said.splitlines()[1:] if line[3:5].strip().isdecimal())
    return {line[6:16].strip(): line[17:].partition(":")[0].strip() for line in lines}


#: Takes long, and fills what another one fills.
SLOW = {"as many cells, in a run with a budget", "as many runs, hosts and releases"}


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW else []) for each in HOSTILE]
)
def test_a_hostile_file_is_answered_within_bounds(
    what: str, server: Callable[[Path], tuple[Any, str, int]], held: Held, tmp_path: Path
) -> None:
    make, expected = HOSTILE[what]
    path = make(tmp_path / "a.bundle", held)
    status, said, peak = server(path)
    assert status in (0, 1, 2), said
    assert peak < MEMORY
    assert "MemoryError" not in said
    assert not [c for c in said if c != "\n" and unicodedata.category(c)[0] == "C"], "nothing reaches the terminal"
    assert [each.name for each in tmp_path.iterdir()] == ["a.bundle"], "nothing is written"
    if expected == UNREADABLE:
        assert status == 2
        return
    rules = answers(said)
    refused = [name for name, kind in rules.items() if kind == "failed"]
    if expected == JUDGED:
        assert rules["schema"] == "passed", said
        assert not [line for line in said.splitlines() if "cannot be judged" in line], said
    else:
        assert refused == [expected], said
        others = {kind for name, kind in rules.items() if name != "container"}
        assert expected != "container" or others == {"not reached"}
    assert "not reached" not in rules.values() or expected != JUDGED


def count_calls(path: Path) -> int:
    """How many functions are called while a file is checked."""
    calls = 0

    def count(_frame: object, event: str, _value: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    verify(path)  # which fills what is cached
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        verify(path)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("change", [cells, blocks, names, tensors])
def test_twice_as_many_launches_take_twice_as_long(
    change: Callable[[Line, int], None], held: Held, tmp_path: Path
) -> None:
    one, two = (
        count_calls(many(tmp_path / f"{n}.bundle", held, n, change, repeats=True, launches=999)) for n in (20, 40)
    )
    assert two < 2.1 * one


def test_the_honest_bundle_is_accepted(
    server: Callable[[Path], tuple[Any, str, int]], held: Held, tmp_path: Path
) -> None:
    status, said, peak = server(container(tmp_path / "a.bundle", held))
    assert (status, peak < MEMORY) == (0, True), said


def test_the_largest_file_is_near_the_bounds(held: Held, tmp_path: Path) -> None:
    texts = members(largest(tmp_path / "a.bundle", held))
    takes = sum(map(module.estimate_memory, texts[LAUNCHES].split(b"\n")))
    assert 0.6 * LAUNCHES_TAKE < takes <= LAUNCHES_TAKE
