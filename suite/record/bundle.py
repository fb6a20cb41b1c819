"""A bundle: a run with what belongs to it, as one file that can be sent, and read without trusting it.

It is a zip of exactly two members with fixed names, and not a byte besides: what is read is put together again, and
must be the file. What Python would make of it is estimated and bounded before anything of it is decoded. Nothing is
extracted to disk, and no name in the file becomes a path.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from struct import Struct
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from framework_training_suite import CommandError
from suite.plan.schema import SchemaError, decode
from suite.record.text import clean, estimate_memory, parse_json
from workloads.data.files import read_regular

FORMAT = 1
SUFFIX = ".bundle"

#: The members, and bytes of each at most when it is decompressed.
ABOUT, LAUNCHES = "about.json", "launches.jsonl"
MEMBERS = {ABOUT: 1 << 20, LAUNCHES: 16 << 20}
#: Bytes of a bundle, at most: it lies in git. And its lines: the description of the run, and its launches.
LARGEST, LINES_MOST = 8 << 20, 641
#: What a line may take, and all launches together. Published launches take 0.1 to 0.3 MB.
LINE_TAKES, LAUNCHES_TAKE = 4 << 20, 80 << 20

#: The records of a zip file for a member, in the directory and at the end (APPNOTE.TXT, 4.3.7, 4.3.12, 4.3.16).
_MEMBER, _ENTRY, _END = Struct("<4s3H4s3L2H"), Struct("<4s4H4s3L5H2L"), Struct("<4s4H2LH")
#: The day of 1980 on which all members were made.
_STAMP = b"\0\0!\0"

Line = Annotated[str, Meta(max_length=500)]
Name = Annotated[str, Meta(max_length=100)]


class BundleError(CommandError, ValueError):
    """A file that is no bundle; one line that says why."""


@dataclass(frozen=True)
class Manifest:
    """What a bundle says besides its launches.

    ``suite`` and ``rules`` are the versions of the suite and of the rules that it was made with, ``run`` is the
    description of the run, ``journal`` whether the launches are the lines of its journal, ``doctor`` what the doctor
    found on the machine, ``installed`` all distributions of each framework's environment with their versions,
    ``price_hour`` what an hour of the machine costs. ``redacted`` says that as much as possible was left out.
    """

    format: int
    suite: Name
    rules: Annotated[int, Meta(ge=1, le=1000)]
    run: dict[str, Any]
    journal: bool = False
    redacted: bool = False
    doctor: Annotated[tuple[Line, ...], Meta(max_length=200)] = ()
    installed: dict[Name, Annotated[tuple[Name, ...], Meta(max_length=2000)]] = field(default_factory=dict)
    price_hour: Annotated[float, Meta(ge=0, le=1e6)] | None = None


@dataclass(frozen=True)
class Bundle:
    """``lines`` are JSON texts: what describes the run, then a record for each launch in the order of their ends.

    ``content`` is the file.
    """

    about: Manifest
    lines: tuple[bytes, ...]
    content: bytes = b""


def write(path: Path, about: Manifest, lines: Iterable[Mapping[str, Any]]) -> int:
    """Write a new bundle; the same content gives the same bytes, whose number is returned.

    Raises `OSError`, `FileExistsError` too, and `BundleError` if it would be too large.
    """
    texts = {
        ABOUT: json.dumps(asdict(about), indent=1, allow_nan=False).encode(),
        LAUNCHES: b"".join(json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n" for line in lines),
    }
    members = []
    for name, text in texts.items():
        if len(text) > MEMBERS[name]:
            raise BundleError(f"{name} would have {len(text)} bytes, and {MEMBERS[name]} are the most")
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        members.append(_Member(name, _STAMP, text, packer.compress(text) + packer.flush()))
    content = _join(members)
    if len(content) > LARGEST:
        raise BundleError(f"it would have {len(content)} bytes, and {LARGEST} are the most; bundle a smaller run")
    _bound(texts)
    with path.open("xb") as file:
        file.write(content)
    return len(content)


def read(path: Path) -> Bundle:
    """Raises `BundleError`, and `OSError` for a file that cannot be read."""
    content = read_regular(path, LARGEST)
    texts = _split(content)
    _bound(texts)
    return Bundle(_about(texts[ABOUT]), tuple(filter(None, texts[LAUNCHES].split(b"\n"))), content)


class _Member(NamedTuple):
    name: str
    stamp: bytes  # when it was made, as a zip writes it
    text: bytes
    packed: bytes


def _join(members: Iterable[_Member]) -> bytes:
    """The zip file of these members, as Python's `zipfile` writes it: no comments, no gaps, no further fields."""
    files, directory, count = b"", b"", 0
    for name, stamp, text, packed in members:
        facts = (stamp, zlib.crc32(text), len(packed), len(text), len(name))
        directory += _ENTRY.pack(b"PK\1\2", 3 << 8 | 20, 20, 0, 8, *facts, 0, 0, 0, 0, 0o600 << 16, len(files))
        directory += name.encode()
        files += _MEMBER.pack(b"PK\3\4", 20, 0, 8, *facts, 0) + name.encode() + packed
        count += 1
    return files + directory + _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), len(files), 0)


def _split(content: bytes) -> dict[str, bytes]:
    """The texts of the members. Raises `BundleError` for a file that is not what `_join` makes of them."""
    members: dict[str, _Member] = {}
    at = 0
    for _ in MEMBERS:
        head = content[at : at + _MEMBER.size]
        name = content[at + _MEMBER.size :][: int.from_bytes(head[26:28], "little")].decode("latin-1")
        if name not in MEMBERS or name in members:
            content_name = clean(name, 40) if head.startswith(b"PK") else "something else"
            raise BundleError(
                f"is no bundle: it holds {content_name}, not {' and '.join(MEMBERS)}, each once, and nothing else"
            )
        at += _MEMBER.size + len(name)
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            text = unpacker.decompress(content[at:], MEMBERS[name] + 1)
        except zlib.error as error:
            raise BundleError(f"is no bundle: {error}") from None
        if len(text) > MEMBERS[name]:
            raise BundleError(f"{name} has more than {MEMBERS[name]} bytes when it is decompressed")
        end = len(content) - len(unpacker.unused_data)
        members[name] = _Member(name, head[10:14], text, content[at:end])
        at = end
    if _join(members.values()) != content:
        raise BundleError("is cut off, or has bytes besides its members")
    return {name: member.text for name, member in members.items()}


def _bound(texts: Mapping[str, bytes]) -> None:
    """Raises `BundleError` for more lines, or more in them, than is decoded; takes no memory and next to no time."""
    lines = texts[LAUNCHES].count(b"\n")
    if lines > LINES_MOST:
        raise BundleError(f"{LAUNCHES} has {lines} lines, and {LINES_MOST} are the most")
    takes = [estimate_memory(line) for line in (texts[ABOUT], *texts[LAUNCHES].split(b"\n"))]
    if max(takes) > LINE_TAKES:
        raise BundleError(
            f"a line of it would take {max(takes) >> 20} MiB of memory, and {LINE_TAKES >> 20} is the most"
        )
    if sum(takes) > LAUNCHES_TAKE:
        raise BundleError(f"it would take {sum(takes) >> 20} MiB of memory, and {LAUNCHES_TAKE >> 20} is the most")


def _about(text: bytes) -> Manifest:
    try:
        about: Manifest = decode(Manifest, parse_json(text))
    except (SchemaError, ValueError) as error:
        raise BundleError(f"{ABOUT}: {clean(error)}") from None
    if about.format != FORMAT:
        raise BundleError(f"{ABOUT}: its format is {about.format}, and {FORMAT} is known here: update the suite")
    return about
