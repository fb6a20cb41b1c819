"""Seeded mutations of archives, pickles and caches: they are read, or refused in one line by `DataError`."""

from __future__ import annotations

import gzip
import pickle
import random
import tarfile
from dataclasses import replace

from data_makers import REVIEWS, archive, cifar_files, cifar_source, imdb_source, put
from test_data_broken import header, one_line, packed, record, sparse

from workloads.data.cache import open_cached, verify, write
from workloads.data.real.archive import Members
from workloads.data.synthetic import generate

LONG = "aclImdb/train/pos/" + 150 * "é"


def mutated(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 2, 8))):
        place = dice.randrange(min(len(changed), dice.choice((10**4, 10**6))))  # the odd headers come first
        kind = dice.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            changed[place] = dice.choice(b"\0\x80\xff0-9 =\n")
        elif kind == 2:
            del changed[place : place + dice.choice((1, 512))]
        elif kind == 3:
            changed[place:place] = changed[: dice.choice((1, 512, 1024))]
        elif kind == 4:
            changed[place : place + 8] = dice.randbytes(8)
        else:
            changed = changed[: max(place, 1)]
        changed = changed or bytearray(1)
    return bytes(changed)


def resealed(tar: bytes) -> bytes:
    """The same with headers' checksums that hold, so that what else is wrong comes to light."""
    blocks = [bytearray(tar[start : start + 512]) for start in range(0, len(tar), 512)]
    for block in blocks:
        if len(block) == 512 and block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
    return b"".join(blocks)


SPARSE = [
    header(tarfile.XHDTYPE, sparse(major="1", minor="0", realsize="3", name="s")),
    header(b"0", b"1\n0\n3\n"),
    header(tarfile.XHDTYPE, sparse(map="0,1", size="1", numblocks="1")),
    header(b"0", b"1"),
]


def everything(*more: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A tar archive with reviews, pickles, and all kinds of headers."""
    named = [("/".join(("aclImdb", *key)), content) for key, content in REVIEWS.items()]
    named += [(f"cifar-100-python/{name}", content) for name, content in cifar_files(1, 1).items()]
    contents = [(tarfile.TarInfo(name), content) for name, content in [*named, (LONG, b"long")]]
    extras = [
        header(tarfile.XGLTYPE, record(b"comment", b"for all")),
        header(tarfile.XHDTYPE, record(b"size", b"1") + record(b"mtime", b"1.5") + record(b"hdrcharset", b"BINARY")),
        (tarfile.TarInfo("a"), b"1"),
    ]
    old = packed((tarfile.TarInfo(LONG + "old"), b"old"), form=tarfile.GNU_FORMAT)
    parts = [part.rstrip(b"\0") for part in (old, packed(*extras, *more), packed(*contents))]
    return b"".join(part + bytes(-len(part) % 512) for part in parts) + bytes(2 * 512)  # zeros mark the end


KEYWORDS = (
    "size path mtime uid hdrcharset comment GNU.sparse.map GNU.sparse.size GNU.sparse.offset GNU.sparse.numbytes "
)
KEYWORDS += "GNU.sparse.major GNU.sparse.minor GNU.sparse.realsize GNU.sparse.numblocks GNU.sparse.name"
VALUES = (b"", b"0", b"1", b"-1", b"x", b"1,2", b"\xff", b"nan", b"1e999", b"9" * 30, b"../a", b"a\0b")


def odd_headers(dice: random.Random) -> list[tuple[tarfile.TarInfo, bytes]]:
    """A pax header of random records, and the file that it is about."""
    words = [(dice.choice(KEYWORDS.split()).encode(), dice.choice(VALUES)) for _ in range(dice.randrange(1, 5))]
    kind = dice.choice((tarfile.XHDTYPE, tarfile.XGLTYPE))
    return [header(kind, b"".join(record(*word) for word in words)), header(tarfile.REGTYPE, dice.choice(VALUES))]


def test_mutated_archives_are_read_or_refused(tmp_path):
    """Seeded; all readers see the same archives, those of the data sets also as if they were official."""
    dice, plain = random.Random(20211), (everything(), everything(*SPARSE))
    sources, readable = (imdb_source(), cifar_source(cifar_files(1, 1))), 0
    for number in range(250):
        tar = mutated(dice.choice(plain), dice) if number % 2 else everything(*odd_headers(dice))
        content = gzip.compress(resealed(tar) if dice.random() < 0.7 else tar, 1)
        content = mutated(content, dice) if dice.random() < 0.2 else content
        path = put(tmp_path / "a.tar.gz", content)
        readable += one_line(lambda: list(Members(path)))  # noqa: B023 - called at once
        official = archive(content, "http://127.0.0.1:1/a.tar.gz")
        for source in sources:
            one_line(lambda: source.read(path))  # noqa: B023
            one_line(lambda: replace(source, archive=official).read(path))  # noqa: B023
    assert 25 < readable < 225  # or the mutations are too harmless or too coarse to say anything


def test_mutated_pickles_are_read_or_refused(tmp_path):
    """As if their checksums held. LONG_BINPUT is left out, for it sets aside memory for whatever number follows it."""
    dice, files = random.Random(2), cifar_files(1, 1)
    head, middle, tail = files["train"][:250], files["train"][250:-60], files["train"][-60:]
    for name, content in files.items():
        put(tmp_path / name, content)
    readable = 0
    for _ in range(300):
        changed = mutated(head + tail, dice)
        if changed.count(pickle.LONG_BINPUT) > (head + tail).count(pickle.LONG_BINPUT):
            continue
        files["train"] = put(tmp_path / "train", changed[:250] + middle + changed[250:]).read_bytes()
        readable += one_line(lambda: cifar_source(files).read(tmp_path))
    assert 10 < readable < 150


def test_mutated_caches_are_opened_or_refused(tmp_path):
    folder = write(generate("imdb", 3, 2), tmp_path)
    dice = random.Random(20211)
    for _ in range(150):
        name = dice.choice(("meta.json", "train_inputs.npy", "test_labels.npy"))
        before = (folder / name).read_bytes()
        put(folder / name, mutated(before[:120], dice) + before[120:])
        one_line(lambda: open_cached(folder))
        put(folder / name, before)
    assert verify(folder)
