"""Downloads of the official archives: resumed where they broke off, verified before anything opens them.

pooch compares checksums and puts the verified file under its final name by a rename. The transfer itself is this
file's: pooch's own begins anew after each failure, which a host that throttles and drops long connections punishes.
What has arrived stays in a ``.part`` file, across processes too, and the next try asks for the rest. That file has the
archive's MD5 in its name, so it is nobody else's. Another file under the archive's own name may be the user's, and is
never replaced.
"""

from __future__ import annotations

import http.client
import shutil
import time
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass, field
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any, BinaryIO

from workloads.data.dataset import DataError
from workloads.data.files import regular
from workloads.data.progress import byte_progress, print_to_stderr
from workloads.data.real.archive import Archive, md5_of

CHUNK_BYTES = 1 << 16
NO_SPACE = (ENOSPC, EDQUOT, EFBIG)


class DownloadError(DataError):
    """The archive could not be had from its host; nothing is left under its name."""


class _BrokenOffError(Exception):
    """A failure after which another try makes sense."""


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
    path = find_verified(archive, folder)
    if path:
        return path
    try:
        import pooch
    except ImportError as error:
        raise DownloadError("pooch, which downloads, is not installed (extra `controller`)") from error
    pooch.get_logger().setLevel("WARNING")  # at its default it reports each download on its own
    transfer = _Transfer(archive, folder / part_name(archive), tries, wait_s, timeout_s)
    while True:
        try:
            return Path(pooch.retrieve(archive.url, f"md5:{archive.md5}", archive.file, folder, downloader=transfer))
        except ValueError as error:  # pooch's word for a wrong checksum
            if not transfer.resumed:
                raise DownloadError(f"what {archive.url} delivers does not have the MD5 {archive.md5}") from error
            transfer.resumed = False  # the .part may have been the wrong one, and is gone now


def part_name(archive: Archive) -> str:
    """Under what name the downloaded part of an archive is kept."""
    return f"{archive.file}.{archive.md5[:12]}.part"


@dataclass
class _Transfer:
    """A downloader as pooch calls it; ``resumed`` says whether a byte of its last result is from an earlier call."""

    archive: Archive
    part: Path
    tries: int
    wait_s: float
    timeout_s: float
    resumed: bool = field(default=False, init=False)
    reached: bool = field(default=False, init=False)

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        self.resumed = self._bytes_received() > 0
        failures = 0
        while (received := self._bytes_received()) < self.archive.bytes:
            try:
                self._go_on(url, received)
            except _BrokenOffError as error:
                failures = 1 if self._bytes_received() > received else failures + 1
                if failures >= self.tries or not self.reached:
                    raise DownloadError(f"{url} cannot be downloaded: {error}") from error
                wait_s = self.wait_s * 2 ** (failures - 1)
                print_to_stderr(f"{url}: {error}; trying again in {wait_s:.0f} s")
                time.sleep(wait_s)
            except OSError as error:
                if error.errno in NO_SPACE:
                    self.part.unlink(missing_ok=True)
                raise
        self.part.replace(output_file)

    def _bytes_received(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _go_on(self, url: str, received: int) -> None:
        """One connection, from byte ``have`` to the end or to where it breaks."""
        if shutil.disk_usage(self.part.parent).free < self.archive.bytes - received:
            raise OSError(ENOSPC, f"no space for the {self.archive.bytes - received} bytes of {self.archive.file}")
        with closing(self._answer(url, received)) as answer:
            self.reached = True
            if answer.status != http.client.PARTIAL_CONTENT:
                received = 0  # the host does not know ranges and sends all of it
            elif not str(answer.headers["Content-Range"]).startswith(f"bytes {received}-"):
                self.part.unlink()
                raise _BrokenOffError("the host answered with another range than was asked for")
            length = answer.headers["Content-Length"]
            if length and received + int(length) != self.archive.bytes:
                raise DownloadError(f"{url} has {received + int(length)} bytes, the official file {self.archive.bytes}")
            with open(str(self.part), "ab" if received else "wb", opener=regular) as file:
                self._copy(answer, file, received)

    def _copy(self, answer: http.client.HTTPResponse, file: BinaryIO, received: int) -> None:
        with byte_progress(self.archive.file, received, self.archive.bytes) as advance:
            while received < self.archive.bytes:
                try:
                    content = answer.read1(CHUNK_BYTES)  # what is there, so that a break loses nothing
                except (OSError, http.client.HTTPException) as error:
                    raise _BrokenOffError(f"the connection broke after {received} bytes: {error}") from error
                if not content:
                    raise _BrokenOffError(f"the connection ended after {received} of {self.archive.bytes} bytes")
                file.write(content)
                file.flush()  # what a kill leaves behind is what the next run has
                received += len(content)
                advance(len(content))

    def _answer(self, url: str, received: int) -> http.client.HTTPResponse:
        headers = {"User-Agent": "framework-training-suite"} | ({"Range": f"bytes={received}-"} if received else {})
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the sources' own https addresses
        opener = urllib.request.build_opener()  # urlopen's own keeps the proxies of its first call
        try:
            answer: http.client.HTTPResponse = opener.open(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            error.close()
            self.reached = True
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                self.part.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in (408, 429):
                raise DownloadError(f"{url} cannot be downloaded: the host says {error.code} {error.reason}") from error
            raise _BrokenOffError(f"the host says {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenOffError(f"no connection ({getattr(error, 'reason', None) or error})") from error
        return answer
