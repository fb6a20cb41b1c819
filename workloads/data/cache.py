"""The parsed cache: one folder per data set and kind, four ``.npy`` files and a ``meta.json``, opened memory-mapped.

A folder appears under its final name only when it is complete: it is written beside it and renamed. Workers open it by
`open_cached`, which takes milliseconds and hashes nothing; `verify` hashes everything.

A damaged or outdated folder is replaced. Only what this program wrote is ever removed, file by file and by name:
whatever else lies under a name of the cache stays there, and is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workloads.data.dataset import (
    ARRAYS,
    FORMS,
    KINDS,
    Array,
    DataError,
    DataSet,
    Split,
    arrays,
    contiguous_bytes,
)
from workloads.data.files import make_folder, read_regular, refuse_shared, regular
from workloads.data.progress import Advance, byte_progress

# Changes when the files, the parsing, the tokenizer or the synthetic twin change, so that no older cache is taken.
VERSION = 1

REBUILD = "`training-suite data fetch` builds it anew"

# All files of a cache folder. meta.json is removed last, since a folder without it is not recognised as ours.
FILES = (*(f"{name}.npy" for name in ARRAYS), "meta.json")
MAX_META_BYTES = 2**16
CHUNK_BYTES = 2**24


def digest(data: DataSet) -> str:
    """SHA-256, hex, over name, shape, dtype (little-endian) and bytes of the four arrays."""
    total = hashlib.sha256()
    with byte_progress(f"{data.name}: hashing", 0, sum(array.nbytes for array in arrays(data).values())) as advance:
        for name, array in arrays(data).items():
            total.update(f"{name} {array.shape} {_dtype(array)}\n".encode())
            for chunk in _chunks(array):
                total.update(chunk)
                advance(len(chunk))
    return total.hexdigest()


def with_digest(name: str, kind: str, train: Split, test: Split) -> DataSet:
    """The data set of these splits, its digest computed."""
    data = DataSet(name, kind, "", train, test)
    return replace(data, digest=digest(data))


def folder_of(cache: Path, name: str, kind: str) -> Path:
    """Where a data set of this kind lies in a cache directory."""
    return cache / f"{name}-{kind}-v{VERSION}"


def write(data: DataSet, cache: Path) -> Path:
    """Store a data set in the cache directory and return its folder; replaces an existing cache as a whole, unless it
    is complete and the same.

    Raises OSError if it cannot be written (no permission, no space), and `DataError` if this program did not write
    what is there; then nothing is left behind.
    """
    folder = folder_of(cache, data.name, data.kind)
    make_folder(cache)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=cache))
    try:
        with byte_progress(f"{data.name}: writing", 0, sum(array.nbytes for array in arrays(data).values())) as advance:
            for name, array in arrays(data).items():
                _write_array(temporary / f"{name}.npy", array, advance)
        (temporary / "meta.json").write_text(json.dumps(_meta(data), indent=2) + "\n", encoding="utf-8")
        temporary.chmod(0o755)  # mkdtemp makes it private; what root has cached may be read by all users of a machine
        for name in FILES:
            (temporary / name).chmod(0o644)
        _put(temporary, folder, data)
    finally:
        _remove(temporary)
    return folder


def refuse_foreign(folder: Path) -> None:
    """Raise `DataError` if this program did not write what has the name of this cache folder."""
    reason = _foreign(folder)
    if reason:
        raise DataError(
            f"{folder} {reason}, so it is not known as a cache of this program and stays as it is; "
            "move it away, or name another cache directory in SUITE_CACHE_DIR"
        )


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary folders that killed writers of a cache folder left, and nothing else with similar names."""
    temporary = re.compile(re.escape(folder.name) + r"\.tmp-[a-z0-9_]{8}")  # as `tempfile.mkdtemp` makes them
    for entry in folder.parent.iterdir():
        with suppress(OSError):  # gone meanwhile, or closed to us
            if temporary.fullmatch(entry.name) and _is_folder(entry) and all(map(_is_ours, entry.iterdir())):
                _remove(entry)


def open_cached(folder: Path) -> DataSet:
    """The data set in a cache folder, memory-mapped and read-only, in milliseconds.

    Checks the format's version, the arrays' shapes, types and file sizes, and that nobody else can change them, but not
    their bytes: `verify` does that. Raises `DataError`.
    """
    try:
        return _open(folder)
    except FileNotFoundError as error:
        raise _unfit(folder, f"has no file {Path(error.filename).name}") from error
    except OSError as error:
        file = Path(error.filename).name if error.filename else "a file"
        raise _unfit(folder, f"cannot be read: {file}: {error.strerror or error}") from error
    except Exception as error:  # broken headers make json and NumPy raise nearly anything
        raise _unfit(folder, f"is damaged: {' '.join(str(error).split()) or type(error).__name__}") from error


def verify(folder: Path) -> DataSet:
    """The data set in a cache folder, every byte of it hashed; `DataError` if it is not what it was when written."""
    data = open_cached(folder)
    actual = digest(data)
    if actual != data.digest:
        raise DataError(
            f"cache {folder} is damaged: digest {actual[:16]}..., it was written with {data.digest[:16]}...; {REBUILD}"
        )
    return data


def _open(folder: Path) -> DataSet:
    meta = json.loads(read_regular(folder / "meta.json", MAX_META_BYTES))
    refuse_shared(folder, folder / "meta.json")
    version, name, kind = meta["version"], str(meta["name"]), str(meta["kind"])
    if version != VERSION or kind not in KINDS:
        raise ValueError(f"it has format {version} and kind {kind}, not {VERSION}")
    opened = {array: _open_array(folder / f"{array}.npy", meta["arrays"][array]) for array in ARRAYS}
    train = Split(opened["train_inputs"], opened["train_labels"])
    test = Split(opened["test_inputs"], opened["test_labels"])
    if not all(len(split.inputs) == len(split.labels) for split in (train, test)):
        raise ValueError("inputs and labels differ in number")
    form = str(meta.get("form", ""))
    if form not in ("", *FORMS):
        raise ValueError(f"its form is {form!r}")
    return DataSet(name, kind, str(meta["digest"]), train, test, form)


def _dtype(array: Array) -> str:
    return array.dtype.newbyteorder("<").str


def _chunks(array: Array) -> Iterator[memoryview]:
    content = contiguous_bytes(array)
    return (content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES))


def _meta(data: DataSet) -> dict[str, Any]:
    meta = {
        "name": data.name,
        "kind": data.kind,
        "version": VERSION,
        "digest": data.digest,
        "arrays": {name: {"shape": [*array.shape], "dtype": _dtype(array)} for name, array in arrays(data).items()},
    }
    if data.form:
        meta["form"] = data.form
    return meta


def _write_array(path: Path, array: Array, advance: Advance) -> None:
    """Like `numpy.save`, but a full disk raises an OSError with its number, and the bytes are not copied."""
    header = {"shape": array.shape, "fortran_order": False, "descr": _dtype(array)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in _chunks(array):
            advance(file.write(chunk))


def _open_array(path: Path, facts: dict[str, Any]) -> Array:
    with open(str(path), "rb", opener=regular) as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        expected = file.tell() + int(np.prod(shape)) * dtype.itemsize
    refuse_shared(path)
    if {"shape": list(shape), "dtype": dtype.str} != facts:
        raise ValueError(f"{path.name} is {dtype} {shape}, not {facts['dtype']} {facts['shape']}")
    if path.stat().st_size != expected:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, not {expected}")
    opened: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return opened


def _put(temporary: Path, folder: Path, data: DataSet) -> None:
    """Rename to the final name. An existing folder is kept if it is as good, else moved away and removed."""
    for attempt in range(10):
        refuse_foreign(folder)
        try:
            temporary.rename(folder)
        except OSError:
            if attempt == 9 or not folder.exists():
                raise
        else:
            return
        with suppress(DataError):
            if verify(folder).digest == data.digest:  # another process wrote the same meanwhile
                return
        discarded = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
        with suppress(FileNotFoundError):  # another process moved it first
            folder.replace(discarded)  # onto an empty folder, which a rename may replace
        _remove(discarded)


def _unfit(folder: Path, reason: str) -> DataError:
    return DataError(f"cache {folder} {reason}; {f'move it away, and {REBUILD}' if _foreign(folder) else REBUILD}")


def _foreign(folder: Path) -> str:
    """Why a folder is not from this program; empty if it is, has no files, or does not exist."""
    try:
        if not _is_folder(folder):
            return "is no folder"
    except OSError:  # not accessible, which writing to it will report
        return ""
    try:
        entries = sorted(folder.iterdir())
        foreign = [entry.name for entry in entries if not _is_ours(entry)]
        if foreign:
            return f"holds {foreign[0]!r}"
        return _foreign_meta(folder, entries) if entries else ""
    except FileNotFoundError:  # another process has moved it away
        return ""
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _foreign_meta(folder: Path, entries: list[Path]) -> str:
    if folder / "meta.json" not in entries:
        return "has no file meta.json"
    try:
        meta = json.loads(read_regular(folder / "meta.json", MAX_META_BYTES))
        same = folder_of(folder.parent, meta["name"], meta["kind"]) == folder
    except (ValueError, LookupError, TypeError, RecursionError):
        return "has a meta.json that is damaged"
    return "" if same else "has a meta.json for something else"


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)  # and no link to one


def _is_ours(entry: Path) -> bool:
    return entry.name in FILES and stat.S_ISREG(entry.lstat().st_mode)


def _remove(folder: Path) -> None:
    """Remove a folder with the files of a cache; anything else stays, and then the folder too."""
    for name in FILES:
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()
