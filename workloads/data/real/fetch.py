"""Downloads of the official archives by pooch, resumed where they broke off, verified before anything opens them.

What has arrived stays in a ``.part`` file, across processes too, and the next try asks for the rest. That file has the
archive's MD5 in its name, so it is nobody else's. Another file under the archive's own name may be the user's, and is
never replaced.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any

from workloads.data.dataset import DataError
from workloads.data.files import regular
from workloads.data.progress import byte_progress, print_to_stderr
from workloads.data.real.archive import Archive, md5_of

CHUNK_BYTES = 1 << 14  # what a break may lose
NO_SPACE = (ENOSPC, EDQUOT, EFBIG)
#: Statuses of a client's fault after which another try makes sense.
TRY_AGAIN = (408, 429)


class DownloadError(DataError):
    """The archive could not be had from its host; nothing is left under its name."""


def find_verified(archive: Archive, folder: Path) -> Path | None:
    """The archive in ``folder``, its checksum verified, or None if there is nothing of its name.

    Raises `DownloadError` for something else of that name, which is in the way of a download.
    """
    path = folder / archive.file
    way_out = "remove it to have the archive downloaded, or name the folder of a good one in SUITE_DATA_DIR"
    try:
        actual = md5_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DownloadError(f"{path} cannot be read: {error.strerror}; {way_out}") from error
    if actual != archive.md5:
        raise DownloadError(f"{path} has the MD5 {actual}, the official archive {archive.md5}; {way_out}")
    return path


def download(archive: Archive, folder: Path, tries: int = 6, wait_s: float = 1.0, timeout_s: float = 20.0) -> Path:
    """The verified archive, in ``folder`` under its own name.

    A connection that breaks is taken up again where it broke, after ``wait_s`` seconds, doubled at each failure;
    ``tries`` failures without a byte between them end it. A host that was never reached is not tried twice, so without
    a network this fails at once. ``timeout_s`` is the longest silence.

    Raises `DownloadError` for all that lies with the network, the host or the content, OSError for what lies with the
    disk: then the ``.part`` is removed if the disk is full, else kept for the next run.
    """
    if path := find_verified(archive, folder):
        return path
    try:
        import pooch
        from requests import RequestException
    except ImportError as error:
        raise DownloadError("pooch, which downloads, is not installed (extra `controller`)") from error
    pooch.get_logger().setLevel("WARNING")  # at its default it reports each download on its own
    rest, failures = _Rest(archive, folder / part_name(archive), timeout_s), 0
    resumed = rest.received > 0
    while True:
        before = rest.received
        try:
            return Path(pooch.retrieve(archive.url, f"md5:{archive.md5}", archive.file, folder, downloader=rest))
        except RequestException as error:
            failures = 1 if rest.received > before else failures + 1
            status = 0 if error.response is None else error.response.status_code
            if failures >= tries or not rest.reached or (400 <= status < 500 and status not in TRY_AGAIN):
                raise DownloadError(f"{archive.url} cannot be downloaded: {_describe(error)}") from error
            wait = wait_s * 2 ** (failures - 1)
            print_to_stderr(f"{archive.url}: {_describe(error)}; trying again in {wait:.0f} s")
            time.sleep(wait)
        except ValueError as error:  # pooch's word for a wrong checksum
            if not resumed:
                raise DownloadError(f"what {archive.url} delivers does not have the MD5 {archive.md5}") from error
            resumed = False  # what an earlier run left may have been wrong, and is gone now
        except OSError as error:
            if error.errno in NO_SPACE:
                rest.part.unlink(missing_ok=True)
            raise


def part_name(archive: Archive) -> str:
    """Under what name the downloaded part of an archive is kept."""
    return f"{archive.file}.{archive.md5[:12]}.part"


@dataclass
class _Rest:
    """A downloader as pooch calls it, which asks for what the ``.part`` lacks; ``reached``: a host has answered."""

    archive: Archive
    part: Path
    timeout_s: float
    reached: bool = field(default=False, init=False)

    @property
    def received(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        import requests

        if (received := self.received) < self.archive.bytes:
            missing = self.archive.bytes - received
            if shutil.disk_usage(self.part.parent).free < missing:
                raise OSError(ENOSPC, f"no space for the {missing} bytes of {self.archive.file}")
            headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={received}-"} if received else {})
            with requests.get(url, headers=headers, stream=True, timeout=self.timeout_s) as answer:
                self.reached = True
                self._take(answer, received)
        self.part.replace(output_file)

    def _take(self, answer: Any, received: int) -> None:
        import requests

        continues = str(answer.headers.get("Content-Range")).startswith(f"bytes {received}-")
        if answer.status_code == 416 or (answer.status_code == 206 and not continues):
            self.part.unlink()
            raise requests.ConnectionError("the host has another range than was asked for")
        answer.raise_for_status()
        received = received if answer.status_code == 206 else 0  # a host that knows no ranges sends all of it
        length = answer.headers.get("Content-Length")
        if length and received + int(length) != self.archive.bytes:
            raise DownloadError(
                f"{answer.url} has {received + int(length)} bytes, the official file {self.archive.bytes}"
            )
        with (
            open(str(self.part), "ab" if received else "wb", opener=regular) as file,
            byte_progress(self.archive.file, received, self.archive.bytes) as advance,
        ):
            for content in answer.iter_content(CHUNK_BYTES):
                file.write(content)
                file.flush()  # what a kill leaves behind is what the next run has
                advance(len(content))
        if self.received < self.archive.bytes:
            raise requests.ConnectionError(f"the connection ended after {self.received} of {self.archive.bytes} bytes")


def _describe(error: Exception) -> str:
    """The error in one line; of a connection that could not be made, the reason alone."""
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return " ".join(str(reason).split())
