"""The parsed cache: one folder per data set and kind, four ``.npy`` files and a ``meta.json``, opened memory-mapped.

A folder appears under its final name only when it is complete: it is written beside it and renamed. Workers open it by
`open_cached`, which takes milliseconds and hashes nothing; `verify` hashes everything.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workloads.data.dataset import KINDS, Array, DataError, DataSet, Split, arrays, contiguous_bytes

# Changes when the files, the parsing, the tokenizer or the synthetic twin change, so that no older cache is taken.
VERSION = 1

REBUILD = "`python -m workloads.data fetch` builds it anew"


def digest(data: DataSet) -> str:
    """SHA-256, hex, over name, shape, dtype (little-endian) and bytes of the four arrays."""
    total = hashlib.sha256()
    for name, array in arrays(data).items():
        total.update(f"{name} {array.shape} {_dtype(array)}\n".encode())
        total.update(contiguous_bytes(array))
    return total.hexdigest()


def with_digest(name: str, kind: str, train: Split, test: Split) -> DataSet:
    """The data set of these splits, its digest computed."""
    data = DataSet(name, kind, "", train, test)
    return replace(data, digest=digest(data))


def folder_of(cache: Path, name: str, kind: str) -> Path:
    """Where a data set of this kind lies in a cache directory."""
    return cache / f"{name}-{kind}-v{VERSION}"


def write(data: DataSet, cache: Path) -> Path:
    """Store a data set in the cache directory and give its folder; what lay there before is replaced as a whole,
    unless it is whole and the same.

    Raises OSError if it cannot be written (no permission, no space); then nothing is left behind.
    """
    folder = folder_of(cache, data.name, data.kind)
    cache.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=cache))
    try:
        for name, array in arrays(data).items():
            _write_array(temporary / f"{name}.npy", array)
        meta = {
            "name": data.name,
            "kind": data.kind,
            "version": VERSION,
            "digest": data.digest,
            "arrays": {name: _facts(array) for name, array in arrays(data).items()},
        }
        (temporary / "meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
        temporary.chmod(0o755)  # mkdtemp makes it private; a cache may be shared by the users of a machine
        _put(temporary, folder, data.digest)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def open_cached(folder: Path) -> DataSet:
    """The data set in a cache folder, memory-mapped and read-only, in milliseconds.

    Checked are the format's version and the arrays' shapes, types and file sizes, not their bytes: `verify` does that.
    Raises `DataError`.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        version, name, kind = meta["version"], str(meta["name"]), str(meta["kind"])
        if version != VERSION or kind not in KINDS:
            raise DataError(f"cache {folder} has format {version} and kind {kind}, not {VERSION}; {REBUILD}")
        opened = {array: _open_array(folder / f"{array}.npy", facts) for array, facts in meta["arrays"].items()}
        train = Split(opened["train_inputs"], opened["train_labels"])
        test = Split(opened["test_inputs"], opened["test_labels"])
        data = DataSet(name, kind, str(meta["digest"]), train, test)
    except FileNotFoundError as error:
        raise DataError(f"cache {folder} has no file {Path(error.filename).name}; {REBUILD}") from error
    except OSError as error:
        raise DataError(f"cache {folder} cannot be read: {error.strerror or error}; {REBUILD}") from error
    except (ValueError, LookupError, TypeError, AttributeError, EOFError) as error:
        raise DataError(f"cache {folder} is damaged: {error}; {REBUILD}") from error
    if not all(len(split.inputs) == len(split.labels) for split in (train, test)):
        raise DataError(f"cache {folder} is damaged: inputs and labels differ in number; {REBUILD}")
    return data


def verify(folder: Path) -> DataSet:
    """The data set in a cache folder, every byte of it hashed; `DataError` if it is not what it was when written."""
    data = open_cached(folder)
    found = digest(data)
    if found != data.digest:
        raise DataError(
            f"cache {folder} is damaged: digest {found[:16]}..., it was written with {data.digest[:16]}...; {REBUILD}"
        )
    return data


def _dtype(array: Array) -> str:
    return array.dtype.newbyteorder("<").str


def _facts(array: Array) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": _dtype(array)}


def _write_array(path: Path, array: Array) -> None:
    """As `numpy.save` does it, but a full disk raises an OSError with its number, and the bytes are not copied."""
    header = {"shape": array.shape, "fortran_order": False, "descr": _dtype(array)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(contiguous_bytes(array))


def _open_array(path: Path, facts: dict[str, Any]) -> Array:
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        expected = file.tell() + int(np.prod(shape)) * dtype.itemsize
    if {"shape": list(shape), "dtype": dtype.str} != facts:
        raise ValueError(f"{path.name} is {dtype} {shape}, not {facts['dtype']} {facts['shape']}")
    if path.stat().st_size != expected:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, not {expected}")
    opened: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return opened


def _put(temporary: Path, folder: Path, wanted: str) -> None:
    """Rename onto the final name. What lies there is kept if it is as good, else moved away and removed."""
    for attempt in range(10):
        try:
            temporary.rename(folder)
        except OSError:
            if attempt == 9 or not folder.exists():
                raise
        else:
            return
        with suppress(DataError):
            if verify(folder).digest == wanted:  # another process wrote the same meanwhile
                return
        away = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
        with suppress(FileNotFoundError):  # another process moved it first
            folder.replace(away)  # onto an empty folder, which a rename may replace
        shutil.rmtree(away, ignore_errors=True)
