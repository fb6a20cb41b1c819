"""A headless Chromium, driven over its debugging pipe: enough to look at a page as a reader does.

https://chromedevtools.github.io/devtools-protocol/ describes the messages. No package is needed for a few of them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: Seconds to wait for an answer of the browser.
LONGEST_S = 60.0


def found() -> str | None:
    """The command of a browser that is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


#: The browser reads its commands from descriptor 3 and answers on 4.
PLACED = """
import os, sys
low, high = (os.dup(int(number)) for number in sys.argv[1:3])
os.dup2(low, 3)
os.dup2(high, 4)
for number in (3, 4):
    os.set_inheritable(number, True)  # dup2 does not where both are one
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. ``complaints`` are errors, exceptions and violations of the content policy since the last `open`."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(
        self, page: Path | str, width: int = 1400, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> None:
        """Load the page and wait until it has drawn itself."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call("Page.navigate", url="about:blank")
        self._until("Page.loadEventFired")
        self.complaints.clear()
        self._call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        self._until("Page.loadEventFired")
        if scripts:
            self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        self._until("")

    def run(self, code: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        result = self._call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def shot(self, path: Path, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(data["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LONGEST_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _until(self, event: str) -> None:
        """Wait for an event; with an empty name only read those that are there."""
        deadline = time.monotonic() + (LONGEST_S if event else 0.05)
        while not any(each.get("method") == event for each in self._events):
            try:
                self._next(deadline)
            except TimeoutError:
                if event:
                    raise
                break
        self._events.clear()

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._back, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
            self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        if message["method"] == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])
        if message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(message["params"]["exceptionDetails"])[:2000])
        if message["method"] == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(message["params"]["args"])[:2000])


@contextlib.contextmanager
def started(command: str, folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in ``folder``."""
    (here_out, to), (back, here_in) = os.pipe(), os.pipe()

    options = [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
        "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(
        # A process of its own places the pipes: a function before exec would fork beside the threads of a framework.
        [sys.executable, "-S", "-c", PLACED, str(here_out), str(here_in), command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(here_out, here_in),
        start_new_session=True,
    )
    os.close(here_out)
    os.close(here_in)
    try:
        yield Browser(process, to, back)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(to)
        os.close(back)
