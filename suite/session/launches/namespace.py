"""A network of its own for the ranks of a launch: it has loopback alone, and nobody outside of it can connect.

``unshare`` runs this file inside of a new network, where it brings loopback up and waits. Linux only, without root
where the system lets users have namespaces of their own. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

#: A user of a new user namespace may have networks there, and is the same user in it; root needs none.
AS_USER = ("--user", "--map-current-user", "--keep-caps")

#: From linux/sockios.h and linux/if.h: reads and sets the flags of an interface, and the flag that brings it up.
READ_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1


class NamespaceError(RuntimeError):
    """A launch cannot have a network of its own; the message says why."""


@contextlib.contextmanager
def own_network() -> Iterator[list[str]]:
    """The words before a command that run it in a new network, until the exit. Raises `NamespaceError`."""
    with contextlib.ExitStack() as until:
        try:
            words = _begin((), until)
        except NamespaceError:
            words = _begin(AS_USER, until)
        yield words


def _begin(user: tuple[str, ...], until: contextlib.ExitStack) -> list[str]:
    """Begins a new network, as root or in a user namespace; ``until`` ends it."""
    pipe = subprocess.PIPE
    command = ["unshare", "--net", *user, sys.executable, "-I", "-S", __file__]
    try:
        holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    except OSError as error:
        raise NamespaceError(f"unshare: {error.strerror}") from None
    assert holder.stdout
    assert holder.stderr
    if not holder.stdout.readline():
        with holder:
            lines = holder.stderr.read().strip().splitlines()
        raise NamespaceError(lines[-1] if lines else f"unshare ended with exit status {holder.returncode}")
    until.enter_context(holder)  # which closes its standard input, so that it ends
    place = f"/proc/{holder.pid}/ns"
    return ["nsenter", f"--net={place}/net", *([f"--user={place}/user", "--preserve-credentials"] if user else [])]


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0)  # a struct ifreq
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(any_socket, READ_FLAGS, request))
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh22x", b"lo", flags | UP))


if __name__ == "__main__":
    _bring_up_loopback()
    sys.stdout.write("up\n")
    sys.stdout.flush()
    sys.stdin.read()  # until the parent closes it or dies
