"""The Large Movie Review Dataset (Maas et al. 2011, *Learning Word Vectors for Sentiment Analysis*): 25,000 + 25,000.

The archive's 50,000 small files are streamed into memory, never extracted. Verified is their content: a digest over
names and bytes of all labelled reviews. So an archive without the unsupervised half is as good as the official one, and
one with a changed, missing or added review is refused. The official archive itself, known by its MD5, is always taken.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from workloads.data import tokenizer
from workloads.data.cache import with_digest
from workloads.data.dataset import DataSet, Split
from workloads.data.progress import progress
from workloads.data.real.archive import (
    MAX_MEMBERS,
    MAX_UNPACKED_BYTES,
    Archive,
    BrokenSourceError,
    Members,
    describe_broken,
)
from workloads.data.real.sources import Source, read_file

# Split, class: the order in which reviews are digested and in which samples are numbered.
FOLDERS = (("train", "neg"), ("train", "pos"), ("test", "neg"), ("test", "pos"))
LABELS = {"neg": 0, "pos": 1}
LARGEST_BYTES = 2**16  # of one review; the largest official one has 13,704

ARCHIVE = Archive(
    url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    bytes=84_125_825,
    md5="7c2ac02c03563afcf9b574c7e56c153a",
)

Key = tuple[str, str, str]  # split, class, file name
Reviews = dict[Key, bytes]


@dataclass(frozen=True)
class Imdb(Source):
    """The official archive, or its folder ``aclImdb`` with ``{train,test}/{neg,pos}/*.txt``.

    ``content`` is what `content_digest` must give. The archive is described at
    https://ai.stanford.edu/~amaas/data/sentiment/.
    """

    name: ClassVar[str] = "imdb"
    folder: ClassVar[str] = "aclImdb"

    archive: Archive = ARCHIVE
    digest: str = "7ba2c6aa9394f3ba8f952f0f22f68aa0f589a76f7265604e5848c9f0e71069c8"
    content: str = "5bd2458afb3afa480bf22848a8f3a568c492b7dc1576925c7f6f54463715c3cc"

    def _read(self, path: Path) -> DataSet:
        """Tokens uint16 ``(n, 500)``, labels int32 ``(n,)`` with 0 for negative and 1 for positive.

        The order of the samples is that of the digest: all negative reviews of a split, then all positive ones, each
        by file name as a byte string. Raises `DataError` if the reviews are not the official ones.
        """
        reviews, official = (_from_folder(path), False) if path.is_dir() else self._from_archive(path)
        ordered = sorted(reviews, key=lambda key: (FOLDERS.index(key[:2]), _encode(key[2])))
        actual = content_digest(reviews, ordered)
        if actual != self.content and not official:
            raise BrokenSourceError(
                f"{path}: its {len(ordered)} reviews have the digest {actual[:16]}..., "
                f"the official 50000 have {self.content[:16]}..."
            )
        if len({key[:2] for key in ordered}) < len(FOLDERS):
            raise BrokenSourceError(f"{path} lacks the reviews of a split or a class")
        texts = {
            split: [_text(path, key, reviews[key]) for key in ordered if key[0] == split] for split in ("train", "test")
        }
        labels = {
            split: np.array([LABELS[key[1]] for key in ordered if key[0] == split], dtype=np.int32) for split in texts
        }
        vocabulary = tokenizer.vocabulary(progress(texts["train"], "imdb: counting words", "review"))
        train, test = (
            Split(tokenizer.encode(progress(texts[split], f"imdb: encoding {split}", "review"), vocabulary), label)
            for split, label in labels.items()
        )
        return self.check(with_digest(self.name, "real", train, test), path, official)

    def _from_archive(self, path: Path) -> tuple[Reviews, bool]:
        """The reviews, and whether they are from the official archive."""
        members = Members(path, lambda name: _key(name) is not None, LARGEST_BYTES)
        reviews = {key: content for name, content in members if (key := _key(name))}
        return reviews, members.is_official(self.archive)


def content_digest(reviews: Reviews, ordered: list[Key]) -> str:
    """SHA-256, hex: for each review ``SPLIT/CLASS/NAME``, NUL, its decimal byte length, NUL, its bytes."""
    digest = hashlib.sha256()
    for key in ordered:
        digest.update(_encode("/".join(key)) + b"\0%d\0" % len(reviews[key]) + reviews[key])
    return digest.hexdigest()


def _encode(name: str) -> bytes:
    """A name's bytes as tar archives and file systems have them, also if they are not UTF-8, on any machine."""
    return name.encode("utf-8", "surrogateescape")


def _text(path: Path, key: Key, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BrokenSourceError(f"{path}: review {'/'.join(key)!r} is not UTF-8: {error}") from error


def _key(name: str) -> Key | None:
    """What a member of the archive is called as a review, or None if it is no labelled one."""
    parts = tuple(name.split("/"))
    if len(parts) == 4 and parts[1:3] in FOLDERS and name.endswith(".txt"):
        return parts[1], parts[2], parts[3]
    return None


def _from_folder(path: Path) -> Reviews:
    reviews: Reviews = {}
    total = 0
    for split, label in FOLDERS:
        folder = path / split / label
        try:
            names = [path.name for path in folder.iterdir() if path.suffix == ".txt"]
        except OSError as error:
            raise describe_broken(folder, error) from error
        for name in progress(names, f"imdb: reading {split}/{label}", "file"):
            reviews[split, label, name] = content = read_file(folder / name, LARGEST_BYTES)
            total += len(content)
            if total > MAX_UNPACKED_BYTES or len(reviews) > MAX_MEMBERS:
                raise BrokenSourceError(f"{path} has more than {MAX_MEMBERS} reviews or {MAX_UNPACKED_BYTES} bytes")
    return reviews
