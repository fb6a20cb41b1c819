"""A bundle: a run with what belongs to it, as one file that can be sent, and read without trusting it.

It is a zip of exactly two members with fixed names, each smaller than a limit that is held while it is decompressed.
Nothing is extracted to disk, and no name in the file becomes a path.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from suite.plan.schema import SchemaError, decode
from suite.record.text import clean
from workloads.data.files import read_regular

FORMAT = 1
SUFFIX = ".bundle"

#: The members, and bytes of each at most when it is decompressed.
ABOUT, LAUNCHES = "about.json", "launches.jsonl"
MEMBERS = {ABOUT: 1 << 20, LAUNCHES: 64 << 20}
#: Bytes of a bundle, at most: it lies in git.
LARGEST = 8 << 20
#: Bytes that each byte may stand for: text of launches takes a tenth to a twentieth of its size.
RATIO_MOST = 200

Line = Annotated[str, Meta(max_length=500)]
Name = Annotated[str, Meta(max_length=100)]


class BundleError(ValueError):
    """A file that is no bundle; one line that says why."""


@dataclass(frozen=True)
class About:
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
    """``lines`` are JSON texts: what describes the run, then a record for each launch in the order of their ends."""

    about: About
    lines: tuple[bytes, ...]


def write(path: Path, about: About, lines: Iterable[Mapping[str, Any]]) -> int:
    """Write a new bundle; the same content gives the same bytes, whose number is returned.

    Raises `OSError`, `FileExistsError` too, and `BundleError` if it would be too large.
    """
    texts = {
        ABOUT: json.dumps(asdict(about), indent=1, allow_nan=False),
        LAUNCHES: "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines),
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in texts.items():
            if len(text) > MEMBERS[name]:
                raise BundleError(f"{name} would have {len(text)} bytes, and {MEMBERS[name]} are the most")
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    content = made.getvalue()
    if len(content) > LARGEST:
        raise BundleError(
            f"the bundle would have {len(content)} bytes, and {LARGEST} are the most; bundle a smaller run"
        )
    with path.open("xb") as file:
        file.write(content)
    return len(content)


def read(path: Path) -> Bundle:
    """Raises `BundleError`, and `OSError` for a file that cannot be read."""
    content = read_regular(path, LARGEST)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = _members(archive)
    except BundleError:
        raise
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise BundleError(f"is no bundle: {clean(error)}") from None
    return Bundle(_about(members[ABOUT]), tuple(filter(None, members[LAUNCHES].split(b"\n"))))


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    names = [info.filename for info in archive.infolist()]
    if sorted(names) != sorted(MEMBERS):
        shown = ", ".join(clean(name, 40) for name in names[:4]) or "nothing"
        raise BundleError(f"holds {shown}; a bundle holds {' and '.join(MEMBERS)}, each once, and nothing else")
    members = {}
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_DEFLATED:  # only it is decompressed in parts
            raise BundleError(f"{info.filename} is compressed otherwise than a bundle is")
        limit = min(MEMBERS[info.filename], RATIO_MOST * max(info.compress_size, 1 << 10))
        with archive.open(info) as member:  # which decompresses no more than what is asked for
            members[info.filename] = member.read(limit + 1)
        if len(members[info.filename]) > limit:
            raise BundleError(f"{info.filename} has more than {limit} bytes when it is decompressed")
    return members


def _about(text: bytes) -> About:
    try:
        about: About = decode(About, json.loads(text))
    except (SchemaError, ValueError, RecursionError) as error:
        raise BundleError(f"{ABOUT}: {clean(error)}") from None
    if about.format != FORMAT:
        raise BundleError(f"{ABOUT}: its format is {about.format}, and {FORMAT} is known here: update the suite")
    return about
