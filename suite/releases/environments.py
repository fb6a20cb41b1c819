"""The environments of releases in the cache folder: built whole or not at all, one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from suite.catalog.defects import PLACES, find_defects
from suite.catalog.devices import has_gpu
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.versions import VERSION, version_key
from suite.plan.settings.frameworks import interpreter_variable, too_old
from suite.record.parts.environment import LOCK_FILE
from suite.record.scratch import scratch
from suite.record.text import clean
from suite.releases import uv
from suite.releases.uv import LOCK_BYTES_MOST, ReleaseError, read_lock
from workloads.data.files import make_folder, read_regular, refuse_shared, regular
from workloads.data.prepare import cache_directory
from workloads.data.progress import waiting

#: What a worker needs besides its framework: the dependencies in pyproject.toml.
WORKER = ("msgspec>=0.22,<0.23", "numpy>=2.0,<3", "psutil>=7.0")

#: An installed environment takes about so many times the size of its download.
UNPACKED = 4

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """A built environment. ``lock`` is the text of its lock file, by which the same is built again."""

    framework: str
    release: str
    place: Path
    lock: str

    @property
    def name(self) -> str:
        return f"{self.framework} {self.release}"

    @property
    def python(self) -> Path:
        return self.place / "bin" / "python"

    @property
    def digest(self) -> str:
        """The one in the records."""
        return hashlib.sha256(self.lock.encode()).hexdigest()

    @property
    def python_version(self) -> str:
        return self.lock.partition("\n")[0].rpartition(" ")[2]


def folder() -> Path:
    """Where environments are."""
    return cache_directory() / "releases"


def find(framework: str, release: str, parent: Path | None = None) -> Environment | None:
    """The built environment of a release; None without one.

    Raises `ReleaseError` for one whose Python is gone, whose lock is none, or that others can change. ``parent`` is the
    folder of environments, here and in `build`: without one, that in the cache.
    """
    place = (parent or folder()) / _name(framework, release)
    try:
        lock = read_regular(place / LOCK_FILE, LOCK_BYTES_MOST).decode()
        read_lock(lock)
        refuse_shared(*_above(place), *_entries(place))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, ReleaseError) as error:
        why = error.strerror if isinstance(error, OSError) else "its lock is none"
        at = error.filename if isinstance(error, OSError) else place / LOCK_FILE
        raise ReleaseError(f"{framework} {release} is not used: {clean(at)}: {why}; remove {place}, and build it anew"
        ) from None  # fmt: skip
    made = Environment(framework, release, place, lock)
    if not made.python.exists():
        remove = f"training-suite releases {framework} --remove {release}"
        raise ReleaseError(f"the Python of {made.name} is gone from this machine; `{remove}`, then build it anew")
    return made


def _above(place: Path) -> list[Path]:
    return [place.parent, *([cache_directory()] if place.parent == folder() else [])]


def _entries(place: Path) -> Iterator[Path]:
    """An environment's folders and files, without links: its Python is one."""
    yield place
    for parent, folders, files in os.walk(place):
        yield from (path for name in (*folders, *files) if not (path := Path(parent, name)).is_symlink())


def list_built(framework: str) -> list[Environment]:
    """The environments of a framework that are there, the oldest release first."""
    pattern = re.compile(rf"{framework}-(?P<release>{VERSION}){_mark()}")
    names = [pattern.fullmatch(path.name) for path in folder().glob(f"{framework}-*")]
    releases = sorted((match["release"] for match in names if match), key=version_key)
    return [made for release in releases if (made := find(framework, release))]


def remove(framework: str, release: str) -> int:
    """Remove an environment, and return the bytes that it took. Raises `ReleaseError` where there is none."""
    place = folder() / _name(framework, release)
    if place.is_symlink() or not (place / LOCK_FILE).is_file() or not (place / "pyvenv.cfg").is_file():
        raise ReleaseError(f"{framework} {release} is not built here; `training-suite releases` lists what is")
    with _lock(place, lambda _: None):
        size = size_of(place)
        with scratch(place.parent, "removing-") as aside:  # so that a kill leaves nothing half
            place.rename(aside / place.name)
    return size


def build(
    framework: str,
    release: str,
    say: Say,
    *,
    wanted: Mapping[str, str] = MappingProxyType({}),
    minor: int | None = None,
    parent: Path | None = None,
) -> Environment:
    """The environment of a release, built unless it is there.

    ``wanted`` are versions by distribution that the resolver must keep to, and ``minor`` that of the Python. Raises
    `ReleaseError`.
    """
    what = f"{framework} {release}"
    listing = f"training-suite releases {framework}"
    if reason := too_old(framework, release):
        raise ReleaseError(f"{reason}; `{listing}` lists those that it does")
    place = (parent or folder()) / _name(framework, release)
    with _lock(place, say):
        if made := find(framework, release, place.parent):
            return made
        if place.exists():
            raise ReleaseError(f"{place} is in the way, and is no whole environment; remove it by hand")
        chosen = [each for each in uv.pythons() if minor in (None, each.minor)]
        if not chosen:
            raise ReleaseError(f"{what} was built with Python 3.{minor}, which this machine lacks")
        problems: list[uv.UnresolvedError] = []
        for python in chosen:
            try:
                _build(place, python, Environment(framework, release, place, ""), wanted, say)
                break
            except uv.UnresolvedError as error:
                problems.append(error)
            except OSError as error:
                words = f"{what} cannot be built in {place.parent}: {error.strerror}"
                raise ReleaseError(f"{words}; name another folder in SUITE_CACHE_DIR") from None
        else:
            tried = ", ".join(python.version for python in chosen)
            raise ReleaseError(f"{problems[0]}. `{listing}` lists what fits Python {tried}")
    made = find(framework, release, place.parent)
    assert made
    say(f"{what}: built, {size_of(made.place) / 1e6:,.0f} MB")
    return made


def _build(final: Path, python: uv.Python, asked: Environment, wanted: Mapping[str, str], say: Say) -> None:
    """Resolve and install in a temporary folder, and move the environment into its place when it is whole."""
    what = asked.name
    with scratch(final.parent, "building-") as temporary:
        made = Environment(asked.framework, asked.release, temporary / "environment", "")
        with waiting(f"resolving {what} for Python {python.version}"):
            uv.run(what, "venv", "--python", python.path, str(made.place))
            needed, fixed = requirements(asked.framework, asked.release), [f"{n}=={v}" for n, v in wanted.items()]
            lines, size, is_whole = uv.resolve(what, made.python, temporary, needed, fixed)
        _check_room(what, size, final.parent)
        megabytes = f"{size / 1e6:,.0f} MB{'' if is_whole else ' or more'}" if size else "of unknown size"
        say(f"{what}: {lines.count('==')} packages ({megabytes}) for Python {python.version}")
        lock = temporary / LOCK_FILE
        lock.write_text(f"# CPython {python.version}\n{lines}", encoding="utf-8")
        with waiting(f"installing {what}, {megabytes}"):
            uv.run(
                what, "pip", "install", "--no-deps", "--require-hashes", "--compile-bytecode", "--python",
                str(made.python), "--requirements", str(lock),
            )  # fmt: skip
        lock.rename(made.place / LOCK_FILE)
        for path in _entries(made.place):  # uv goes by the umask, and by what it has downloaded before
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o022)
        made.place.rename(final)


def requirements(framework: str, release: str) -> list[str]:
    """What an environment of a release holds: the framework, what fits beside it, and what a worker needs."""
    declared = FRAMEWORKS[framework]
    own = declared.cuda_release if has_gpu() else declared.release
    return [own.format(release), *declared.beside, *WORKER]


def size_of(place: Path) -> int:
    """The bytes of all files of an environment."""
    return sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir())


def _check_room(what: str, size: int, place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < UNPACKED * size:
        raise ReleaseError(
            f"{what} needs about {UNPACKED * size / 1e9:.1f} GB, and {place} has {free / 1e9:.1f} GB free; free "
            "some, or name another folder in SUITE_CACHE_DIR"
        )


def _name(framework: str, release: str) -> str:
    return f"{framework}-{release}{_mark()}"


def _mark() -> str:
    return "-cuda" if has_gpu() else ""


@contextlib.contextmanager
def _lock(place: Path, say: Say) -> Iterator[None]:
    """One process at a time for each environment. Raises `ReleaseError` where the folder cannot be written."""
    try:
        make_folder(place.parent)
        refuse_shared(*_above(place))
        lock = open(str(place.with_name(f"{place.name}.lock")), "a", opener=regular)  # noqa: SIM115 - closed below
    except OSError as error:
        raise ReleaseError(
            f"{place.parent} cannot be written: {error.strerror}; name another folder in SUITE_CACHE_DIR"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds {place.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks; renames keep environments whole there too
            pass
        yield


def prepare(releases: Iterable[tuple[str, str]], say: Callable[[str], None]) -> dict[str, str]:
    """Build what is not there, so that launches find each release; returns the text of each one's lock, by its name.

    ``releases`` are frameworks and releases; a framework without one is left as it is, and so is a release whose
    interpreter the user has named. Raises `ReleaseError`.
    """
    locks = {}
    for framework, release in releases:
        if not release:
            continue
        say_defects(framework, release, say)
        variable = interpreter_variable(framework, release)
        made = None if os.environ.get(variable) else build(framework, release, say)
        if made:
            os.environ[variable] = str(made.python)
        else:
            with contextlib.suppress(ReleaseError):  # one in the cache that is broken is not the one that was named
                there = find(framework, release)
                made = there if there and os.environ[variable] == str(there.python) else None
        if made:
            locks[made.name] = made.lock
    return locks


def say_defects(framework: str, release: str, say: Callable[[str], None]) -> None:
    """Say what is known to be wrong with a release on the devices of this machine, a line each."""
    for defect in find_defects(framework, release, PLACES if has_gpu() else ("cpu",)):
        say(f"{framework} {release} {defect}")
