"""The Large Movie Review Dataset (Maas et al. 2011, *Learning Word Vectors for Sentiment Analysis*): 25,000 + 25,000.

The archive's 50,000 small files are streamed into memory, never extracted. Verified is their content: a digest over
names and bytes of all labelled reviews. So an archive without the unsupervised half is as good as the official one, and
one with a changed, missing or added review is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workloads.data import tokenizer
from workloads.data.dataset import Split
from workloads.data.progress import progress
from workloads.data.real.archive import Archive
from workloads.data.real.sources import Source, in_order

ARCHIVE = Archive(
    url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    bytes=84_125_825,
    md5="7c2ac02c03563afcf9b574c7e56c153a",
)


@dataclass(frozen=True)
class Imdb(Source):
    """The official archive, or its folder ``aclImdb`` with ``{train,test}/{neg,pos}/*.txt``.

    The archive is described at https://ai.stanford.edu/~amaas/data/sentiment/.
    """

    name: ClassVar[str] = "imdb"
    folder: ClassVar[str] = "aclImdb"
    patterns: ClassVar[tuple[str, ...]] = ("train/neg/*.txt", "train/pos/*.txt", "test/neg/*.txt", "test/pos/*.txt")
    largest_bytes: ClassVar[int] = 2**16  # the largest official review has 13,704

    archive: Archive = ARCHIVE
    digest: str = "7ba2c6aa9394f3ba8f952f0f22f68aa0f589a76f7265604e5848c9f0e71069c8"
    content: str = "5bd2458afb3afa480bf22848a8f3a568c492b7dc1576925c7f6f54463715c3cc"

    def parse(self, files: dict[str, bytes]) -> tuple[Split, Split]:
        """Tokens uint16 ``(n, 500)``, labels int32 ``(n,)`` with 0 for negative and 1 for positive.

        The order of the samples is that of the digest: all negative reviews of a split, then all positive ones, each
        by file name as a byte string.
        """
        ordered = in_order(files)
        names = {split: [name for name in ordered if name.startswith(split)] for split in ("train", "test")}
        texts = {split: [files[name].decode() for name in own] for split, own in names.items()}
        labels = {split: np.array(["/pos/" in name for name in own], np.int32) for split, own in names.items()}
        vocabulary = tokenizer.vocabulary(progress(texts["train"], "imdb: counting words", "review"))
        train, test = (
            Split(tokenizer.encode(progress(texts[split], f"imdb: encoding {split}", "review"), vocabulary), label)
            for split, label in labels.items()
        )
        return train, test
