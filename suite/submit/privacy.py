"""What a bundle says of who measured: nothing that names a person, a host, a folder or a device.

Records are made to be published (`suite.record.parts.environment`). Here free text is looked through once more, and
what identifies a device or a host is replaced by a hash with a salt that nobody keeps.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from suite.record.parts.environment import redact

#: Shorter names are parts of too many words to be looked for.
NAME_LEAST = 4


#: What names a device, a host or a person in the words of libraries: UUIDs, addresses of all kinds, and user@host.
_IDENTIFIERS = re.compile(
    r"\b(?:GPU|MIG)-[0-9a-fA-F-]{8,}|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b"
    r"|[\w.+-]+(?::[^@\s/]*)?@[\w.-]+|\b(?:[a-zA-Z0-9-]+\.){2,}[a-zA-Z]{2,}\b"
)


def remove_names(text: str) -> str:
    """The text without paths, names, and what `_IDENTIFIERS` finds."""
    return _IDENTIFIERS.sub("<name>", redact(text))


def hidden() -> Callable[[str], str]:
    """A function that replaces a name by a hash: equal names by equal ones, and those of another call by others."""
    salt = secrets.token_bytes(16)
    return lambda name: hashlib.sha256(salt + name.encode()).hexdigest()[:12]


def public(line: Mapping[str, Any], hide: Callable[[str], str], more: bool = False) -> dict[str, Any]:
    """A journal's line as a bundle has it; with ``more``, without logs, reasons and variables.

    What it changes is all in `suite.record.chain.PRIVATE`, so that the digests of the lines stay right.
    """
    made = dict(line)
    if line.get("log"):  # which says what a library likes, and no rule reads it
        made["log"] = []
    if isinstance(outcome := line.get("outcome"), dict) and outcome.get("reason"):
        made["outcome"] = outcome | {"reason": "" if more else remove_names(outcome["reason"])}
    if isinstance(environment := line.get("environment"), dict) and "variables" in environment:
        values = {name: remove_names(str(value)) for name, value in environment["variables"].items()}
        others = {name: value for name, value in environment.items() if name != "variables"}
        made["environment"] = others if more else others | {"variables": values}
    if isinstance(metrics := line.get("metrics"), dict):
        made["metrics"] = metrics = _without_processes(metrics)
        if isinstance(metrics.get("gpus"), list):
            made["metrics"] = metrics | {"gpus": [_hide_gpu(gpu, hide) for gpu in metrics["gpus"]]}
    if isinstance(ranks := line.get("ranks"), dict) and ranks.get("interface"):
        made["ranks"] = ranks | {"interface": "" if more else hide(ranks["interface"])}
    if isinstance(run := line.get("run"), dict):
        made["run"] = describe_run(run, more) | ({"host": hide(str(run["host"]))} if run.get("host") else {})
    return made


def describe_run(run: Mapping[str, Any], more: bool) -> dict[str, Any]:
    """The description of a run; with ``more``, of what was typed only whether ``-k`` was, which changes the order."""
    typed = run.get("typed")
    if not (more and isinstance(typed, dict)):
        return dict(run)
    return {**run, "typed": {"k": "left out"} if typed.get("k") else {}}


def names_in(content: Any) -> Iterator[str]:
    """What still tells who measured: this machine's name or home folder, in any text; each with where it is."""
    host, home = socket.gethostname(), str(Path.home()).rstrip("/")
    short = host.partition(".")[0]
    words = {f"the host's name {host!r}": host, f"the host's name {short!r}": short, f"the home folder {home!r}": home}
    looked_for = {shown: word for shown, word in words.items() if len(word) >= NAME_LEAST and word != "/root"}
    for place, text in _texts(content):
        yield from (f"{shown} in {place}" for shown, word in looked_for.items() if word in text)


def _hide_gpu(gpu: Any, hide: Callable[[str], str]) -> Any:
    return gpu | {"uuid": hide(str(gpu["uuid"]))} if isinstance(gpu, dict) and gpu.get("uuid") else gpu


def _without_processes(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics without the names of other programs that ran; how much they took stays."""
    host = metrics.get("host")
    disturbance = host.get("disturbance") if isinstance(host, dict) else None
    if not isinstance(host, dict) or not isinstance(disturbance, dict):
        return metrics
    left = {name: value for name, value in disturbance.items() if name != "processes"}
    return metrics | {"host": host | {"disturbance": left}}


def _texts(value: Any, place: str = "the run") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield place, str(name)
            yield from _texts(each, str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, place)
