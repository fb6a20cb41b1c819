"""What every framework is given, and its answer: one process each, with its own interpreter."""

from __future__ import annotations

import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from framework_training_suite import CommandError
from suite.catalog.suggest import nearest, unknown
from suite.plan.cell import WORKLOADS
from suite.prove.numbers import Given, Numbers
from suite.session.launches.launch import LaunchError, ask
from workloads import registry
from workloads.data import synthetic
from workloads.data.augment import Batches, evaluation_batches
from workloads.data.dataset import Array
from workloads.data.own import OWN, data_of
from workloads.spec import WorkloadSpec

BATCH, STEPS, SEED = 8, 3, 7
#: Of the synthetic twins: a few samples are enough.
SAMPLES = 200
#: Draws that are added to tensors that start with a few values: a bias of zeros hides what is done with it.
SPREAD = 0.1


class GivenError(CommandError, ValueError):
    """Weights that are not those of the workload, or a workload that is not there; one line that names the way out."""


def workload_at(place: str) -> str:
    """The name of the one workload at a path, or of one of the suite's own.

    A name that is both is refused: the other model would be proved. Raises `GivenError` or `RegistryError`.
    """
    if place in WORKLOADS:
        if Path(place).exists():
            raise GivenError(
                f"{place} is a workload of the suite and a folder here; write ./{place} for the folder, "
                "or call this from another folder for the suite's own"
            )
        return place
    if nearest(place, WORKLOADS) and not Path(place).expanduser().exists() and place not in registry.installed():
        raise GivenError(unknown("workload", place, WORKLOADS, "the folder of your own"))
    found = registry.register(place)
    if len(found) > 1:
        raise GivenError(f"{place} holds {len(found)} workloads; name the folder of one of them")
    return found[0]


def collect_given(workload: str, spec: WorkloadSpec, weights: str | None = None) -> Given:
    """Weights, from a file if one is named, and batches. Raises `GivenError`, or `DataError` for its own data."""
    data = spec.arrange(data_of(workload) if spec.data == OWN else synthetic.generate(spec.data, SAMPLES, 2 * BATCH))
    length = getattr(spec, "length", None)
    source = Batches(data, BATCH, SEED, length)
    batches = [source[number] for number in range(STEPS)]
    inputs, labels, _ = next(iter(evaluation_batches(data, BATCH, length)))
    tensors = of_checkpoint(Path(weights), workload, spec) if weights else draw_weights(spec)
    return Given(tensors, [*batches, (inputs, labels)], rates(spec))


def rates(spec: WorkloadSpec) -> tuple[float, ...]:
    """The rates of dropout that a spec has in its field ``dropout``, a number or several; empty if it has none."""
    found = np.atleast_1d(np.asarray(getattr(spec, "dropout", ())))
    return tuple(map(float, found)) if np.issubdtype(found.dtype, np.number) else ()


def draw_weights(spec: WorkloadSpec) -> dict[str, Array]:
    """The initial weights of a seed, with draws added where a tensor has few values, such as a forget gate's bias."""
    generator, drawn = np.random.default_rng(SEED), dict[str, Array]()
    for name, array in spec.reference_weights(SEED).items():
        few = len(np.unique(array)) <= 2
        added = generator.uniform(-SPREAD, SPREAD, array.shape) if few else 0.0
        drawn[name] = (array + added).astype(np.float32)
    return drawn


def of_checkpoint(path: Path, workload: str, spec: WorkloadSpec) -> dict[str, Array]:
    """The weights in a ``.npz`` or ``.safetensors`` file, by canonical names.

    A function ``from_checkpoint`` in the workload's ``spec.py`` may bring others into canonical names and layouts.
    Raises `GivenError`.
    """
    arrays = _read(path)
    adapt = getattr(import_module(f"workloads.{workload}.spec"), "from_checkpoint", None)
    if adapt:
        arrays = adapt(arrays)
    expected = {tensor.name: tensor.shape for tensor in spec.tensors}
    missing, strange = sorted(expected.keys() - arrays.keys()), sorted(arrays.keys() - expected.keys())
    if missing or strange:
        raise GivenError(
            f"{path.name} lacks {', '.join(missing[:3]) or 'nothing'} and has {', '.join(strange[:3]) or 'nothing'} "
            "besides; rename its tensors in a function from_checkpoint(arrays) in spec.py"
        )
    for name, shape in expected.items():
        if arrays[name].shape != shape or arrays[name].dtype.kind != "f":
            found = f"{arrays[name].dtype} {arrays[name].shape}"
            raise GivenError(f"{path.name}: {name} is {found}; the spec has floating point {shape}")
    return {name: np.asarray(arrays[name]) for name in expected}


def write_given(of: Given, folder: Path) -> None:
    """Write what every framework is given, for `answer`."""
    contents: dict[str, Any] = {f"weights/{name}": array for name, array in of.weights.items()}
    for number, (inputs, labels) in enumerate(of.batches):
        contents |= {f"inputs/{number}": inputs, f"labels/{number}": labels}
    np.savez(folder / "given.npz", **contents)


def answer(workload: str, framework: str, size: str, folder: Path) -> Numbers:
    """What one framework computed. Raises `LaunchError`."""
    if framework not in registry.frameworks_of(workload):
        raise LaunchError(f"{workload} has no file {framework}.py")
    file = folder / f"{framework}.npz"
    arguments = ["--workload", workload, "--framework", framework, "--size", size]
    arguments += ["--given", str(folder / "given.npz"), "--arrays", str(file)]
    if own := registry.folder_of(workload):
        arguments += ["--folder", own]
    facts = ask(framework, "suite.worker.evidence.proof", arguments)
    with np.load(file, allow_pickle=False) as archive:
        return Numbers(facts, {name: archive[name] for name in archive.files})


def _read(path: Path) -> dict[str, Array]:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        if path.suffix == ".safetensors":
            return dict(import_module("safetensors.numpy").load_file(path))  # of the extra
    except ImportError:
        raise GivenError("reading .safetensors needs the extra `prove`, or `pip install safetensors`") from None
    except Exception as error:  # what a broken file raises has no common type
        kind = "not an archive of plain arrays" if isinstance(error, zipfile.BadZipFile | ValueError) else str(error)
        raise GivenError(f"{path} cannot be read: {kind}") from None
    raise GivenError(f"{path} is neither .npz nor .safetensors; no other format is read, since pickles run code")
