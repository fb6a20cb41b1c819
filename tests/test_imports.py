"""What a fresh interpreter has loaded after importing parts of the suite."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
OURS = {"suite", "workloads", "framework_training_suite"}
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "jaxlib", "flax", "optax", "grain"}


def loaded(*modules: str) -> set[str]:
    """Top-level names of all modules that importing these loads."""
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_no_framework_is_imported_but_by_its_own_files() -> None:
    """By none of these, in one interpreter: what one of them imports stays."""
    found = loaded(
        "suite.plugin",
        "suite.session.run",
        "suite.session.launches.launch",
        "suite.worker.process",
        "suite.compare.comparing",
        "workloads.spec",
        "workloads.data.prepare",
        "workloads.cifar100_cnn.spec",
        "workloads.imdb_lstm.spec",
    )
    assert not found & FRAMEWORKS


#: Imports each of these; one whose library is an extra that is not installed here, as far as that.
EACH = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] in ("suite", "workloads"):
            raise
"""


def test_every_module_but_those_of_frameworks_is_imported_without_a_warning() -> None:
    theirs = {
        "frameworks",
        "loaders",
        "profilers",
        "template",
        "__main__",
        *("pytorch", "tensorflow", "jax", "keras", "nnx"),
    }
    paths = [
        path.relative_to(ROOT).with_suffix("")
        for room in ("suite", "workloads")
        for path in ROOT.glob(f"{room}/**/*.py")
    ]
    names = [".".join(path.parts).removesuffix(".__init__") for path in sorted(paths) if not theirs & {*path.parts}]
    subprocess.run([sys.executable, "-W", "error", "-c", EACH, *names], cwd=ROOT, check=True, timeout=100)


def test_the_core_needs_one_library_besides_the_standard_one() -> None:
    core = loaded(
        "suite.plan.cell",
        "suite.record.record",
        "suite.worker.launch.measure",
        "suite.record.job",
        "suite.record.parts.environment",
    )
    bare = loaded("json")  # what the environment itself loads at each start
    # The library looks for the typing extensions, and does without. What a workload declares needs no NumPy.
    assert core - bare <= sys.stdlib_module_names | {*OURS, "msgspec", "typing_extensions"}


def test_workloads_do_not_know_the_suite() -> None:
    assert "suite" not in loaded("workloads.spec", "workloads.data.prepare", "workloads.imdb_lstm.spec")
    assert not {path for path in ROOT.glob("workloads/**/*.py") if "suite" in imported(path)}


#: Which rooms of the suite a room may import besides itself. Commands, and what pytest loads, may import any.
ROOMS = {
    "catalog": set(),
    "plan": {"catalog"},
    "record": {"catalog", "plan"},
    "monitor": {"catalog", "plan", "record"},
    "worker": {"catalog", "plan", "record"},
    "releases": {"catalog", "plan", "record", "report"},
    "session": {"catalog", "plan", "record", "monitor", "export", "analysis", "releases"},
    "analysis": {"catalog", "plan", "record"},
    "export": {"catalog", "plan", "record", "analysis"},
    "report": {"catalog", "plan", "record", "analysis"},
}
#: Rooms inside of the largest ones, from the ground up: each imports only from those before it, and from itself.
FLOORS = {
    "analysis": (
        "records", "rows", "identity", "statistics", "bottlenecks", "search",
    ),
    "report": ("format", "tables", "text", "plots", "screen", "html"),
    "worker": ("distributed", "launch", "evidence"),
}  # fmt: skip
COMMANDS = {
    *("run", "compare", "list", "plot", "reproduce", "doctor", "profile", "tune", "checks", "prove", "new", "bisect"),
    *("submit", "verify", "script", "data"),
}
LOOSE = {"__init__.py", "__main__.py", "plugin.py", "test_training.py", "watch.py"}


def test_imports_point_one_way() -> None:
    wrong = []
    for room, allowed in ROOMS.items():
        for path in (ROOT / "suite" / room).rglob("*.py"):
            others = {name.split(".")[1] for name in modules(path) if name.startswith("suite.")}
            others &= {*ROOMS, *COMMANDS, "plugin", "watch"}
            wrong += [f"{path.relative_to(ROOT)} imports suite.{other}" for other in others - allowed - {room}]
    assert not wrong


def test_what_a_measured_script_loads_needs_the_standard_library_alone() -> None:
    """It runs in any Python that a reader's script has."""
    assert not imported(ROOT / "suite" / "watch.py") - sys.stdlib_module_names
    assert not imported(ROOT / "suite" / "script" / "observer" / "sitecustomize.py") - sys.stdlib_module_names


def test_rooms_inside_of_a_room_have_floors() -> None:
    wrong = []
    for room, floors in FLOORS.items():
        for floor, name in enumerate(floors):
            above = tuple(f"suite.{room}.{other}." for other in floors[floor + 1 :])
            for path in (ROOT / "suite" / room / name).rglob("*.py"):
                wrong += [
                    f"{path.relative_to(ROOT)} imports {each}" for each in modules(path) if each.startswith(above)
                ]
    assert not wrong


def test_no_two_files_of_a_room_import_each_other() -> None:
    arrows = {}
    for path in [*ROOT.glob("suite/**/*.py"), *ROOT.glob("workloads/**/*.py")]:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        arrows[name] = modules(path, anywhere=False) - {name}
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"a circle: {' -> '.join([*way[way.index(name) :], name])}"
        if name not in done:
            for other in sorted(arrows[name] & arrows.keys()):
                walk(other, (*way, name))
            done.add(name)

    for name in arrows:
        walk(name, ())


def test_every_file_has_a_room_and_can_be_read_at_once() -> None:
    assert {path.name for path in (ROOT / "suite").glob("*.py")} == LOOSE
    assert {path.parent.name for path in (ROOT / "suite").glob("*/__init__.py")} == {*ROOMS, *COMMANDS}
    files = [path for room in ("suite", "workloads", "tests") for path in ROOT.glob(f"{room}/**/*.py")]
    files.append(ROOT / "framework_training_suite.py")
    assert not [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 300]
    folders = Counter(path.parent for path in ROOT.glob("suite/**/*.py") if path.stem != "__init__")
    assert max(folders.values()) <= 13


def test_frameworks_are_named_in_their_rooms_only() -> None:
    rooms = {ROOT / "suite" / "worker" / name for name in ("frameworks", "loaders", "profilers")}
    others = [path for path in ROOT.glob("suite/**/*.py") if not rooms & {*path.parents}]
    others += [
        path
        for path in ROOT.glob("workloads/**/*.py")
        if path.stem not in ("pytorch", "tensorflow", "jax", "keras", "nnx")
    ]
    assert others
    assert not {path for path in others if imported(path) & FRAMEWORKS}


@cache
def modules(path: Path, anywhere: bool = True) -> frozenset[str]:
    """All modules and names that a file imports, in full; with ``anywhere``, inside of functions and for types too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if anywhere else tree.body
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def imported(path: Path) -> set[str]:
    """Top-level names of all that a file imports, wherever in it."""
    return {name.partition(".")[0] for name in modules(path)}
