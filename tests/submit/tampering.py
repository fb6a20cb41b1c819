"""Bundles of published runs, as their journals would have been, and what somebody may do to them."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.record.bundle import ABOUT, LAUNCHES, Manifest, write
from suite.record.chain import BEFORE, digest
from suite.record.parts.environment import digest_of
from suite.submit.contents import Contents, contents
from tests.published import RUNS

Line = dict[str, Any]
#: What changes the lines of a journal, whose first describes the run; and what changes the description beside them.
Tamper = Callable[[list[Line]], Any]

#: No such run was measured: the name says so wherever it is shown.
MADE_BY_HAND = "NVIDIA H100 80GB HBM3 (made by hand)"

#: Packages of an environment, for the tests of versions.
LISTED = ("example==1.0", "jax==0.10.2", "numpy==2.4.6")


def honest(name: str, nowhere: Path) -> Contents:
    """The content of a published run's bundle."""
    return contents(RUNS[name], nowhere, look=False)


def chained(lines: Iterable[Line]) -> list[Line]:
    """The lines with the digests that a journal gives them."""
    made: list[Line] = []
    for line in lines:
        made.append({**line, "run": line["run"] | {BEFORE: digest(made[-1])}} if made else line)
    return made


def bundle(path: Path, made: Contents, lines: list[Line], **about: Any) -> Path:
    write(path, replace(made.about, **about), lines)
    return path


def ok(lines: list[Line]) -> list[Line]:
    return [line for line in lines[1:] if line["outcome"]["status"] == "ok"]


def of_cell(lines: list[Line], at: int = 0) -> list[Line]:
    """The launches of one cell, by block."""
    cells = list(dict.fromkeys(json.dumps(line["cell"]) for line in ok(lines)))
    return [line for line in ok(lines) if json.dumps(line["cell"]) == cells[at]]


def scale(lines: Iterable[Line], factor: float) -> None:
    for line in lines:
        for phase in line["phases"].values():
            for window in (*phase["windows"], *phase["warmup"]):
                window[1] *= factor


def noise(lines: list[Line]) -> None:
    draw = random.Random(1).gauss
    for line in ok(lines):
        for phase in line["phases"].values():
            for window in phase["windows"]:
                window[1] *= 1 + draw(0, 0.01)


def faster(lines: list[Line]) -> None:
    """One framework by one percent in each window, which no other figure of a launch contradicts grossly."""
    draw = random.Random(2).gauss
    for line in ok(lines):
        for phase in line["phases"].values():
            for window in phase["windows"]:
                window[1] *= 0.985 + abs(draw(0, 0.002))


def move(lines: list[Line], at: int, to: int) -> None:
    lines.insert(to, lines.pop(at))


def swap_positions(lines: list[Line]) -> None:
    one, two = lines[1], lines[2]
    one["run"]["position"], two["run"]["position"] = two["run"]["position"], one["run"]["position"]


def exchange(lines: list[Line], at: int = 1, other: int = 2) -> None:
    """Two launches change places, with their positions and their times of start."""
    one, two = lines[at], lines[other]
    for name in ("started",):
        one[name], two[name] = two[name], one[name]
    one["run"]["position"], two["run"]["position"] = two["run"]["position"], one["run"]["position"]
    lines[at], lines[other] = two, one


def put(name: str, value: Any, *way: str) -> Tamper:
    """Set a value in every launch that ended well."""

    def change(lines: list[Line]) -> None:
        for line in ok(lines):
            place = line
            for step in way:
                place = place[step]
            place[name] = value

    return change


def copied(lines: list[Line], *names: str) -> None:
    """A launch's parts become those of the other launch of its cell."""
    one, two = of_cell(lines)[:2]
    for name in names:
        two[name] = copy.deepcopy(one[name])


def forged(lines: list[Line]) -> None:
    for line in of_cell(lines)[:1]:
        line["settings"]["peak_flops_per_s"] *= 5


#: What the environments of a GPU hold besides, and those of a CPU do not, by framework.
BUILDS = {
    "pytorch": {"torch": "2.13.0+cu130"}, "tensorflow": {"tensorflow": "2.21.0"},
    "jax": {"jax": "0.10.2", "jax-cuda12-plugin": "0.10.2"},
}  # fmt: skip


def gpu(lines: list[Line], peak_tflops: float = 60.0) -> None:
    """A GPU's run made by hand from a CPU's: the figures of the launches are the CPU's, ten times as fast."""
    for line in lines[1:]:
        machine = {
            "cpu": "Example CPU 3000",
            "cores": line["environment"]["machine"]["cores"],
            "memory_bytes": 2**37,
            "gpus": [MADE_BY_HAND],
        }
        packages = BUILDS[line["cell"]["framework"]]
        line["environment"] = line["environment"] | {"machine": machine, "packages": packages}
        line["metrics"] = line["metrics"] | {"gpus": [{"name": MADE_BY_HAND}]}
        line["settings"] |= {"device": "cuda", "peak_flops_per_s": peak_tflops * 1e12}
        for phase in line["phases"].values():
            phase["windows"] = [[10 * steps, seconds] for steps, seconds in phase["windows"]]
            phase["warmup"] = [[10 * steps, seconds] for steps, seconds in phase["warmup"]]
        ledger = line["ledger"]
        ledger["untimed"] = {name: 10 * count for name, count in ledger["untimed"].items()}
        ledger["delivered"] *= 10
        ledger["updates"] = ledger["updates"] and 10 * ledger["updates"]


def listed(about: Manifest, lines: list[Line]) -> Manifest:
    """JAX's launches and a list of all packages that agree."""
    for line in ok(lines):
        if line["cell"]["framework"] == "jax":
            line["environment"]["digest"] = digest_of(LISTED)
            line["environment"]["packages"] = {"jax": "0.10.2", "numpy": "2.4.6"}
    return replace(about, installed={"jax": LISTED})


def container(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in (ABOUT, LAUNCHES)}


def twice(path: Path, content: dict[str, bytes]) -> Path:
    """A file with two members of one name."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in (*content, LAUNCHES.replace("launches", "launcheS")):
            archive.writestr(name, content.get(name, b""))
    path.write_bytes(made.getvalue().replace(b"launcheS", b"launches"))
    return path
