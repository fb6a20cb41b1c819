"""The training split stored sample by sample: one file per sample, or shards that a framework's own library reads.

A store is a folder beside the cache folder of the arrays, made once. An image is a PNG, anything else the bytes of its
row; a label is the name of a file's folder, or part of a shard's record. A batch is decoded when it is made. Nothing is
ever removed here: a store that is damaged, or of other data, stays where it is and is an error.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from workloads.data.cache import MAX_META_BYTES
from workloads.data.dataset import Array, DataError, DataSet, Split
from workloads.data.files import make_folder, read_regular, refuse_shared
from workloads.data.prepare import writing
from workloads.data.progress import byte_progress

#: Changes when the samples are encoded in another way, so that no older store is taken.
VERSION = 1
META = "meta.json"
REMAKE = "move it away, and it is made anew"
SHARD_SAMPLES = 5000
MAX_FILE_BYTES = 2**32

#: An encoded sample and its label.
Sample = tuple[bytes, int]
#: Gives the samples of these indices.
Reader = Callable[[Sequence[int]], list[Sample]]


@dataclass(frozen=True)
class Container:
    """How a store keeps samples. ``write`` gets its folder, all samples and the suffix of their kind.

    ``open`` gets the folder and the number of samples; without it the samples are read elsewhere, by the framework.
    ``distribution`` is what reads it, which is imported as ``package``.
    """

    name: str
    distribution: str
    package: str
    write: Callable[[Path, Iterator[Sample], str], None]
    open: Callable[[Path, int], Reader] | None = None

    @property
    def missing(self) -> str:
        """What must be installed to read it; empty if all is there."""
        return "" if find_spec(self.package) else self.distribution

    @property
    def reader(self) -> str:
        """What reads it, with its version."""
        imported = getattr(sys.modules.get(self.package), "__version__", "")  # a build may have another distribution
        return f"{self.distribution} {imported or version(self.distribution)}"


def encode(sample: Array) -> bytes:
    """An image as PNG, anything else as its bytes, little-endian."""
    if not is_image(sample):
        return sample.astype(sample.dtype.newbyteorder("<"), copy=False).tobytes()
    from PIL import Image  # as torchvision's and grain's examples do

    buffer = io.BytesIO()
    Image.fromarray(sample).save(buffer, "PNG")
    return buffer.getvalue()


def decode(content: bytes, like: Array) -> Array:
    """The sample of the shape and type of ``like`` that `encode` made these bytes of."""
    if not is_image(like):
        return np.frombuffer(content, like.dtype.newbyteorder("<")).reshape(like.shape)
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(content), formats=["PNG"]))


def is_image(sample: Array) -> bool:
    return sample.dtype == np.uint8 and sample.ndim == 3 and sample.shape[-1] == 3


@dataclass(frozen=True)
class Stored(Split):
    """A split that is read from a store; ``inputs`` and ``labels`` are those that it was made of, for their shapes."""

    folder: Path
    container: Container

    def take(self, indices: Any) -> tuple[Array, Array]:
        if not np.ndim(indices):
            inputs, labels = self.take([indices])
            return inputs[0], labels[0]
        samples = self.read([int(index) for index in indices])
        inputs = np.stack([decode(content, self.inputs[0]) for content, _ in samples])
        return inputs, np.array([label for _, label in samples], self.labels.dtype)

    @cached_property
    def read(self) -> Reader:
        """Opened where the first batch is made, so that each process of a loader has files of its own."""
        assert self.container.open
        return self.container.open(self.folder, len(self))

    @property
    def files(self) -> list[Path]:
        return list_files(self.folder)

    @property
    def description(self) -> dict[str, Any]:
        """What a record says of it."""
        return {
            "container": self.container.name, "reader": self.container.reader,
            "digest": _read_meta(self.folder)["digest"],
        }  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return _stored_again, (Split(self.inputs, self.labels), self.folder, self.container)


def _stored_again(split: Split, folder: Path, container: Container) -> Stored:
    return Stored(split.inputs, split.labels, folder, container)


def folder_of(source: Path, container: Container) -> Path:
    """Where the store of a cache folder's training split lies."""
    return source.with_name(f"{source.name}-{container.name}{VERSION}")


def open_stored(data: DataSet, source: Path, container: Container) -> Stored:
    """The training split as it is stored, without reading the samples. Raises `DataError`."""
    folder = folder_of(source, container)
    with _reading(folder):
        refuse_shared(folder, folder / META)
        meta = _read_meta(folder)
        made_of = meta["source"], meta["samples"], bool(meta["digest"])
    if made_of != (data.digest, len(data.train), True):
        raise DataError(f"{folder} was made of other data; {REMAKE}")
    return Stored(data.train.inputs, data.train.labels, folder, container)


def prepare_store(data: DataSet, source: Path, container: Container, say: Callable[[str], None]) -> Path:
    """The folder of the store, which is made unless it is there; every byte of it is hashed. Raises `DataError`."""
    folder = folder_of(source, container)
    if not folder.exists():
        with writing(folder.parent, folder, say):
            if not folder.exists():  # another process may have made it while this one waited
                say(f"{data.name}: storing {len(data.train):,} samples as {container.name} in {folder}")
                _make(data, folder, container)
    open_stored(data, source, container)
    with _reading(folder):
        refuse_shared(*folder.rglob("*"))
        actual, expected = digest(folder), str(_read_meta(folder)["digest"])
    if actual != expected:
        raise DataError(
            f"{folder} is damaged: digest {actual[:16]}..., it was written with {expected[:16]}...; {REMAKE}"
        )
    return folder


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Whatever is wrong with the files of a store is a `DataError`."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{folder} cannot be read: {error}; {REMAKE}") from error


def require_all(folder: Path, found: int, samples: int) -> None:
    """Raises `DataError` unless a store has all samples."""
    if found != samples:
        raise DataError(f"{folder} has {found:,} samples, not {samples:,}; {REMAKE}")


def digest(folder: Path) -> str:
    """SHA-256, hex, over the names, sizes and bytes of all files of a store."""
    total = hashlib.sha256()
    for path in list_files(folder):
        content = read_regular(path, MAX_FILE_BYTES)
        total.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return total.hexdigest()


def list_files(folder: Path) -> list[Path]:
    """All files of a store with samples, by name."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir() and path != folder / META)


def _make(data: DataSet, folder: Path, container: Container) -> None:
    """Write the store beside its place, over what a killed process has left of the same data, and rename it."""
    part = folder.with_name(f"{folder.name}-{data.digest[:16]}.part")
    if part.is_symlink():
        raise DataError(f"{part} is a link, and a store is made in a folder; move it away")
    make_folder(part)
    refuse_shared(part)
    part.chmod(0o700)  # as `tempfile.mkdtemp` makes it: until its files have their modes, nobody else opens them
    container.write(part, _samples(data), "png" if is_image(data.train.inputs[0]) else "bin")
    meta = {"version": VERSION, "source": data.digest, "samples": len(data.train), "digest": digest(part)}
    (part / META).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    for path in (*part.rglob("*"), part):  # whatever the umask: what others can change is refused
        path.chmod(0o755 if path.is_dir() else 0o644)
    os.sync()  # or a page could not be dropped from the page cache before the system has written it
    part.rename(folder)


def _samples(data: DataSet) -> Iterator[Sample]:
    with byte_progress(f"{data.name}: encoding", 0, data.train.inputs.nbytes) as advance:
        for sample, label in zip(data.train.inputs, data.train.labels, strict=True):
            yield encode(sample), int(label)
            advance(sample.nbytes)


def _read_meta(folder: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(read_regular(folder / META, MAX_META_BYTES))
    return meta


def shards(samples: Iterable[Sample], folder: Path, suffix: str) -> Iterator[tuple[str, Iterator[Sample]]]:
    """The names of shards, and the samples of each, which must be taken before the next."""
    left = iter(samples)
    number = 0
    while part := list(islice(left, SHARD_SAMPLES)):
        yield str(folder / f"{number:05d}.{suffix}"), iter(part)
        number += 1


def list_labelled(folder: Path, samples: int) -> list[tuple[str, int]]:
    """The path and label of each sample of a store of files, by its index. Raises `DataError`."""
    files = list_files(folder)
    with _reading(folder):
        places = {int(path.stem): (str(path), int(path.parent.name)) for path in files}
    require_all(folder, len(files), samples)
    require_all(folder, len(places.keys() & {*range(samples)}), samples)
    return [places[index] for index in range(samples)]


def _write_files(folder: Path, samples: Iterator[Sample], suffix: str) -> None:
    for index, (content, label) in enumerate(samples):
        place = folder / str(label) / f"{index:08d}.{suffix}"
        place.parent.mkdir(mode=0o755, exist_ok=True)
        place.write_bytes(content)


def _open_files(folder: Path, samples: int) -> Reader:
    places = list_labelled(folder, samples)

    def read(indices: Sequence[int]) -> list[Sample]:
        return [(Path(place).read_bytes(), label) for place, label in (places[index] for index in indices)]

    return read


FILES = Container("files", "pillow", "PIL", _write_files, _open_files)
