"""The real servers that exported runs are read back with, each on a port of its own that only this machine sees."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

#: Seconds in which a server must answer, on a busy machine.
READY_S = 300.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def get(address: str) -> bytes:
    """The answer of a local server; a proxy of the environment is not asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=10) as answer:
        return bytes(answer.read())


@contextmanager
def serving(command: list[str], ready: str, log: Path) -> Iterator[None]:
    """A server, which is there once ``ready`` answers, and is gone with all its processes at the end."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=log.parent, stdout=output, stderr=output, start_new_session=True)
    try:
        for _ in range(round(READY_S / 0.2)):
            try:
                get(ready)
                break
            except OSError:
                assert server.poll() is None, log.read_text(errors="replace")[-2000:]
                time.sleep(0.2)
        yield
    finally:
        os.killpg(server.pid, 15)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, 9)
            server.wait()


def mlflow_program() -> str | None:
    """The `mlflow` of an environment with its server: ``SUITE_TEST_MLFLOW``, or this one's if it has all of MLflow."""
    try:
        version("mlflow")
    except PackageNotFoundError:
        return shutil.which(os.environ.get("SUITE_TEST_MLFLOW", "-"))
    return shutil.which("mlflow")


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow server with an empty database."""
    pytest.importorskip("mlflow", reason="needs mlflow-skinny: tox run -m reach-tests")
    program = mlflow_program()
    if not program:
        pytest.skip("needs the server of MLflow: tox run -m reach-tests, or set SUITE_TEST_MLFLOW to its program")
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    command = [program, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/runs.db", "--artifacts-destination", str(folder / "kept")]
    with serving(command, f"http://127.0.0.1:{port}/health", folder / "log"):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def prometheus() -> str:
    """The program of a Prometheus."""
    program = shutil.which("prometheus")
    if not program or not shutil.which("promtool"):
        pytest.skip("needs Prometheus: apt-get install prometheus")
    return program
