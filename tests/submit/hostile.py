"""Files that somebody made to harm who reads them: what each is called, how it is made, and what must happen."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.record.bundle import ABOUT, LARGEST, LAUNCHES, LAUNCHES_TAKE, LINES_MOST, MEMBERS
from tests.submit.tampering import Line, container, twice

UNREADABLE, JUDGED = "unreadable", "judged"
Held = dict[str, bytes]


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
    least = first(held)
    for name in ("identity", "metrics", "profile", "startup", "memory"):
        least.pop(name, None)
    for number in range(count):
        line = least | {name: dict(least[name]) for name in ("cell", "run")}
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


def tensors(line: Line, number: int) -> None:
    """Evidence of another cell in each launch, of tensors that no other launch has."""
    cells(line, number)
    updates = {f"t{number}/{tensor}": 1e-3 for tensor in range(200)}
    line["identity"] = {"losses": [1.0], "updates": updates, "program": f"p{number}"}


def largest(path: Path, held: Held) -> Path:
    """As much in as many launches as a bundle may have, half of it in what has no schema."""
    each = LAUNCHES_TAKE // LINES_MOST
    filler = {"a": [[] for _ in range(each // 800)], "b": [0.1 + n for n in range(each // 450)]}

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
    "tensors of its own in each launch": (lambda p, h: many(p, h, LINES_MOST - 2, tensors), JUDGED),
    "as many machines as launches": (lambda p, h: many(p, h, LINES_MOST - 2, machines), "schema"),
    "the largest file": (largest, JUDGED),
    # What the container is.
    "a bomb": (lambda p, h: container(p, {**h, LAUNCHES: bytes(MEMBERS[LAUNCHES] + 1)}), "container"),
    "a bomb below the limit": (lambda p, h: container(p, {**h, LAUNCHES: b" " * MEMBERS[LAUNCHES]}), "container"),
    "a bomb of another kind": (special(lambda p: p.write_bytes(bomb(1 << 25))), "container"),
    "a bomb in what is said of it": (lambda p, h: container(p, {**h, ABOUT: b" " * (1 << 26)}), "container"),
    "many members": (many_members, "container"),
    "a member that is too large": (lambda p, h: container(p, {**h, ABOUT: b" " * (MEMBERS[ABOUT] + 1)}), "container"),
    "an absolute path": (lambda p, h: container(p, {ABOUT: h[ABOUT], "/etc/launches.jsonl": b"1"}), "container"),
    "a further file": (lambda p, h: container(p, {**h, "setup.py": b"1"}), "container"),
    "a file that climbs": (lambda p, h: container(p, {**h, "../../evil.py": b"1"}), "container"),
    "a missing file": (lambda p, h: container(p, {ABOUT: h[ABOUT]}), "container"),
    "a file twice": (twice, "container"),
    "a size that lies": (lambda p, _: raw_zip(  # what counts is what comes out
        p, {ABOUT: b" " * (30 << 20), LAUNCHES: b""},
        lambda c: c.replace(struct.pack("<I", 30 << 20), struct.pack("<I", 100))), "container"),
    "about something else": (lambda p, h: container(p, {**h, ABOUT: b'{"format": 1}'}), "container"),
    "another format": (lambda p, h: container(p, {**h, ABOUT: h[ABOUT].replace(b"1", b"9", 1)}), "container"),
    **{f"the first {cut} bytes": (lambda p, h, cut=cut: raw_zip(p, h, lambda c: c[:cut]), "container")
       for cut in (0, 1, 100, 5000)},
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
