"""Files that somebody made to harm who reads them: each ends in an answer, within bounds of memory, and writes nothing.

They are read by a process that may take `MEMORY` bytes and `SECONDS` of processor time; the system ends it otherwise.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import struct
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.record import bundle as module
from suite.record.bundle import ABOUT, LARGEST, LAUNCHES, LAUNCHES_TAKE, LINES_MOST, MEMBERS
from suite.verify.rules import verify
from tests.documents import ROOT
from tests.submit.tampering import Line, bundle, container, honest, members

#: Bytes and seconds of the process that reads a file. An honest one takes 140 MB, most of it for what it imports.
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

UNREADABLE, JUDGED = "unreadable", "judged"
Held = dict[str, bytes]


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


def with_lines(path: Path, held: Held, *lines: bytes) -> Path:
    """The honest bundle, and more lines."""
    return container(path, {**held, LAUNCHES: held[LAUNCHES] + b"".join(line + b"\n" for line in lines)})


def with_about(path: Path, held: Held, **changes: Any) -> Path:
    return container(path, {**held, ABOUT: json.dumps(json.loads(held[ABOUT]) | changes).encode()})


def first(held: Held) -> Line:
    """The first launch of the honest bundle."""
    line: Line = json.loads(held[LAUNCHES].split(b"\n")[1])
    return line


def text_of(held: Held, **changes: Any) -> bytes:
    """The first launch with changes, as text."""
    return json.dumps(first(held) | changes, separators=(",", ":")).encode()


def setting(held: Held, text: bytes) -> bytes:
    """The first launch with a setting more, whose name and value are this text."""
    return replaced(held, b'"settings":{', b'"settings":{' + text + b",")


def replaced(held: Held, old: bytes, new: bytes) -> bytes:
    """The first launch with a part of its text replaced."""
    line = text_of(held)
    assert old in line
    return line.replace(old, new, 1)


def many(path: Path, held: Held, count: int, change: Callable[[Line, int], Any], **run: Any) -> Path:
    """So many launches of the honest run's first cell, each changed, with as little in them as a launch may have."""
    about = json.loads(held[ABOUT])
    about["run"] |= run
    lines = [json.dumps({"run": about["run"]}).encode()]
    for number in range(count):
        line = first(held)
        for name in ("identity", "metrics", "profile", "startup", "memory"):
            line.pop(name, None)
        line["phases"] = {"train": {"windows": [[1, 1 + number * 1e-6]]}}
        change(line, number)
        lines.append(json.dumps(line, separators=(",", ":")).encode())
    return container(path, {ABOUT: json.dumps(about).encode(), LAUNCHES: b"\n".join(lines) + b"\n"})


def cells(line: Line, number: int) -> None:
    line["cell"]["batch"] = number + 1


def blocks(line: Line, number: int) -> None:
    """A launch and another one in its place, block by block."""
    line["launch"] = number // 2 % 1000 + (2000 if number % 2 else 0)
    line["run"]["position"] = number
    line["metrics"] = {"host": {"disturbance": {"others_share": 0.9}}}
    line["flags"] = ["disturbed", "contaminated"]


def machines(line: Line, number: int) -> None:
    line["environment"] = {
        **line["environment"],
        "machine": {"cpu": "a", "cores": 1, "memory_bytes": 2**30 + number**3},
    }


def names(line: Line, number: int) -> None:
    """Another run, host and release in each launch."""
    line["run"] = {**line["run"], "id": f"run-{number % 50}", "host": f"host-{number}"}
    line["cell"]["release"] = f"1.{number}.0"


def largest(path: Path, held: Held) -> Path:
    """As much in as many launches as a bundle may have, half of it in what has no schema."""
    each = LAUNCHES_TAKE // LINES_MOST
    filler = {"a": [[] for _ in range(each // 1000)], "b": [0.1 + n for n in range(each // 600)]}

    def change(line: Line, number: int) -> None:
        cells(line, number)
        line["settings"] = line["settings"] | {"filler": filler}

    return many(path, held, LINES_MOST - 2, change)


def raw_zip(path: Path, held: Held, change: Callable[[bytes], bytes]) -> Path:
    container(path, held)
    path.write_bytes(change(path.read_bytes()))
    return path


def behind_the_stream(path: Path, held: Held) -> Path:
    """Bytes of a member behind the end of its compressed stream, which its size counts."""
    content = container(path, held).read_bytes()
    with zipfile.ZipFile(path) as archive:
        one, two = archive.infolist()
        start = archive.start_dir
    smuggled = b"<script>alert(1)</script>"
    sizes = (
        struct.pack("<LL", two.compress_size, two.file_size),
        struct.pack("<LL", two.compress_size + len(smuggled), two.file_size),
    )
    directory = content[start:].replace(*sizes)
    at = directory.rindex(struct.pack("<L", start))
    directory = directory[:at] + struct.pack("<L", start + len(smuggled)) + directory[at + 4 :]
    path.write_bytes(content[:start].replace(*sizes) + smuggled + directory)
    assert zipfile.ZipFile(path).testzip() is None, one
    return path


def with_comment(path: Path, held: Held) -> Path:
    container(path, held)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"<script>alert(1)</script>"
    return path


def with_extra(path: Path, held: Held) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in held.items():
            info = zipfile.ZipInfo(name)
            info.extra = struct.pack("<HH", 0x1234, 8) + b"<script>"
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def many_members(path: Path, held: Held) -> Path:
    """A directory of as many members as fit into the largest file."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(70_000):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    assert path.stat().st_size < LARGEST
    return path


def special(make: Callable[[Path], Any]) -> Callable[[Path, Held], Path]:
    def maker(path: Path, _: Held) -> Path:
        make(path)
        return path

    return maker


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def listen(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def bomb(size: int) -> bytes:
    """A gzip file of zeros."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return made.getvalue()


EVIL = "\x1b]0;owned\x07\x1b[2J\u202egpj.exe\u2066\x9b31m\u2028\ud800 ../../../etc/passwd"
LISTS = b"[" + b"[]," * 400_000 + b"[]]"
OBJECTS = b"[" + b'{"a":0},' * 200_000 + b"{}]"

#: What is in the file, how it is made, and what must happen: the rule that refuses it, or whether it is judged at all.
HOSTILE: dict[str, tuple[Callable[[Path, Held], Path], str]] = {
    # What a text holds.
    "depth in what is said of it": (lambda p, h: container(p, {**h, ABOUT: b"[" * 9_000}), "container"),
    "depth in a launch": (lambda p, h: with_lines(p, h, b'{"run":' + b"[" * 30_000 + b"]" * 30_000 + b"}"), "schema"),
    "depth below the parser's limit": (lambda p, h: with_lines(
        p, h, setting(h, b'"a":' + b"[" * 500 + b"]" * 500)), "schema"),
    "empty lists": (lambda p, h: with_lines(p, h, setting(h, b'"a":' + LISTS)), "container"),
    "objects": (lambda p, h: with_lines(p, h, setting(h, b'"a":' + OBJECTS)), "container"),
    "empty lists in many lines": (lambda p, h: with_lines(p, h, *[LISTS[:60_000]] * 400), "container"),
    "lines without anything": (lambda p, h: with_lines(p, h, b"\n" * (MEMBERS[LAUNCHES] - (2 << 20))), "container"),
    "a long text": (lambda p, h: with_lines(p, h, text_of(h, started="a" * (15 << 20))), "container"),
    "one wide letter in a long text": (lambda p, h: with_lines(
        p, h, replaced(h, b'"started":"', b'"started":"' + "\U0001f600".encode() + b"a" * (3 << 20))), "container"),
    "a number beyond all": (lambda p, h: with_lines(p, h, setting(h, b'"a":1e999')), "schema"),
    "a number of many digits": (lambda p, h: with_lines(p, h, setting(h, b'"a":' + b"9" * 500_000)), "schema"),
    "not a number": (lambda p, h: with_lines(p, h, setting(h, b'"a":NaN')), "schema"),
    "not a number in what is said of it": (lambda p, h: container(
        p, {**h, ABOUT: h[ABOUT].replace(b'"run": {', b'"run": {"budget_s": NaN,')}), "container"),
    "a name twice in a launch": (lambda p, h: with_lines(
        p, h, replaced(h, b'"outcome":', b'"outcome":{"status":"crashed"},"outcome":')), "schema"),
    "a name twice in what is said of it": (lambda p, h: container(
        p, {**h, ABOUT: h[ABOUT].replace(b'"run": {', b'"run": {"seed": 1, "seed": 2,')}), "container"),
    "bytes that are no text": (lambda p, h: with_lines(p, h, b'{"schema":5,"a":"\xff\xfe"}'), "schema"),
    "words that control a terminal": (lambda p, h: with_lines(
        p, h, text_of(h, run={"id": EVIL, "host": EVIL}, data={"name": EVIL, "kind": EVIL}, flags=[EVIL],
                      environment={"machine": {"cpu": EVIL}, "packages": {EVIL: EVIL}})), JUDGED),
    "a run's name that climbs": (lambda p, h: with_about(p, h, run={"id": "../" * 20 + "tmp/x"}), JUDGED),
    "packages without end": (lambda p, h: with_about(p, h, installed={"jax": ["a==1"] * 200_000}), "container"),
    # How many launches there are, and of what.
    "twelve thousand launches": (lambda p, h: many(p, h, 12_000, cells), "container"),
    "as many cells as launches": (lambda p, h: many(p, h, LINES_MOST - 2, cells), JUDGED),
    "as many cells, in a run with a budget": (lambda p, h: many(
        p, h, LINES_MOST - 2, cells, design="sequential", budget_s=1e9), JUDGED),
    "as many blocks as launches": (lambda p, h: many(p, h, LINES_MOST - 2, blocks, repeats=True), JUDGED),
    "as many runs, hosts and releases": (lambda p, h: many(p, h, LINES_MOST - 2, names), JUDGED),
    "as many machines as launches": (lambda p, h: many(p, h, LINES_MOST - 2, machines), "schema"),
    "the largest file": (largest, JUDGED),
    # What the container is.
    "a bomb": (lambda p, h: container(p, {**h, LAUNCHES: bytes(MEMBERS[LAUNCHES] + 1)}), "container"),
    "a bomb below the limit": (lambda p, h: container(p, {**h, LAUNCHES: b" " * MEMBERS[LAUNCHES]}), "container"),
    "a bomb of another kind": (special(lambda p: p.write_bytes(bomb(1 << 28))), "container"),
    "a bomb in what is said of it": (lambda p, h: container(p, {**h, ABOUT: b" " * (1 << 26)}), "container"),
    "many members": (many_members, "container"),
    "bytes before the members": (lambda p, h: raw_zip(p, h, lambda c: b"<script>alert(1)</script>" + c), "container"),
    "bytes behind them": (lambda p, h: raw_zip(p, h, lambda c: c + b"<script>alert(1)</script>"), "container"),
    "bytes in a comment": (with_comment, "container"),
    "bytes in a further field": (with_extra, "container"),
    "bytes behind the end of a stream": (behind_the_stream, "container"),
    "a name that controls a terminal": (lambda p, h: container(p, {ABOUT: h[ABOUT], EVIL[:-30]: b""}), "container"),
    "a name that climbs": (lambda p, h: container(p, {ABOUT: h[ABOUT], "../../launches.jsonl": b""}), "container"),
    # What the file is.
    "a FIFO": (special(os.mkfifo), UNREADABLE),
    "a socket": (special(listen), UNREADABLE),
    "a folder": (special(Path.mkdir), UNREADABLE),
    "a link to a device": (special(lambda p: p.symlink_to("/dev/zero")), UNREADABLE),
    "a link to itself": (special(lambda p: p.symlink_to(p.name)), UNREADABLE),
    "a terabyte of nothing": (special(sparse), UNREADABLE),
}  # fmt: skip


def answers(said: str) -> dict[str, str]:
    """What each rule says, by its name."""
    lines = (line for line in said.splitlines()[1:] if line[3:5].strip().isdecimal())
    return {line[6:16].strip(): line[17:].partition(":")[0].strip() for line in lines}


@pytest.mark.parametrize("what", HOSTILE)
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


@pytest.mark.parametrize("change", [cells, blocks, names])
def test_twice_as_many_launches_take_twice_as_long(
    change: Callable[[Line, int], None], held: Held, tmp_path: Path
) -> None:
    one, two = (
        count_calls(many(tmp_path / f"{n}.bundle", held, n, change, repeats=True, launches=999)) for n in (60, 120)
    )
    assert two < 2.1 * one


def test_the_honest_bundle_is_accepted(
    server: Callable[[Path], tuple[Any, str, int]], held: Held, tmp_path: Path
) -> None:
    status, said, peak = server(container(tmp_path / "a.bundle", held))
    assert (status, peak < MEMORY) == (0, True), said


def test_the_largest_file_is_near_the_bounds(held: Held, tmp_path: Path) -> None:
    texts = members(largest(tmp_path / "a.bundle", held))
    takes = sum(map(module._takes, texts[LAUNCHES].split(b"\n")))
    assert 0.6 * LAUNCHES_TAKE < takes <= LAUNCHES_TAKE
