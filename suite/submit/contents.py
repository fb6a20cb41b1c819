"""What goes into the bundle of a run: its journal where there is one, else the launches of the saved run."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import __version__
from suite.analysis.records.load import LoadError, load
from suite.doctor import checks
from suite.plan.cell import FRAMEWORKS
from suite.plan.command.common import with_older
from suite.record.bundle import FORMAT, SUFFIX, Manifest
from suite.record.chain import BEFORE
from suite.record.parts.environment import digest_of
from suite.record.record import Record
from suite.record.saved import open_run, unpack
from suite.record.text import clean
from suite.session.launches.launch import LaunchError, ask
from suite.submit.privacy import describe_run, hidden, public, remove_names
from suite.verify.rule import VERSION
from workloads.data.files import read_regular

#: Bytes of a saved run or a journal, at most.
LARGEST = 1 << 28

#: Seconds that a framework's environment has to list its packages.
LIST_WITHIN_S = 60.0


@dataclass(frozen=True)
class Contents:
    """``lines`` are those of `suite.record.bundle.write`; ``notes`` tell what is not in it, and why."""

    about: Manifest
    lines: list[dict[str, Any]]
    records: list[Record]
    notes: tuple[str, ...] = ()


def contents(
    path: Path, journals: Path, *, redacted: bool = False, price_hour: float | None = None, look: bool = True,
    named: Collection[str] = (),
) -> Contents:  # fmt: skip
    """The content of the bundle of a saved run or a journal. Raises `LoadError`, and `OSError`.

    Variables that are ``named`` are in it, known or not. Unless it is to ``look``, neither the doctor nor the
    environments are asked about this machine.
    """
    if path.suffix == SUFFIX:
        raise LoadError(f"{path}: is a bundle already")
    loaded = load([path])
    if len(loaded.runs) != 1 or len({launch.run for launch in loaded.launches}) != 1:
        raise LoadError(f"{path}: has launches of several runs; a bundle has those of one")
    records = [launch.record for launch in loaded.launches]
    if any(record.cell.is_of_script for record in records):
        raise LoadError(
            f"{path}: is of a script of your own, which nobody else can run or check; share its report instead"
        )
    run = dict(next(iter(loaded.runs.values())))
    name = f"{re.sub(r'[^0-9A-Za-z-]', '_', str(run.get('id')))}.jsonl"
    places = [path] if path.suffix == ".jsonl" else [folder / name for folder in with_older(journals)]
    journal = next(filter(Path.is_file, places), places[0])
    lines, notes = _journal(journal, records), []
    ordered = bool(lines)
    if not ordered:
        lines = [{"run": run}, *map(_unchain, _read_saved(path))]
        notes.append(f"{journal.name} is not there or not of this run: the bundle has the launches without their order")
    installed = dict(_find_installed(records)) if look and not redacted else {}
    missing = {record.cell.framework for record in records} - installed.keys()
    if missing and not redacted:
        notes.append(
            f"the packages of {', '.join(sorted(missing))} are left out: the environments are not those that ran"
        )
    hide = hidden()
    about = Manifest(
        FORMAT, __version__, VERSION, describe_run(run, redacted), ordered, redacted,
        tuple(_doctor()) if look and not redacted else (), installed, price_hour,
    )  # fmt: skip
    groups = (str(host) for line in lines if (host := (line.get("run") or {}).get("host")))
    hosts = {host for group in groups for host in group.split("+") if host}  # a group has all names of its hosts
    made = [public(line, hide, redacted, named, hosts) for line in lines]
    if left_out := sorted(_variables(lines).keys() - _variables(made).keys()):
        more = "" if redacted else "; --variable NAME sends one with its value"
        notes.append(f"variables that are left out: {', '.join(left_out)}{more}")
    return Contents(about, made, records, tuple(notes))


def _variables(lines: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for line in lines:
        variables = (line.get("environment") or {}).get("variables")
        for name, value in variables.items() if isinstance(variables, dict) else ():
            found.setdefault(name, {})[str(value)] = None
    return found


def _unchain(line: dict[str, Any]) -> dict[str, Any]:
    """The line without the digest of the one before, which is another one in a saved run."""
    return line | {"run": {name: value for name, value in line["run"].items() if name != BEFORE}}


def _journal(path: Path, records: list[Record]) -> list[dict[str, Any]]:
    try:
        texts = read_regular(path, LARGEST).split(b"\n")[:-1]
        lines = [json.loads(text) for text in texts if text.strip()]
        held = {Record.from_json(line).key for line in lines[1:]}
    except (OSError, ValueError):
        return []
    return lines if all(record.key in held for record in records) else []


def _read_saved(path: Path) -> list[dict[str, Any]]:
    with open_run(path) as file:
        content = unpack(json.load(file))
    entries = [entry.get("extra_info", {}).get("record") for entry in content["benchmarks"]]
    found = [record for record in (*entries, *content["suite"]["failed"]) if record]
    return sorted(found, key=lambda record: (record["started"], record["run"].get("position", 0)))


def _find_installed(records: list[Record]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The distributions of each framework's environment, where it is still the one that the launches ran in."""
    for framework in dict.fromkeys(record.cell.framework for record in records):
        digests = {record.environment.get("digest") for record in records if record.cell.framework == framework}
        try:
            found = ask(framework, "suite.submit.installed", [], LIST_WITHIN_S)
        except LaunchError:
            continue
        if digest_of(found) in digests:
            yield framework, tuple(sorted(found))


def _doctor() -> Iterator[str]:
    for finding in (*checks.host(), *checks.gpus()[1]):
        yield clean(remove_names(f"{finding.status}: {finding.area}: {finding.text}"), 500)


def describe(made: Contents) -> Iterator[str]:
    """Lines that say what the bundle has in it, and what it tells of the machine."""
    about, records = made.about, made.records
    first = next((record for record in records if record.outcome.ok), records[0])
    hardware, environment = first.environment.get("machine") or {}, first.environment
    days = sorted(record.started[:10] for record in records)
    yield f"run          {clean(about.run.get('id', '?'))}, {days[0]} to {days[-1]}, {len(made.lines) - 1} launches"
    yield f"cells        {', '.join(sorted({record.cell.id for record in records}))}"
    memory_gib = (hardware.get("memory_bytes") or 0) / 2**30
    yield f"processor    {clean(hardware.get('cpu'))}, {hardware.get('cores')} cores, {memory_gib:.1f} GiB"
    yield f"GPUs         {', '.join(map(clean, hardware.get('gpus') or ())) or 'none'}"
    yield f"system       {clean(environment.get('system'))}, Python {clean(environment.get('python'))}"
    for framework in FRAMEWORKS:
        named = (r.environment.get("packages") for r in records if r.cell.framework == framework)
        packages: dict[str, str] = next(filter(None, named), {})
        if packages:
            versions = [*(f"{name} {number}" for name, number in packages.items()), *about.installed.get(framework, ())]
            yield f"{framework:12} {', '.join(clean(each, 80) for each in versions)}"
    values = (f"{clean(name)}={clean(' or '.join(each))}" for name, each in sorted(_variables(made.lines).items()))
    yield f"variables    {', '.join(values) or 'none'}"
    if typed := about.run.get("typed"):
        yield f"typed        {clean(json.dumps(typed))}"
    for reason in dict.fromkeys((line.get("outcome") or {}).get("reason") for line in made.lines):
        yield from (f"failed       {clean(reason, 160)}",) if reason else ()
    yield from (f"doctor       {line}" for line in about.doctor)
    if about.price_hour is not None:
        yield f"price        {about.price_hour:g} for an hour"
    yield from (f"note         {clean(note, 1000)}" for note in made.notes)
