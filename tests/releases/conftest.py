"""What stands in for the package index and for the tools that resolve and install."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from suite.releases import environments, index, uv
from suite.releases.index import releases
from suite.releases.uv import Python

MINOR = sys.version_info.minor

#: Does what its first word says, as uv does it; FAILS in the environment names a word and what it then says.
STAND_IN = """#!{python} -I
import json, os, signal, sys, time
from pathlib import Path
word, *rest = sys.argv[4:] if sys.argv[3] == "pip" else sys.argv[3:]
fails = json.loads(os.environ.get("FAILS", "{{}}"))
option = lambda name: rest[rest.index(f"--{{name}}") + 1]
if word in fails:
    sys.exit(fails[word]) if fails[word] != "killed" else os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)  # it ends with its parent
if word == "venv":
    place = Path(rest[2])
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(option("python"))
    (place / "pyvenv.cfg").write_text("home = x")
elif word == "compile":
    wanted, fixed = (Path(name).read_text() for name in (rest[0], option("constraints")))
    with open(os.environ["ASKED"], "a") as asked:
        asked.write(wanted + fixed + "--\\n")
    names = [line.split("=")[0].split(">")[0].split("[")[0] for line in wanted.split()]
    fixed = dict(line.split("==") for line in fixed.split())
    tables = "".join(
        f'[[packages]]\\nname = "{{name}}"\\nversion = "{{fixed.get(name, "1.0")}}"\\n'
        f'wheels = [{{{{size = 1000000, hashes = {{{{sha256 = "{{"a" * 64}}"}}}}}}}}]\\n'
        for name in names
    )
    Path(option("output-file")).write_text(f'lock-version = "1.0"\\n{{tables}}')
elif word == "install":
    site = Path(option("python")).parent.parent / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    (site / "jax.py").write_text("__version__ = '0.9.2'")
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Builds go to the folder returned, by a stand-in of uv; its file ``asked`` has what was to be resolved."""
    program = tmp_path / "uv"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(uv, "program", lambda: str(program))
    monkeypatch.setattr(environments, "has_gpu", lambda: False)
    monkeypatch.setattr(uv, "pythons", lambda: (Python(MINOR, sys.executable),))
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
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/simple/")
    monkeypatch.setattr(index, "pythons", lambda: (Python(13, "python3.13"), Python(12, "python3.12")))
    releases.cache_clear()
    yield Index.files
    server.shutdown()
    server.server_close()
    releases.cache_clear()
