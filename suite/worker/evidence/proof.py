"""What one framework computes of a workload in float64 on the CPU, for `training-suite prove`.

Started by `suite.session.launches.launch.ask`. It reads weights and batches from a file, and writes every number that
the comparison needs to another: logits, loss, gradients, the inputs and outputs of every layer that has weights, three
steps, an evaluation after them, the same layers with dropout, and all answers at a larger scale. It knows no framework.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from suite.plan.cell import Cell
from suite.record.text import clean
from suite.worker.evidence import initial
from suite.worker.evidence.fingerprint import at_proof_rate
from suite.worker.evidence.layers import Sources, TrackedWeights, enlarge, enlarge_inputs, owners, part, perturb
from suite.worker.frameworks import import_framework
from workloads import registry
from workloads.data.dataset import Array
from workloads.faults import FAULTS, describe_fault
from workloads.spec import WorkloadSpec, specification

#: Forward passes with dropout, whose draws are counted together; as few as two where these show that there is none.
DRAWS = 32
SAME = 1e-6
#: Of a layer's input and output in such a pass, as many samples are kept as have so many numbers, but two at least.
DRAWN = 2**17

Arrays = dict[str, Array]
Batch = tuple[Array, Array]


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments, collect, and write the arrays beside the answer."""
    parser = argparse.ArgumentParser()
    for name in ("workload", "framework", "size", "given", "arrays", "answer"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--folder", default="")
    options = parser.parse_args(arguments)
    if options.folder:
        registry.register(options.folder)
    spec = specification(options.workload, options.size)
    with np.load(options.given, allow_pickle=False) as archive:
        given = {name: archive[name] for name in archive.files}
    weights = {name.removeprefix("weights/"): a for name, a in given.items() if name.startswith("weights/")}
    count = sum(name.startswith("inputs/") for name in given)
    batches = [(given[f"inputs/{step}"], given[f"labels/{step}"]) for step in range(count)]
    import_framework(options.framework)
    try:
        module = import_module(f"workloads.{options.workload}.{options.framework}")
    except FAULTS as error:  # of the user's own file; the last line of what is printed is shown
        traceback.print_exc()
        sys.exit(describe_fault(error, Path(options.folder)))
    tools = import_module(f"suite.worker.frameworks.{options.framework}.evidence")
    with tools.compile_cache(str(Path(options.arrays).parent), "quickly"):
        facts, arrays = collect(options.framework, options.workload, module, spec, weights=weights, batches=batches)
        cell = Cell(options.workload, options.framework, precision="fp64", batch=len(batches[0][1]), size=spec.size)
        drawn = initial.draw(tools, cell, spec, module, batches[0][0])
    facts |= {"undrawn": drawn.pop("undrawn", "")}
    arrays |= drawn
    np.savez(options.arrays, **arrays)  # type: ignore[arg-type]
    Path(options.answer).write_text(json.dumps(facts), encoding="utf-8")


def collect(
    framework: str, workload: str, module: ModuleType, spec: WorkloadSpec, *, weights: Arrays, batches: list[Batch]
) -> tuple[dict[str, Any], Arrays]:
    """Facts, as JSON, and arrays by name. The last batch is for the evaluation.

    A stage that raises ends the collection; ``failed`` then has its name and the error in one line. ``rounded`` are the
    constants that the framework would round to float32, by what they belong to, and ``rounding`` is how far that moves
    the answers; all else is computed with the constants as they are.
    """
    code = import_framework(framework)
    tools = import_module(f"suite.worker.frameworks.{framework}.evidence")
    spec = at_proof_rate(spec)
    cell = Cell(workload, framework, precision="fp64", batch=len(batches[0][1]), size=spec.size)
    stages = _Stages(code, tools, cell, spec=spec, module=module, weights=weights)
    stages.label_count = spec.label_count or 1 + max(int(np.max(labels)) for _, labels in batches)
    code.prepare(cell, "cpu", 0)
    with tools.on_host() as rounded:
        for name in ("weights", "forward", "gradients", "steps", "evaluation", "dropout", "scaled"):
            try:
                getattr(stages, name)(batches)
            except FAULTS as error:  # any error of the port is a finding
                traceback.print_exc()
                where = describe_fault(error, Path(registry.folder_of(workload) or module.__file__ or ""))
                stages.facts["failed"] = {"stage": name, "error": clean(stages.asked.describe() + where, 500)}
                break
    if rounded and "failed" not in stages.facts:
        stages.facts |= {"rounded": rounded, "rounding": stages.find_rounding(batches)}
    return stages.facts, stages.arrays


class _Stages:
    def __init__(
        self, code: Any, tools: Any, cell: Cell, *, spec: WorkloadSpec, module: ModuleType, weights: Arrays
    ) -> None:
        self.folder = Path(module.__file__ or "").parent
        self.code, self.tools, self.cell, self.spec, self.module, self.given = code, tools, cell, spec, module, weights
        self.facts: dict[str, Any] = {"framework": cell.framework, "layers": []}
        self.arrays: Arrays = {}
        self.asked = TrackedWeights()
        self.label_count = 0

    def _training(self, dropout: bool) -> Any:
        self.asked = TrackedWeights(self.given)
        training = self.code.Training(self.cell, self.spec, self.module, self.asked, "cpu", dropout=dropout)
        self.asked.last = ""
        return training

    def weights(self, batches: list[Batch]) -> None:
        """The model, and its weights as they come out again."""
        del batches
        building = getattr(self.tools, "building", None)  # of frameworks that call layers before there are numbers
        self.built = Sources(self.folder)
        with self.built if building else nullcontext(), building(self.built.note) if building else nullcontext():
            self.training = self._training(dropout=False)
        self._keep("weights", self.training.weights())
        self.facts["trained"] = self.tools.count_trained(self.training)

    def forward(self, batches: list[Batch]) -> None:
        """Logits, the loss, and the inputs and outputs of the layers."""
        sources = Sources(self.folder)
        with sources:
            calls = self._forward(batches[0], "", sources.note)
        self.owners = owners(self.tools.parameters_by_layer(self.training), self.given, calls)
        lines = sources.of(self.owners)
        named = {path.partition("#")[0]: path for path in self.owners}  # as `building` notes them
        lines |= {named[name]: own for name, own in self.built.of(named).items()}
        called = [path for path, *_ in calls if path in self.owners]
        self.numbers = {_number(path): number for number, path in enumerate(called)}
        self.facts["layers"] = [
            {"path": path, "tensors": self.owners[path], "lines": lines.get(path, [])} for path in called
        ]
        self._keep_calls(calls, "")

    def gradients(self, batches: list[Batch]) -> None:
        """The gradient of every tensor."""
        _, gradients = self.tools.gradients(self.training, self.training.put(batches[0]))
        self._keep("gradients", gradients)

    def steps(self, batches: list[Batch]) -> None:
        """The losses of the steps, the weights after the first and the last, and statistics after the first."""
        self.training = self._training(dropout=False)
        self.arrays["evaluation/start"] = self._evaluate(self.training, batches[-1])[0]
        losses = []
        for number, batch in enumerate(batches[:-1]):
            losses += self.training.read([self.training.step(self.training.put(batch))])
            if not number:
                self._keep("first", self.training.weights())
                statistics = self.tools.statistics(self.training)
        self.arrays["losses"] = np.array(losses)
        self._keep("after", self.training.weights())
        for path, arrays in statistics.items():
            self._keep_layer(path, "", **arrays)

    def evaluation(self, batches: list[Batch]) -> None:
        """What the last batch's samples are answered with after the steps: by their labels, and by the likeliest."""
        self._answer("evaluation/", batches[-1])

    def dropout(self, batches: list[Batch]) -> None:
        """The layers' inputs and outputs in passes with dropout, and two evaluations, which must have none."""
        training = self._training(dropout=True)
        self.arrays["evaluation/dropout"] = self._evaluate(training, batches[-1])[0]
        again = self._evaluate(training, batches[-1])[0]
        batch = training.put(batches[0])
        drawn: dict[tuple[str, str], list[Array]] = {}
        for number in range(DRAWS):
            if number == 2 and all(map(_are_same, drawn.values())):
                break
            with self.tools.calls(training) as calls:
                self.tools.forward(training, batch)
            for path, *arrays in calls:
                for name, array in zip(("drawn_input", "drawn_output"), arrays, strict=True):
                    if array is not None and array.size:
                        drawn.setdefault((path, name), []).append(part(array, DRAWN))
        for (path, name), passes in drawn.items():
            if len({array.shape for array in passes}) == 1:
                self._keep_layer(path, "", **{name: np.stack(passes)})
        self.arrays["evaluation/again"] = again  # last: it says that all of this stage is there

    def scaled(self, batches: list[Batch]) -> None:
        """All answers once more where values are large, and the logits with weights that differ by a few roundings."""
        inputs, labels, weights = enlarge_inputs(batches), batches[0][1], enlarge(self.given)
        batch, scored = (inputs, labels), labels.copy()
        if labels.ndim > 1 and self.spec.ignored_label is not None:
            scored[::2, ::3] = self.spec.ignored_label
        self.tools.load(self.training, weights)
        self._answer("scaled/", (inputs, scored))
        self._keep_calls(self._forward(batch, "scaled/"), "scaled/")
        self.tools.load(self.training, perturb(weights))
        self.arrays["scaled/again"] = self._logits(batch)

    def find_rounding(self, batches: list[Batch]) -> float:
        """How far rounded constants move logits and losses, relative; called where they are rounded."""
        training = self._training(dropout=False)
        start = self._evaluate(training, batches[-1])[0]  # first: a pass in training moves running statistics
        numbers = start, _flat(training.logits(training.put(batches[0])))
        exact = self.arrays.get("evaluation/start"), self.arrays.get("logits")
        pairs = [(a, b) for a, b in zip(numbers, exact, strict=True) if b is not None and a.shape == b.shape]
        return max((float(np.linalg.norm(a - b) / (np.linalg.norm(b) or 1.0)) for a, b in pairs), default=0.0)

    def _forward(self, batch: Batch, group: str, note: Callable[[str], object] = str) -> list[Any]:
        self.arrays[f"{group}logits"] = self._logits(batch)
        with self.tools.calls(self.training, note) as calls:
            self.arrays[f"{group}loss"] = np.array(self.tools.forward(self.training, self.training.put(batch)))
        return list(calls)

    def _logits(self, batch: Batch) -> Array:
        return _flat(self.training.logits(self.training.put(batch)))

    def _answer(self, group: str, batch: Batch) -> None:
        """Keep what the batch's samples are scored with: losses and right answers, also with the likeliest labels."""
        inputs, labels = batch
        with self._restored():  # a pass for the logits may move statistics
            logits = self.training.logits(self.training.put(batch))
        losses, right = self._evaluate(self.training, batch)
        likeliest = _likeliest(logits, labels, self.label_count)
        if likeliest is not None:
            self.arrays[f"{group}likeliest"] = self._evaluate(self.training, (inputs, likeliest))[1]
        self.arrays |= {f"{group}after": losses, f"{group}right": right}

    @contextmanager
    def _restored(self) -> Iterator[None]:
        state = {name: array.copy() for name, array in self.training.checkpoint().items()}
        yield
        self.training.restore(state)

    def _evaluate(self, training: Any, batch: Batch) -> tuple[Array, Array]:
        losses, right = training.get(training.evaluate(training.put(batch)))
        return np.asarray(losses, np.float64), np.asarray(right, np.float64)

    def _keep(self, group: str, tensors: Mapping[str, Array]) -> None:
        self.arrays |= {f"{group}/{name}": np.array(array) for name, array in tensors.items()}

    def _keep_calls(self, calls: list[Any], group: str) -> None:
        for path, inputs, outputs in calls:
            self._keep_layer(path, group, input=inputs, output=outputs)

    def _keep_layer(self, path: str, group: str, **arrays: Array | None) -> None:
        number = self.numbers.get(_number(path))
        if number is not None:
            self.arrays |= {f"{group}layers/{number}/{name}": a for name, a in arrays.items() if a is not None}


def _number(path: str) -> str:
    """What a path has in common with that of the same layer in another model: Keras counts names without end."""
    return path.rpartition("#")[2]


def _are_same(passes: list[Array]) -> bool:
    one, *others = passes
    return all(np.abs(one - other).max() <= SAME * np.abs(one).max() for other in others if one.shape == other.shape)


def _flat(logits: Array) -> Array:
    return np.asarray(logits, np.float64).reshape(len(logits), -1)


def _likeliest(logits: Array, labels: Array, count: int) -> Array | None:
    """The labels that logits say, in the shape of the batch's; None if they have another meaning.

    Of several outputs that are joined, the first ``count`` tell the labels.
    """
    if not np.issubdtype(labels.dtype, np.integer):
        return None
    if logits.shape == (*labels.shape, 1):
        logits = logits[..., 0]
    if logits.shape == labels.shape:
        return np.asarray(logits > 0, labels.dtype)
    return np.asarray(logits[..., :count].argmax(-1), labels.dtype) if logits.shape[:-1] == labels.shape else None


if __name__ == "__main__":
    main()
