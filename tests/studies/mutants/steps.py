"""Steps that do less, or something else, than they are timed for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.studies.mutants.mutant import Plant, Target, mutants

CNN, LSTM = "cifar100_cnn", "imdb_lstm"
LATE = 20  # steps that an object takes before it changes its ways
SMALL = 8  # the largest batch at which all is as it should be

Step = Callable[[Any, Any], Any]


def stepping(make: Callable[[Target, Step], Step]) -> Plant:
    """`Training.step` becomes what ``make`` makes of it."""
    return lambda target: target.wrap(target.framework.Training, "step", lambda step: make(target, step))


def counted(training: Any) -> int:
    """How often a `Training` has come here before."""
    training.taken = getattr(training, "taken", -1) + 1
    taken: int = training.taken
    return taken


def put_back(target: Target, training: Any, weights: dict[str, Any]) -> None:
    """Give a model other weights, in place."""
    if target.name == "jax":
        training.state = training.state._replace(weights=target.workload.import_weights(training.model, weights))
    else:
        target.workload.import_weights(training.model, weights)


def undone(training: Any, step: Step, batch: Any) -> Any:
    """A step that leaves all as it was."""
    state = training.checkpoint()
    state = {name: array.copy() for name, array in state.items()}
    loss = step(training, batch)
    training.read([loss])
    training.restore(state)
    return loss


def stops(target: Target, step: Step) -> Step:
    return lambda training, batch: step(training, batch) if counted(training) < LATE else undone(training, step, batch)


def every_other(target: Target, step: Step) -> Step:
    """After a while every other step changes nothing."""

    def halved(training: Any, batch: Any) -> Any:
        number = counted(training)
        return undone(training, step, batch) if number > LATE and number % 2 else step(training, batch)

    return halved


def freezes(tensor: str, after: int = LATE) -> Plant:
    def make(target: Target, step: Step) -> Step:
        def frozen(training: Any, batch: Any) -> Any:
            if counted(training) < after:
                return step(training, batch)
            before = training.weights()
            loss = step(training, batch)
            training.read([loss])
            put_back(target, training, training.weights() | {tensor: before[tensor]})
            return loss

        return frozen

    return stepping(make)


def tenth(target: Target, step: Step) -> Step:
    """After a while every tensor moves a tenth as far."""

    def slowed(training: Any, batch: Any) -> Any:
        if counted(training) < LATE:
            return step(training, batch)
        before = training.weights()
        loss = step(training, batch)
        training.read([loss])
        put_back(target, training, {k: before[k] + (v - before[k]) / 10 for k, v in training.weights().items()})
        return loss

    return slowed


def half_of(batch: Any, least: int) -> Any:
    size = len(batch[1])
    return tuple(part[: size // 2] for part in batch) if size > least else batch


def half_of_the_batch(least: int) -> Plant:
    """The second half of a batch larger than ``least`` is not looked at."""

    def plant(target: Target) -> None:
        for name in ("step", "compile"):
            target.wrap(
                target.framework.Training, name,
                lambda method: lambda training, batch: method(training, half_of(batch, least)),
            )  # fmt: skip

    return plant


def first_half_twice(target: Target, step: Step) -> Step:
    """Of the parts of a step only the first is looked at, again and again."""

    def doubled(training: Any, batch: Any) -> Any:
        inputs, labels = training.get(batch)
        half = len(labels) // 2
        again = tuple(array[list(range(half)) * 2] for array in (inputs, labels))
        return step(training, training.put(again) if training.cell.accumulate > 1 else batch)

    return doubled


def summed(target: Target) -> None:
    """The gradients of the parts are summed; the loss is still their mean."""
    training = target.framework.Training
    if target.name == "pytorch":

        def backward(self: Any, batch: Any) -> list[Any]:
            losses = []
            for part in zip(*(tensor.split(self.cell.batch) for tensor in batch), strict=True):
                loss = self._forward(*part)
                loss.backward()
                losses.append(loss.detach() / self.cell.accumulate)
            return losses

        target.patch.setattr(training, "backward", backward)
        return

    def scaled(differentiate: Any) -> Any:
        def differentiated(self: Any, *arguments: Any, **keywords: Any) -> Any:
            loss, gradients, *rest = differentiate(self, *arguments, **keywords)
            if target.name == "jax":
                import jax

                return loss, jax.tree.map(lambda g: g * self.cell.accumulate, gradients), *rest
            return loss, [gradient * self.cell.accumulate for gradient in gradients]

        return differentiated

    target.wrap(training, "_differentiate" if target.name == "jax" else "_loss_and_gradients", scaled)


def previous_batch(target: Target, step: Step) -> Step:
    """Every step trains on the batch before its own."""

    def late(training: Any, batch: Any) -> Any:
        training.waiting, now = batch, getattr(training, "waiting", batch)
        return step(training, now)

    return late


LOOP, PARTS = "loop", "accumulation"
TWO = {"batch": 8, "accumulate": 2}
MUTANTS = [
    *mutants(LOOP, f"stops updating after {LATE} steps", LSTM, stepping(stops), "last"),
    *mutants(
        LOOP, f"every other step is empty after {LATE}", LSTM, stepping(every_other), "last", of=["pytorch", "jax"]
    ),
    *mutants(LOOP, f"a tenth of the rate after {LATE} steps", LSTM, stepping(tenth), "last", of=["tensorflow"]),
    *mutants(LOOP, f"embedding frozen after {LATE} steps", LSTM, freezes("embedding/table"), "last"),
    *mutants(
        LOOP,
        f"first convolution frozen after {LATE} steps",
        CNN,
        freezes("conv1a/kernel"),
        "last",
        of=["pytorch", "tensorflow"],
    ),
    *mutants(LOOP, "embedding frozen", LSTM, freezes("embedding/table", after=0), "fingerprint", of=["tensorflow"]),
    *mutants(LOOP, f"half of a batch larger than {SMALL}", LSTM, half_of_the_batch(SMALL), "own"),
    *mutants(LOOP, "half of every batch", CNN, half_of_the_batch(1), "fingerprint", "own", of=["pytorch"]),
    *mutants(LOOP, "trains on the batch before", LSTM, stepping(previous_batch), "fingerprint", of=["jax"]),
    *mutants(PARTS, "gradients summed", LSTM, summed, "own", **TWO),
    *mutants(
        PARTS,
        "the first part alone",
        LSTM,
        stepping(first_half_twice),
        "own",
        of=["pytorch", "tensorflow"],
        **TWO,
    ),
]
