"""What stands in for the package index and for the tools that resolve and install."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from suite.releases import environments, index, pythons
from suite.releases.pythons import Python
from suite.releases.tools import Tool

MINOR = sys.version_info.minor

#: Does what its first word says, as uv and pip do it; FAILS in the environment names a word and what it then says.
STAND_IN = """
import json, os, signal, sys, time
from pathlib import Path
word, *rest = sys.argv[1:]
fails = json.loads(os.environ.get("FAILS", "{}"))
if word in fails:
    sys.exit(fails[word]) if fails[word] != "killed" else os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)  # it ends with its parent
if word == "create":
    place = Path(rest[0])
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    (place / "pyvenv.cfg").write_text("home = x")
elif word == "lock":
    python, wanted, fixed, lock = rest
    with open(os.environ["ASKED"], "a") as asked:
        asked.write(Path(wanted).read_text() + Path(fixed).read_text() + "--\\n")
    names = [line.split("=")[0].split(">")[0].split("[")[0] for line in Path(wanted).read_text().split()]
    fixed = dict(line.split("==") for line in Path(fixed).read_text().split())
    tables = "".join(
        f'[[packages]]\\nname = "{name}"\\nversion = "{fixed.get(name, "1.0")}"\\n'
        f'wheels = [{{url = "https://example.org/{name}.whl", size = 1000000, hashes = {{sha256 = "{"a" * 64}"}}}}]\\n'
        for name in names
    )
    Path(lock).write_text(f'lock-version = "1.0"\\n{tables}')
elif word == "install":
    python, lock = rest
    site = Path(python).parent.parent / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    (site / "jax.py").write_text("__version__ = '0.9.2'")
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Builds go to the folder returned, by a stand-in; its file ``asked`` has what was to be resolved."""
    program = tmp_path / "tool.py"
    program.write_text(STAND_IN)

    def command(word: str, *rest: str) -> list[str]:
        return [sys.executable, "-I", str(program), word, *rest]

    made = Tool(
        "a stand-in",
        create=lambda place, python: command("create", place, python),
        lock=lambda *files: command("lock", *files),
        install=lambda python, lock: command("install", python, lock),
    )
    monkeypatch.setattr(environments, "tool", lambda: made)
    monkeypatch.setattr(environments, "has_gpu", lambda: False)
    monkeypatch.setattr(environments, "pythons", lambda: (Python(MINOR, sys.executable),))
    monkeypatch.setenv("SUITE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.delenv("SUITE_PYTHON_JAX_0_9_2", raising=False)
    return tmp_path / "cache" / "releases"


class Index(BaseHTTPRequestHandler):
    """Answers with the files in ``FILES``, by distribution."""

    files: dict[str, object] = {}  # noqa: RUF012 - of the test

    def do_GET(self) -> None:
        body = self.files.get(self.path.strip("/").split("/")[-1])
        text = body.encode() if isinstance(body, str) else json.dumps({"files": body}).encode()
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The files of an index on this machine, by distribution."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    Index.files = {}
    Thread(target=server.serve_forever, daemon=True).start()
    for name in index.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    monkeypatch.setattr(index, "pythons", lambda: (Python(13, "python3.13"), Python(12, "python3.12")))
    index._read_known.cache_clear()
    yield Index.files
    server.shutdown()
    server.server_close()
    index._read_known.cache_clear()


@pytest.fixture(autouse=True)
def _asks_anew() -> None:
    pythons.pythons.cache_clear()
