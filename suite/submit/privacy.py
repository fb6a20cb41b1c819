"""What a bundle says of who measured: nothing that names a person, a host, a folder or a device.

Records are made to be published (`suite.record.parts.environment`). Here only what is known goes on: known variables
with values of a known form, and of free text the words of a known form. What identifies a device or a host is replaced
by a hash with a salt that nobody keeps. What no digest lets be changed is looked through, and stops the command.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from suite.catalog.variables import LEFT_OUT, public_value
from suite.record.parts.environment import redact

#: Shorter names are parts of too many words to be looked for, and these are the names of nobody.
NAME_LEAST = 4
GENERIC = ("/root", "admin", "docker", "jovyan", "localhost", "nobody", "root", "runner", "ubuntu", "user", "vagrant")

#: What holds names that others gave: of packages, variables and options.
STRANGE = ("installed", "locks", "packages", "typed", "variables")

#: Forms of a word that tell nothing of who measured, besides the suite's own words: a number with its unit, a version,
#: a type, a constant, a model of hardware, what Python and the frameworks call something.
_FORMS = (
    "out-of-memory", r"[+-]?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?(?:%|[A-Za-z]{0,3})",
    r"v?\d{1,4}(?:\.\d{1,4}){1,2}(?:\+[a-z0-9]{1,8})?", r"(?:b?float|[bt]?fp?|u?int)\d{1,2}",
    r"[A-Z]{1,16}(?:_[A-Z0-9]{1,16}){1,6}", "[A-Z][A-Za-z]{1,30}Error", "[A-Za-z]{1,12}/s",
    r"(?!DESKTOP-|LAPTOP-|WIN-)[A-Z][A-Z0-9]{0,11}(?:-[A-Z0-9]{1,8}){0,3}",  # but for what Windows calls a computer
    r"(?:builtins|flax|jax|jaxlib|keras|nn|nnx|np|numpy|optax|suite|tensorflow|tf|torch|workloads)(?:\.[A-Za-z_]{1,40}){1,6}",
)  # fmt: skip
_PLAIN = re.compile("|".join(_FORMS))
_BETWEEN = re.compile(r"[()\[\]{},;!?\"'`<>|*]+")
#: What was typed: values of settings, and an expression over them.
_TYPED = re.compile(r"[\w.,=+*() -]{0,300}")

#: What names a device, a host, a place or a person, wherever it stands: addresses of all kinds, and UUIDs.
_IDENTIFIERS = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,10}://|[\w.+-]+@[\w-]+\.\w|\b(?:GPU|MIG)-[0-9a-f-]{8,}|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-"
    r"|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\b[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\b|(?:/home|/Users)/\w",
    re.IGNORECASE,
)
_COLONS = re.compile(r"(?<![\w:.])[\da-fA-F:.]*:[\da-fA-F:.]*:[\da-fA-F:.]*(?![\w:])")


def remove_names(text: str, hosts: Collection[str] = ()) -> str:
    """The text with `<name>` for each word that has no known form, or has a name in it.

    Names are those of this machine and its user, and of the ``hosts`` that launches ran on, whole and short.
    """
    short = (host.partition(".")[0] for host in hosts)
    names = [name.lower() for name in (*own_names().values(), *hosts, *short) if name]
    return re.sub(r"\S+", lambda match: match[0] if _is_plain(match[0], names) else "<name>", redact(text))


def _is_plain(word: str, names: Collection[str]) -> bool:
    lower = word.lower()
    if any(name in lower if len(name) >= NAME_LEAST else name in re.split(r"[\W_]+", lower) for name in names):
        return False
    pieces = (piece.lstrip(".").rstrip(".:") for piece in _BETWEEN.split(word))
    words = (piece for piece in pieces if any(map(str.isalnum, piece)))
    return all(word.lower() in _own_words() or _PLAIN.fullmatch(word) for word in words)


@cache
def _own_words() -> frozenset[str]:
    """The words of the suite's own files; any other may be a host's name."""
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("*.py"))
    return frozenset(word for text in texts for word in re.findall("[a-z]{1,24}", text.lower()))


def own_names() -> dict[str, str]:
    """The names of this machine, its user and the user's folder, each once, by what they are."""
    host = socket.gethostname()
    names = {"the host's name": host, "the host's short name": host.partition(".")[0]}
    with contextlib.suppress(KeyError, OSError, RuntimeError):  # a user id without a name or a home, as containers have
        names |= {"the user's name": getpass.getuser(), "the home folder": str(Path.home()).rstrip("/")}
    by_name = {name: what for what, name in reversed(names.items()) if name and name.lower() not in GENERIC}
    return {what: name for name, what in by_name.items()}


def hidden() -> Callable[[str], str]:
    """A function that replaces a name by a hash: equal names by equal ones, and those of another call by others."""
    salt = secrets.token_bytes(16)
    return lambda name: hashlib.sha256(salt + name.encode()).hexdigest()[:12]


def public(
    line: Mapping[str, Any], hide: Callable[[str], str], more: bool = False, named: Collection[str] = (),
    hosts: Collection[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """A journal's line as a bundle has it; with ``more``, without logs, reasons and variables.

    No reason has a name of these ``hosts`` in it. Variables that are ``named`` stay with their values, known or not.
    What it changes is all in `suite.record.chain.PRIVATE`, so that the digests of the lines stay right.
    """
    made = dict(line)
    if line.get("log"):  # which says what a library likes, and no rule reads it
        made["log"] = []
    if isinstance(outcome := line.get("outcome"), dict) and outcome.get("reason"):
        made["outcome"] = outcome | {"reason": "" if more else remove_names(outcome["reason"], hosts)}
    if isinstance(environment := line.get("environment"), dict) and "variables" in environment:
        made["environment"] = {name: value for name, value in environment.items() if name != "variables"}
        if isinstance(variables := environment["variables"], dict) and not more:
            made["environment"]["variables"] = _public_variables(variables, named)
    if isinstance(metrics := line.get("metrics"), dict):
        made["metrics"] = metrics = _without_processes(metrics)
        if isinstance(metrics.get("gpus"), list):
            made["metrics"] = metrics | {"gpus": [_hide_gpu(gpu, hide) for gpu in metrics["gpus"]]}
    if isinstance(ranks := line.get("ranks"), dict) and ranks.get("interface"):
        made["ranks"] = ranks | {"interface": "" if more else hide(ranks["interface"])}
    if isinstance(run := line.get("run"), dict):
        made["run"] = describe_run(run, more) | ({"host": hide(str(run["host"]))} if run.get("host") else {})
    return made


def _public_variables(variables: Mapping[str, Any], named: Collection[str]) -> dict[str, str]:
    values = {
        name: str(value) if name in named else public_value(name, str(value)) for name, value in variables.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def describe_run(run: Mapping[str, Any], more: bool) -> dict[str, Any]:
    """The description of a run; with ``more``, of what was typed only whether ``-k`` was, which changes the order."""
    if not isinstance(typed := run.get("typed"), dict):
        return dict(run)
    if more:
        return {**run, "typed": {"k": "left out"} if typed.get("k") else {}}
    return {**run, "typed": {name: _public_words(value) for name, value in typed.items()}}


def _public_words(value: Any) -> Any:
    """What was typed for an option, where it is made of names and numbers alone."""
    if isinstance(value, list):
        return [_public_words(each) for each in value]
    return value if not isinstance(value, str) or _TYPED.fullmatch(value) else LEFT_OUT


def names_in(content: Any) -> Iterator[str]:
    """What still tells who measured, in any text: a name of this machine, or an address; each with where it is.

    A name that the suite itself uses for something tells nothing.
    """
    texts = [*_texts(content)]
    ours = " ".join({text.lower() for place, text, is_key in texts if is_key and place not in STRANGE})
    names = {f"{what} {name!r}": name.lower() for what, name in own_names().items() if len(name) >= NAME_LEAST}
    looked_for = {shown: name for shown, name in names.items() if name not in ours}
    for place, text, _ in texts:
        yield from (f"{shown} in {place}" for shown, name in looked_for.items() if name in text.lower())
        if found := next(_addresses(text), ""):
            yield f"{found!r} in {place}"


def _addresses(text: str) -> Iterator[str]:
    yield from (match[0] for match in _IDENTIFIERS.finditer(text))
    for match in _COLONS.finditer(text) if ":" in text else ():
        with contextlib.suppress(ValueError):
            yield str(ipaddress.IPv6Address(match[0].rstrip(".")))


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


def _texts(value: Any, place: str = "the run") -> Iterator[tuple[str, str, bool]]:
    """Every text, after the name of what holds it, and whether it is itself a name of something."""
    if isinstance(value, str):
        yield place, value, False
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield place, str(name), True
            yield from _texts(each, str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, place)
