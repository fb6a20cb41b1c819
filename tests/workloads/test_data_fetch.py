"""Downloads from a host on this machine that breaks off, stutters, lies and refuses."""

from __future__ import annotations

import http.server
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from data_makers import archive, files_up_to, put

from workloads.data.real.archive import Archive
from workloads.data.real.fetch import CHUNK_BYTES, DownloadError, download, find_verified, part_name

CONTENT = np.random.Generator(np.random.Philox(key=3)).bytes(300_000)


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers to one request; the host's list says how each in turn is answered, the last one for all that follow."""

    host: Host

    def do_GET(self):
        self.host.ranges.append(self.headers["Range"])
        answers = self.host.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *arguments):
        pass

    @property
    def start(self):
        return int((self.headers["Range"] or "bytes=0-")[len("bytes=") : -1])

    def head(self, status, length, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": length, **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


def whole(answer):
    part = CONTENT[answer.start :]
    span = f"bytes {answer.start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    answer.head(206 if answer.start else 200, len(part), Content_Range=span if answer.start else None)
    answer.wfile.write(part)


def cut_after(count):
    def cut(answer):
        write, answer.wfile.write = answer.wfile.write, lambda content: write(content[:count])
        whole(answer)

    return cut


def knows_no_ranges(answer):
    answer.head(200, len(CONTENT))
    answer.wfile.write(CONTENT)


def another_range(answer):
    answer.head(206, 10, Content_Range=f"bytes 0-9/{len(CONTENT)}")
    answer.wfile.write(CONTENT[:10])


def status(code):
    return lambda answer: answer.head(code, 0)


def tampered(answer):
    answer.head(200, len(CONTENT))
    answer.wfile.write(CONTENT[:-1] + b"\0")


def a_page_instead(answer):
    answer.head(200, 6)
    answer.wfile.write(b"<html>")


def no_length(answer):
    answer.head(200, None)
    answer.wfile.write(CONTENT)


def silence(answer):
    answer.head(200, len(CONTENT))
    answer.wfile.write(CONTENT[:1000])
    answer.wfile.flush()
    answer.host.closing.wait(10)


@dataclass
class Host:
    port: int
    answers: list[Callable[[Answer], object]] = field(default_factory=lambda: [whole])
    ranges: list[str | None] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def archive(self) -> Archive:
        return archive(CONTENT, f"http://127.0.0.1:{self.port}/some/data.tar.gz")


PART = part_name(archive(CONTENT, "http://127.0.0.1/data.tar.gz"))


@pytest.fixture
def host(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Answer,), {}))
    server.RequestHandlerClass.host = host = Host(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield host
    host.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


def get(host, folder, **options):
    return download(host.archive, folder, **{"wait_s": 0.001, "timeout_s": 5.0, **options})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_plain_download_and_none_when_it_is_there(host, tmp_path):
    path = get(host, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "data.tar.gz"
    assert path.read_bytes() == CONTENT
    assert find_verified(host.archive, path.parent) == path
    assert get(host, path.parent) == path
    assert host.ranges == [None]
    assert names(path.parent) == ["data.tar.gz"]


def test_a_broken_connection_is_taken_up_where_it_broke(host, tmp_path):
    host.answers = [cut_after(100_000), cut_after(50_000), whole]
    assert get(host, tmp_path).read_bytes() == CONTENT
    first, second, third = host.ranges
    assert first is None
    assert 100_000 - CHUNK_BYTES <= int(second[6:-1]) <= 100_000
    assert int(second[6:-1]) < int(third[6:-1]) <= 150_000


def test_what_an_earlier_run_left_is_taken_up(host, tmp_path):
    put(tmp_path / part_name(host.archive), CONTENT[:123_456])
    assert get(host, tmp_path).read_bytes() == CONTENT
    assert host.ranges == ["bytes=123456-"]
    assert names(tmp_path) == ["data.tar.gz"]


@pytest.mark.parametrize("left", [b"wrong" * 100, CONTENT[:-1] + b"\0", CONTENT + b"more"])
def test_a_wrong_rest_of_an_earlier_run_costs_one_more_download(host, tmp_path, left):
    put(tmp_path / part_name(host.archive), left)
    assert get(host, tmp_path).read_bytes() == CONTENT
    assert host.ranges[-1] is None


@pytest.mark.parametrize(
    ("answers", "asked"),
    [([knows_no_ranges], 2), ([no_length], 2), ([another_range, whole], 3), ([status(416), whole], 3)],
    ids=["all", "no length", "another", "none"],
)
def test_a_host_that_does_not_give_the_range_sends_all(host, tmp_path, answers, asked):
    host.answers = [cut_after(100_000), *answers]
    assert get(host, tmp_path).read_bytes() == CONTENT
    assert (len(host.ranges), host.ranges[2:]) == (asked, [None] * (asked - 2))


@pytest.mark.parametrize(
    ("answers", "asked", "complaint", "left"),
    [
        ([cut_after(100_000), status(500)], 3, "cannot be downloaded: 500", [PART]),  # for the next run
        ([status(404)], 1, "cannot be downloaded: 404", []),
        ([tampered], 1, "does not have the MD5", []),
        ([cut_after(100_000), tampered], 2, "does not have the MD5", []),
        ([a_page_instead], 1, "has 6 bytes, the official file 300000", []),
    ],
    ids=["fails always", "does not exist", "tampered", "tampered after a break", "a page"],
)
def test_what_is_not_to_be_had_ends_in_an_error(host, tmp_path, answers, asked, complaint, left):
    host.answers = list(answers)
    with pytest.raises(DownloadError, match=complaint):
        get(host, tmp_path, tries=3)
    assert len(host.ranges) == asked
    assert names(tmp_path) == left


def test_a_silent_host_is_a_broken_connection(host, tmp_path):
    host.answers = [silence, whole]
    assert get(host, tmp_path, timeout_s=0.2).read_bytes() == CONTENT
    assert len(host.ranges) == 2


def test_another_file_under_the_final_name_is_never_replaced(host, tmp_path):
    path = put(tmp_path / "data.tar.gz", b"the user's own")
    for ask in (find_verified, download):
        with pytest.raises(DownloadError, match=r"data\.tar\.gz has the MD5 .*; remove it to have"):
            ask(host.archive, tmp_path)
    assert path.read_bytes() == b"the user's own"
    assert host.ranges == []


def test_without_a_network_it_fails_at_once(tmp_path):
    started = time.monotonic()
    with pytest.raises(DownloadError, match=r"refused"):
        download(archive(CONTENT, "http://127.0.0.1:1/data.tar.gz"), tmp_path, wait_s=10)
    assert time.monotonic() - started < 5
    assert names(tmp_path) == []


def test_without_pooch_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DownloadError, match=r"pooch.* is not installed"):
        download(archive(CONTENT, "http://127.0.0.1:1/data.tar.gz"), tmp_path)


def test_a_disk_that_fills_up_is_an_error_and_the_part_is_removed(host, tmp_path):
    with files_up_to(200_000), pytest.raises(OSError, match="File too large"):
        get(host, tmp_path)
    assert names(tmp_path) == []


def test_a_disk_that_is_too_small_is_known_before(host, tmp_path):
    with pytest.raises(OSError, match=r"no space for the \d+ bytes of data\.tar\.gz"):
        download(replace(host.archive, bytes=2**60), tmp_path)
    assert host.ranges == []
    assert names(tmp_path) == []
