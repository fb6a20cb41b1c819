"""Whatever an archive or a folder holds: read, or `DataError` in one line, in little memory, and nothing else."""

from __future__ import annotations

import gzip
import io
import random
import sys
import tarfile
from dataclasses import replace

import pytest
from data_makers import (
    REVIEWS,
    archive,
    cifar_archive,
    cifar_files,
    cifar_source,
    imdb_archive,
    imdb_source,
    put,
    tar_gz,
    unpacked,
)

from workloads.data.dataset import DataError
from workloads.data.real import archive as archives
from workloads.data.real import sources

LONG = "aclImdb/train/pos/" + 150 * "é"


def packed(*contents: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive, not compressed."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for info, content in contents:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def header(kind: bytes, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """A header of its own kind, with this content, before the next member."""
    return member("header", kind), content


def record(keyword: bytes, value: bytes) -> bytes:
    """One line of a pax header: its own length, and what it says."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


def sparse(**values: str) -> bytes:
    return b"".join(record(f"GNU.sparse.{name}".encode(), value.encode()) for name, value in values.items())


def one_line(read) -> bool:
    """Whether it could be read; any exception but `DataError`, and any second line, fails the test."""
    try:
        read()
    except DataError as error:
        message = str(error)
    else:
        return True
    assert len(message.splitlines()) == 1
    return False


PAX = {
    "a length that no int takes": b"9" * 5000 + b" size=1\n",
    "a size of -5": record(b"size", b"-5"),
    "a size that is no number": record(b"size", b"many"),
    "a size beyond all": record(b"size", b"9" * 400),
    "a sparse size that is no number": sparse(major="1", minor="0", realsize="x"),
    "a sparse map that is none": sparse(map="a,b"),
    "sparse fields that are none": sparse(size="x", offset="y", numbytes="z"),
    "a charset that is not UTF-8": record(b"hdrcharset", b"\xff\xfe"),
    "a time beyond all": record(b"mtime", b"1e999"),
    "a name with NUL": record(b"path", b"a\0b"),
    "a sparse map with a gap": sparse(map="2,1", size="3", numblocks="1"),
    "an empty name": record(b"path", b""),
    "one of 100 kB": record(b"comment", b"x" * 10**5),
}


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE], ids=["for one", "for all"])
@pytest.mark.parametrize("content", PAX.values(), ids=PAX)
def test_a_broken_pax_header_is_one_line_or_nothing(tmp_path, content, kind):
    tar = packed(header(kind, content), (member("cifar-100-python/train"), b"1"))
    path = put(tmp_path / "a.tar.gz", gzip.compress(tar))
    one_line(lambda: cifar_source(cifar_files()).read(path))


HUGE = [packed(header(kind, bytes(10**7)), (member("a"), b"1")) for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)]
HEADERS = packed(*[header(tarfile.XHDTYPE, b"") for _ in range(2000)], (member("a"), b"1"))
CHARSET = packed(header(tarfile.XHDTYPE, PAX["a charset that is not UTF-8"]), (member("a"), b"1"))
LENGTH = packed(header(tarfile.XHDTYPE, PAX["a length that no int takes"]), (member("a"), b"1"))
GAP = packed(header(tarfile.XHDTYPE, PAX["a sparse map with a gap"]), (member("cifar-100-python/train"), b"1"))
REFUSED = {
    "a page": (b"<html>Not what you asked for</html>", "Not a gzipped file"),
    "huge pax header": (gzip.compress(HUGE[0]), "header of more than 32768 bytes"),
    "huge name": (gzip.compress(HUGE[1]), "header of more than 32768 bytes"),
    "headers of headers": (gzip.compress(HEADERS), "maximum recursion|header of more than"),
    "length": (gzip.compress(LENGTH), "int|header|number"),
    "sparse": (gzip.compress(GAP), "is a sparse file"),
    "too large": (tar_gz({"a": bytes(10**6)}), "more than 500000 bytes"),
    "too many": (tar_gz({f"a{number}": b"" for number in range(101)}), "more than 100 members"),
    "a large member": (tar_gz({"a/train": bytes(40_001)}), "train' has 40001 bytes, more than 40000"),
    "nothing": (tar_gz({}), "its 0 files have the digest"),
} | ({} if sys.version_info >= (3, 13) else {"charset": (gzip.compress(CHARSET), "codec")})


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_archive_is_refused_before_it_is_in_memory(tmp_path, case, monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 500_000)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 100)
    monkeypatch.setattr(type(cifar_source({})), "largest_bytes", 40_000)
    taken: list[int] = []
    read = archives._Limited.read
    monkeypatch.setattr(archives._Limited, "read", lambda self, count=-1: taken.append(count) or read(self, count))
    content, complaint = REFUSED[case]
    with pytest.raises(DataError, match=rf"a\.tar\.gz cannot be used: .*({complaint}).*; replace it"):
        cifar_source(cifar_files()).read(put(tmp_path / "a.tar.gz", content))
    assert sum(taken) < 10**6


def test_nothing_is_written_outside_whatever_members_are_called(tmp_path):
    odd = [member("../harm"), member("a/../../harm"), member("/harm"), member("b", tarfile.FIFOTYPE)]
    odd += [member("link", tarfile.SYMTYPE, "/etc/passwd"), member("hard", tarfile.LNKTYPE, "a")]
    files = {f"aclImdb/{name}": content for name, content in REVIEWS.items()}
    path = put(tmp_path / "in" / "a.tar.gz", tar_gz(files, *odd))
    expected = imdb_source().read(put(tmp_path / "b.tar.gz", imdb_archive())).digest
    assert imdb_source().read(path).digest == expected
    assert sorted(place.name for place in tmp_path.rglob("*")) == ["a.tar.gz", "b.tar.gz", "in"]


def test_a_truncated_archive_is_refused_wherever_it_ends(tmp_path):
    files = cifar_files()
    whole = cifar_archive(files)
    for end in (0, 5, 100, len(whole) // 2, len(whole) * 9 // 10):
        path = put(tmp_path / "a.tar.gz", whole[:end])
        with pytest.raises(DataError, match=r"a\.tar\.gz"):
            cifar_source(files).read(path)


def test_what_is_not_wanted_may_be_large(tmp_path):
    members = {"aclImdb/train/labeledBow.feat": bytes(10 * imdb_source().largest_bytes)}
    members |= {f"aclImdb/{name}": content for name, content in REVIEWS.items()}
    assert len(imdb_source().read(put(tmp_path / "a.tar.gz", tar_gz(members))).train) == 4


def test_a_folder_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    place = unpacked(tmp_path, "aclImdb", REVIEWS)
    large = unpacked(tmp_path / "large", "aclImdb", REVIEWS | {"test/neg/0_3.txt": bytes(2**16 + 1)})
    with pytest.raises(DataError, match=r"0_3\.txt cannot be used: it has more than 65536 bytes"):
        imdb_source().read(large)
    monkeypatch.setattr(sources, "MAX_UNPACKED_BYTES", 50)
    with pytest.raises(DataError, match=r"\.txt cannot be used: it has more than \d+ bytes"):
        imdb_source().read(place)


def test_too_little_memory_is_one_line(tmp_path, monkeypatch):
    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(sources, "content_digest", none_left)
    source = replace(imdb_source(), content="")
    with pytest.raises(DataError, match="too large for the memory that is free"):
        source.read(put(tmp_path / "a.tar.gz", imdb_archive()))


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
    named = [(f"aclImdb/{name}", content) for name, content in REVIEWS.items()]
    named += [(f"cifar-100-python/{name}", content) for name, content in cifar_files(1, 1).items()]
    contents = [(member(name), content) for name, content in [*named, (LONG, b"long")]]
    extras = [
        header(tarfile.XGLTYPE, record(b"comment", b"for all")),
        header(tarfile.XHDTYPE, record(b"size", b"1") + record(b"mtime", b"1.5") + record(b"hdrcharset", b"BINARY")),
        (member("a"), b"1"),
    ]
    old = packed((member(LONG + "old"), b"old"), form=tarfile.GNU_FORMAT)
    parts = [part.rstrip(b"\0") for part in (old, packed(*extras, *more), packed(*contents))]
    return b"".join(part + bytes(-len(part) % 512) for part in parts) + bytes(2 * 512)  # zeros mark the end


WORDS = "size path mtime uid hdrcharset comment GNU.sparse.map GNU.sparse.size GNU.sparse.offset GNU.sparse.numbytes "
WORDS += "GNU.sparse.major GNU.sparse.minor GNU.sparse.realsize GNU.sparse.numblocks GNU.sparse.name"
VALUES = (b"", b"0", b"1", b"-1", b"x", b"1,2", b"\xff", b"nan", b"1e999", b"9" * 30, b"../a", b"a\0b")


def odd_headers(dice: random.Random) -> list[tuple[tarfile.TarInfo, bytes]]:
    """A pax header of random records, and the file that it is about."""
    words = [(dice.choice(WORDS.split()).encode(), dice.choice(VALUES)) for _ in range(dice.randrange(1, 5))]
    kind = dice.choice((tarfile.XHDTYPE, tarfile.XGLTYPE))
    return [header(kind, b"".join(record(*word) for word in words)), header(tarfile.REGTYPE, dice.choice(VALUES))]


def test_mutated_archives_are_read_or_refused(tmp_path):
    """Seeded; also as if they were official, so that what they hold is parsed."""
    dice, plain, readable = random.Random(20211), (everything(), everything(*SPARSE)), 0
    for number in range(250):
        tar = mutated(dice.choice(plain), dice) if number % 2 else everything(*odd_headers(dice))
        content = gzip.compress(resealed(tar) if dice.random() < 0.7 else tar, 1)
        content = mutated(content, dice) if dice.random() < 0.2 else content
        path, official = put(tmp_path / "a.tar.gz", content), archive(content, "http://127.0.0.1:1/a.tar.gz")
        for source in (imdb_source(), cifar_source(cifar_files(1, 1))):
            one_line(lambda: source.read(path))  # noqa: B023 - called at once
            readable += one_line(lambda: replace(source, archive=official).read(path))  # noqa: B023
    assert 50 < readable < 450  # or the mutations are too harmless or too coarse to say anything
