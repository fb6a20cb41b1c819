"""Devices that do not train one model together as one device would."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tests.studies.mutants.mutant import Target, mutants

CNN, LSTM, RESNET = "cifar100_cnn", "imdb_lstm", "cifar100_resnet18"


def devices_of(target: Target) -> ModuleType:
    """The framework's file for several devices."""
    return import_module(f"suite.worker.frameworks.{target.name}.devices")


def keras_sums(target: Target) -> None:
    """Nobody divides the gradients, which Keras' optimizers sum over the devices."""
    training = devices_of(target).Training
    target.patch.setattr(training, "_loss_and_gradients", target.framework.Training._loss_and_gradients)


def first_slice(target: Target) -> None:
    """Every rank takes the slice of rank 0."""
    from suite.worker.distributed.process_group import ProcessGroup

    target.wrap(ProcessGroup, "share", lambda share: lambda team, *parts: replace(share(team, *parts), first=0))


def never_exchanged(target: Target) -> None:
    """Every rank follows its own gradients."""
    if target.name == "jax":
        target.patch.setattr(devices_of(target).Training, "_average", lambda _, results: results)
        return

    def alone(backward: Any) -> Any:
        def quiet(training: Any, batch: Any) -> Any:
            with training.parallel.no_sync():
                return backward(training, batch)

        return quiet

    target.wrap(devices_of(target).Training, "backward", alone)


def same_masks(target: Target) -> None:
    """All devices drop the same units."""
    target.patch.setattr(devices_of(target), "_own_draws", lambda draw: draw)


def default_clipping(target: Target) -> None:
    """DeepSpeed clips gradients, as it does by default."""
    from suite.worker.frameworks.pytorch import deepspeed as pytorch_deepspeed

    def clipping(made: Any) -> Any:
        def configured(*given: Any) -> dict[str, Any]:
            config: dict[str, Any] = made(*given)
            del config["gradient_clipping"], config["zero_optimization"]["compute_grad_norm"]
            return config

        return configured

    target.wrap(pytorch_deepspeed, "configuration", clipping)


KIND = "several devices"
TWO: dict[str, Any] = {"devices": 2, "batch": 8}
#: TensorFlow's usual strategy has one process, which takes all.
FIRST_SLICE: dict[str, Any] = {"pytorch": {}, "tensorflow": {"strategy": "multiworker"}, "jax": {}}
MUTANTS = [
    *mutants(KIND, "gradients summed, as Keras does", CNN, keras_sums, "own", of=["tensorflow"], **TWO),
    *(
        mutant
        for name, strategy in FIRST_SLICE.items()
        for mutant in mutants(
            KIND,
            "every rank takes the first slice",
            LSTM,
            first_slice,
            "batches",
            "fingerprint",
            of=[name],
            **strategy,
            **TWO,
        )
    ),
    *mutants(KIND, "gradients not exchanged", LSTM, never_exchanged, "fingerprint", of=["pytorch", "jax"], **TWO),
    *mutants(
        KIND,
        "gradients clipped, as DeepSpeed does",
        RESNET,
        default_clipping,
        "own",
        of=["pytorch"] if find_spec("deepspeed") else [],
        strategy="deepspeed",
        **TWO,
    ),
    *mutants(KIND, "dropout's masks alike on all devices", CNN, same_masks, "dropout", of=["tensorflow"], **TWO),
]
