"""What others wrote or can change in the cache is no environment, and nothing of it reaches the terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.record.parts.environment import LOCK_FILE
from suite.releases.__main__ import main
from suite.releases.environments import build, find, list_built
from suite.releases.uv import ReleaseError

pytestmark = pytest.mark.launches


def quiet(_: str) -> None:
    """Nothing."""


@pytest.mark.parametrize("text", [
    "# CPython 3.13\x1b[2J\njax==1.0 --hash=sha256:" + "a" * 64 + "\n",
    "# CPython 3.13\x85\njax==1.0 --hash=sha256:" + "a" * 64 + "\n",
    "# CPython 3.13\njax==1.0 --hash=sha256:" + "a" * 64 + "\n" * 600 + "\x1b[2J\n",
    "# CPython 3.13\n" + ("jax==1.0 --hash=sha256:" + "a" * 64 + "\n") * 501,
    "# CPython 3.13\njax==1.0\x1b --hash=sha256:" + "a" * 64 + "\n",
], ids=range(5))  # fmt: skip
def test_a_lock_that_controls_a_terminal_is_none(text: str, tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build("jax", "0.9.2", quiet)
    (tool / "jax-0.9.2" / LOCK_FILE).write_text(text)
    with pytest.raises(ReleaseError, match=r"jax 0\.9\.2 is not used: .*its lock is none"):
        find("jax", "0.9.2")
    assert main([]) == 2
    printed = "".join(capsys.readouterr())
    assert printed.replace("\n", "").isprintable()


def test_a_lock_that_is_a_fifo_is_no_lock(tool: Path) -> None:
    build("jax", "0.9.2", quiet)
    lock = tool / "jax-0.9.2" / LOCK_FILE
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(ReleaseError, match="it is a FIFO"):
        find("jax", "0.9.2")


#: What others can change, by what it is called: in the cache's folder or below.
OPENED = {
    "the cache": "..", "the folder of environments": ".", "an environment": "jax-0.9.2",
    "a folder of one": "jax-0.9.2/lib/python3", "a file of one": "jax-0.9.2/lib/python3/site-packages/jax.py",
    "its lock": f"jax-0.9.2/{LOCK_FILE}",
}  # fmt: skip


@pytest.mark.parametrize("what", OPENED)
def test_an_environment_that_others_can_change_is_not_used(what: str, tool: Path) -> None:
    build("jax", "0.9.2", quiet)
    place = (tool / OPENED[what]).resolve()
    mode = place.stat().st_mode
    place.chmod(mode | 0o002)
    for use in (lambda: find("jax", "0.9.2"), lambda: build("jax", "0.9.2", quiet), lambda: list_built("jax")):
        with pytest.raises(ReleaseError, match="others can change it"):
            use()
    place.chmod(mode)
    assert find("jax", "0.9.2")
    if os.geteuid() == 0:
        os.chown(place, 65534, -1)
        with pytest.raises(ReleaseError, match="it belongs to user 65534"):
            find("jax", "0.9.2")


def test_a_build_is_closed_to_others_whatever_the_umask(tool: Path) -> None:
    before = os.umask(0)
    try:
        build("jax", "0.9.2", quiet)
    finally:
        os.umask(before)
    assert find("jax", "0.9.2")
    assert not [path for path in (tool.parent, tool) if path.stat().st_mode & 0o022]
