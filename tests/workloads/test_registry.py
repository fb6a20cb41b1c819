"""Workloads from outside: registered by their folder, imported as packages, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
import pytest

from suite.plan.cell import OWN_WORKLOAD, Cell, CellError
from suite.plan.matrix import MatrixError
from suite.plan.sweeps.sweep import parse_values, swept, usual
from tests.prove.mistakes import PORTS, forget
from workloads import registry
from workloads.data.augment import Batches
from workloads.data.cache import open_cached
from workloads.data.dataset import DataError, Split
from workloads.data.own import OwnSplits, add_augmentation, data_of, prepare_own, synthetic
from workloads.spec import specification


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    yield
    for name in registry.names():
        forget(name)


def folder(place: Path, name: str = "mine", data: str = "") -> Path:
    made = place / name
    made.mkdir()
    text = (PORTS / "image" / "spec.py").read_text(encoding="utf-8").replace("own_image", f"own_{name}")
    (made / "spec.py").write_text(text, encoding="utf-8")
    (made / "pytorch.py").write_text("from .spec import CLASSES\n", encoding="utf-8")
    (made / "data.py").write_text(data or (PORTS / "image" / "data.py").read_text(encoding="utf-8"), encoding="utf-8")
    return made


def test_a_folder_becomes_a_package_of_its_own(tmp_path: Path) -> None:
    path = list(sys.path)
    assert registry.register(folder(tmp_path)) == ["own_mine"]
    assert specification("own_mine", "small").parameters == 883
    assert import_module("workloads.own_mine.pytorch").CLASSES == 3
    assert registry.frameworks_of("own_mine") == ("pytorch",)
    assert len(registry.files_digest("own_mine")) == 64
    assert sys.path == path


def test_the_digest_of_the_code_follows_the_folders_that_an_import_reaches(tmp_path: Path) -> None:
    registry.register(folder(tmp_path))
    before = registry.files_digest("own_mine")
    for name in ("__pycache__", "not-a-module"):
        (tmp_path / "mine" / name).mkdir()
        (tmp_path / "mine" / name / "x.py").write_text("A = 1\n")
    assert registry.files_digest("own_mine") == before
    (tmp_path / "mine" / "layers").mkdir()
    (tmp_path / "mine" / "layers" / "dense.py").write_text("A = 1\n")
    between = registry.files_digest("own_mine")
    (tmp_path / "mine" / "layers" / "dense.py").write_text("A = 2\n")
    assert len({before, between, registry.files_digest("own_mine")}) == 3


def test_a_folder_may_hold_several(tmp_path: Path) -> None:
    folder(tmp_path, "one")
    folder(tmp_path, "two")
    assert registry.register(tmp_path) == ["own_one", "own_two"]


@pytest.mark.parametrize("name", ["Mine", "mine-too", "1mine"])
def test_names_that_no_cell_could_have_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(registry.RegistryError, match="rename the folder"):
        registry.register(folder(tmp_path, name))


def test_two_of_one_name_and_none_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    registry.register(folder(tmp_path / "a"))
    with pytest.raises(registry.RegistryError, match="both named mine"):
        registry.register(folder(tmp_path / "b"))
    (tmp_path / "c").mkdir()
    with pytest.raises(registry.RegistryError, match=r"has no spec\.py"):
        registry.register(tmp_path / "c")


def test_a_stored_name_imports_nothing() -> None:
    """A record may name any workload from outside; it is a cell, and only the user's command line makes it more."""
    cell = Cell.from_json({"workload": "own_stranger", "framework": "jax"})
    assert OWN_WORKLOAD.fullmatch(cell.workload)
    with pytest.raises(registry.RegistryError, match="name its folder with --workloads PATH"):
        specification(cell.workload)
    with pytest.raises(MatrixError, match="unknown workload 'own_stranger'"):
        parse_values("workload", "own_stranger")
    for name in ("own_", "own_../x", "own_a.b", "os", "own_" + 41 * "a"):
        with pytest.raises(CellError):
            Cell.from_json({"workload": name, "framework": "jax"})


def test_a_sweep_takes_it_in_the_frameworks_that_it_has(tmp_path: Path) -> None:
    registry.register(folder(tmp_path))
    axes = {"workload": parse_values("workload", "own_mine"), "precision": parse_values("precision", "fp32,bf16")}
    cells = swept(usual(gpu=False), axes).cells
    assert {(cell.workload, cell.framework, cell.precision) for cell in cells} == {
        ("own_mine", "pytorch", "fp32"),
        ("own_mine", "pytorch", "bf16"),
    }


def test_an_installed_package_offers_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    place = folder(tmp_path / "package")
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    entry = metadata.EntryPoint("mine-installed", "package.mine", registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] if group == registry.GROUP else [])
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry.register("mine-installed") == ["own_mine"]
    assert registry.folder_of("own_mine") == str(place.resolve())
    with pytest.raises(registry.RegistryError, match="installed ones: mine-installed"):
        registry.register("other")


def test_its_data_is_cached_under_its_digest_and_anew_when_it_changes(tmp_path: Path) -> None:
    place = folder(tmp_path)
    registry.register(place)
    lines: list[str] = []
    cached = prepare_own("own_mine", "auto", tmp_path / "cache", lines.append)
    data = open_cached(cached)
    assert (data.name, data.kind, data.form) == ("own_mine", "synthetic", "plain")
    assert prepare_own("own_mine", "auto", tmp_path / "cache", lines.append) == cached
    assert len(lines) == 1
    forget("own_mine")
    text = (place / "data.py").read_text(encoding="utf-8").replace("train=64", "train=128")
    (place / "data.py").write_text(text, encoding="utf-8")
    registry.register(place)
    assert len(open_cached(prepare_own("own_mine", "auto", tmp_path / "cache", lines.append)).train) == 128
    with pytest.raises(DataError, match="synthetic, not real"):
        prepare_own("own_mine", "real", tmp_path / "cache", lines.append)


WRONG = {
    "return 3": "returned int",
    "return OwnSplits(Split(np.zeros(3), np.zeros(2)), Split(np.zeros(3), np.zeros(3)))": "3 inputs and 2 labels",
    "return OwnSplits(*2 * [Split(np.array(['a']), np.zeros(1))])": "numbers of up to 8 bytes",
    "return OwnSplits(*2 * [Split(np.zeros((1, 2, 2, 3)), np.zeros(1))], form='images')": "is for uint8",
    "return OwnSplits(*2 * [Split(np.zeros(1), np.zeros(1))], form='sound')": "form is 'sound'",
}


@pytest.mark.parametrize("body", WRONG)
def test_data_that_cannot_be_used_is_refused_in_one_line(body: str, tmp_path: Path) -> None:
    imports = "import numpy as np\nfrom workloads.data.own import OwnSplits\nfrom workloads.data.dataset import Split\n"
    registry.register(folder(tmp_path, data=f"{imports}\ndef splits():\n    {body}\n"))
    with pytest.raises(DataError, match=WRONG[body]):
        prepare_own("own_mine", "auto", tmp_path / "cache", lambda _: None)


AUGMENT = """
from workloads.data.own import synthetic

DRAWS = 2

def splits():
    return synthetic((5,), "float32", train=64, test=16)

def augment(inputs, draws):
    return (inputs * draws[:, :1] + draws[:, 1:]).astype(inputs.dtype)
"""


def test_an_augmentation_belongs_to_the_samples(tmp_path: Path) -> None:
    registry.register(folder(tmp_path, data=AUGMENT))
    cached = prepare_own("own_mine", "auto", tmp_path / "cache", lambda _: None)
    plain = open_cached(cached)
    data = add_augmentation(plain, "own_mine")
    eight, four = Batches(data, 8, 3), Batches(data, 4, 3)
    whole = eight[1][0]
    assert whole.dtype == np.float32
    assert not np.array_equal(whole, Batches(plain, 8, 3)[1][0])
    assert np.array_equal(whole, np.concatenate([four[2][0], four[3][0]]))
    assert np.array_equal(whole, np.stack([eight.sample(1, int(index))[0] for index in eight.choose(1)]))
    assert np.array_equal(Batches(data, 8, 3, first_epoch=1)[0][0], eight[8][0])
    assert np.array_equal(eight.in_memory()[1][0], whole)


def test_a_synthetic_set_takes_a_shape_and_a_type() -> None:
    images, tokens = synthetic((4, 4, 3), "uint8"), synthetic((7,), "uint16", largest=30, train=32, test=8)
    assert (images.form, images.train.inputs.dtype) == ("plain", np.uint8)
    assert (tokens.form, tokens.train.inputs.max() < 30) == ("tokens", True)
    assert np.array_equal(images.train.inputs, synthetic((4, 4, 3), "uint8").train.inputs)
    assert isinstance(images, OwnSplits)
    assert isinstance(images.test, Split)


def test_registering_imports_no_framework() -> None:
    code = f"from workloads import registry; registry.register({str(PORTS)!r}); import workloads.own_image.spec, sys; "
    code += "print({'torch', 'tensorflow', 'jax', 'numpy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PORTS.parents[2]
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(4)", "SystemExit: 4"),
        ("def (", "SyntaxError: invalid syntax"),
    ],
)
def test_a_fault_in_a_users_file_names_the_file_and_the_line(tmp_path: Path, code: str, words: str) -> None:
    made = folder(tmp_path, data=f"\n{code}\n")
    registry.register(made)
    with pytest.raises(DataError, match=rf"^own_mine: data\.py line 2: {words}$"):
        data_of("own_mine")
    (made / "spec.py").write_text(f"\n\n{code}\n")
    with pytest.raises(registry.RegistryError, match=rf"^own_mine: spec\.py line 3: {words}$"):
        specification("own_mine")
    (folder(tmp_path, "other") / "__init__.py").write_text(f"{code}\n")
    with pytest.raises(registry.RegistryError, match=rf"^other: __init__\.py line 1: {words}$"):
        registry.register(tmp_path / "other")
    assert registry.names() == ("own_mine",)
