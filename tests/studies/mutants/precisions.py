"""Arithmetic in another precision than the record says."""

from __future__ import annotations

from typing import Any

from tests.studies.mutants.mutant import Plant, Target, mutants
from workloads.spec import Numbers

CNN, LSTM = "cifar100_cnn", "imdb_lstm"


def everywhere(compute: str) -> Plant:
    """All of the framework's file computes so, the probes of its precision included."""
    return lambda target: target.patch.setitem(target.framework.NUMBERS, "fp32", Numbers(compute))


def in_models(precision: str, above: int = 0) -> Plant:
    """Models of a batch larger than ``above`` compute so; probes do not."""

    def plant(target: Target) -> None:
        def made(init: Any) -> Any:
            def initialised(self: Any, cell: Any, *rest: Any, **keywords: Any) -> None:
                lower = cell.precision == "fp32" and cell.batch > above
                init(self, cell.but(precision=precision) if lower else cell, *rest, **keywords)

            return initialised

        target.wrap(target.framework.Training, "__init__", made)

    return plant


def rounded_weights(target: Target) -> None:
    """Weights are kept in bfloat16."""
    target.wrap(
        target.workload, "build",
        lambda build: lambda spec, numbers, *rest: build(
            spec, Numbers("bfloat16", "bfloat16") if numbers.compute == "float32" else numbers, *rest
        ),
    )  # fmt: skip


def tf32(target: Target) -> None:
    """What convolutions and products take in is rounded to 10 bits of fraction, as a GPU does in TF32."""
    if target.name == "pytorch":
        import torch
        from torch import nn

        def rounded(x: Any) -> Any:
            if x.dtype != torch.float32:
                return x
            bits = (x.detach().view(torch.int32) + 0x1000) & ~0x1FFF
            return x + (bits.view(torch.float32) - x.detach())

        def build(build: Any) -> Any:
            def built(*arguments: Any) -> Any:
                model = build(*arguments)
                for layer in model.modules():
                    if isinstance(layer, (nn.Conv2d, nn.Linear)):
                        layer.register_forward_pre_hook(lambda _, inputs: tuple(map(rounded, inputs)))
                return model

            return built

        target.wrap(target.workload, "build", build)
    else:
        import flax.linen as nn
        import jax
        import jax.numpy as jnp

        def rounded_up(x: Any) -> Any:
            return jax.lax.reduce_precision(x, 8, 10) if x.dtype == jnp.float32 else x

        def dense(*shape: int, **settings: Any) -> Any:
            return lambda x: nn.Dense(*shape, **settings)(rounded_up(x))

        target.overlay("nn", Dense=dense)


KIND = "precision"
MUTANTS = [
    *mutants(KIND, "bf16 everywhere", LSTM, everywhere("bfloat16"), "refused"),
    *mutants(KIND, "fp16 everywhere", LSTM, everywhere("float16"), "refused", of=["tensorflow", "jax"]),
    *mutants(KIND, "bf16 in models", CNN, in_models("bf16"), "fingerprint", "own", of=["pytorch", "tensorflow"]),
    *mutants(KIND, "bf16 above batch 8", LSTM, in_models("bf16", above=8), "own"),
    *mutants(KIND, "bf16 above batch 8", CNN, in_models("bf16", above=8), "own", of=["pytorch", "tensorflow"]),
    *mutants(KIND, "weights kept in bf16", LSTM, rounded_weights, "refused", of=["jax"]),
    *mutants(KIND, "TF32", CNN, tf32, "fingerprint", of=["pytorch"]),
    *mutants(KIND, "TF32 in the last layer", LSTM, tf32, "refused", of=["jax"]),
]
