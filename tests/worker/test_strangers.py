"""The door of rank 0 is for the ranks of its launch: whoever else comes is not waited for."""

from __future__ import annotations

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from suite.worker.distributed import ranks


def test_strangers_at_the_door_of_rank_0_neither_end_the_launch_nor_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "HANDSHAKE_S", 1)
    address = "127.0.0.1", ranks.free_port()
    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(ranks._others, address, b"secret", 2)
        first = pool.submit(ranks._first, address, b"secret", 1)
        first.result(20).close()  # the rank itself comes in
        others.result(20)[0].close()
        others = pool.submit(ranks._others, address, b"secret", 2)
        with _called(address) as gone, _called(address) as silent:
            gone.close()
            peer = pool.submit(ranks._first, address, b"secret", 1).result(20)
            heard = pool.submit(others.result(20)[0].recv_bytes)
            silent.close()
        time.sleep(1.3)  # longer than a handshake may take: now there is no hurry
        peer.send_bytes(b"here")
        assert heard.result(20) == b"here"
        peer.close()


def _called(address: tuple[str, int]) -> socket.socket:
    """A connection of a stranger, as soon as the door is open."""
    for _ in range(200):
        try:
            return socket.create_connection(address, timeout=0.05)
        except OSError:
            time.sleep(0.05)
    raise TimeoutError


def test_one_who_sends_a_byte_now_and_then_keeps_nobody_out_and_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "HANDSHAKE_S", 1)
    address, pool = ("127.0.0.1", ranks.free_port()), ThreadPoolExecutor(1)
    others = pool.submit(ranks._others, address, b"secret", 2)
    until_s = time.monotonic() + 20
    while True:
        try:
            stranger = socket.create_connection(address)
            break
        except OSError:
            assert time.monotonic() < until_s
            time.sleep(0.05)
    with stranger:
        stranger.send(b"\0\0\0\x7f")  # the length of an answer that does not come
        begin_s = time.monotonic()
        ranks._first(address, b"secret", 1).close()
        assert others.result(10)
        assert time.monotonic() - begin_s < ranks.HANDSHAKE_S, "it need not wait for the stranger"
        stranger.settimeout(10)
        while stranger.recv(100):
            with contextlib.suppress(OSError):
                stranger.send(b"x")
    assert time.monotonic() - begin_s < 5
