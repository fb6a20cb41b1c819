"""A Transformer or decoder that is not the spec's, its dropout and its AdamW."""

from __future__ import annotations

from typing import Any

from tests.studies.mutants.dropout import built_with, never
from tests.studies.mutants.mutant import Plant, Target, mutants
from tests.studies.mutants.optimizers import optimized_with

TRANSFORMER, GPT = "imdb_transformer", "gpt_small"


def padding_attended_to(target: Target) -> None:
    """Padding is a key of the attention, though no part of the mean."""
    if target.name == "pytorch":

        def everywhere(attend: Any) -> Any:
            return lambda self, projected, words: attend(self, projected, words | True)

        target.wrap(target.workload.Block, "attend", everywhere)
    elif target.name == "tensorflow":

        def all_called(call: Any) -> Any:
            def called(self: Any, projected: Any, words: Any) -> Any:
                return call(self, projected, words * 0 + 1)

            return called

        target.wrap(target.workload.Attention, "call", all_called)
    else:

        def whole(attend: Any) -> Any:
            return lambda self, projected, count: attend(self, projected, count * 0 + projected.shape[1])

        target.wrap(target.workload.Transformer, "attend", whole)


def padding_averaged(target: Target) -> None:
    """Padding counts in the attention and in the mean."""

    def everywhere(moved: Any) -> Any:
        def all_words(tokens: Any, positions: int) -> Any:
            chosen, words = moved(tokens, positions)
            return chosen, words | True if target.name == "pytorch" else words * 0 + positions

        return all_words

    target.wrap(target.workload, "move_to_front", everywhere)


def left_padded(target: Target) -> None:
    """Words stay at the end, so that positions count from there."""
    target.patch.setattr(target.workload, "move_to_front", lambda tokens, positions: (tokens, tokens != 0))


def approximated(target: Target) -> None:
    """GELU by the hyperbolic tangent."""
    if target.name == "pytorch":
        import torch.nn.functional as F

        target.overlay("F", gelu=lambda x: F.gelu(x, approximate="tanh"))
    elif target.name == "tensorflow":
        import tensorflow as tf

        target.patch.setattr(target.workload, "gelu", lambda x: tf.nn.gelu(x, approximate=True))
    else:
        import flax.linen as nn

        target.overlay("nn", gelu=lambda x, approximate: nn.gelu(x))


def unscaled(target: Target) -> None:
    """Scores are not divided by the root of the heads' width."""
    import torch.nn.functional as F

    attention = F.scaled_dot_product_attention
    target.overlay("F", scaled_dot_product_attention=lambda *three, **mask: attention(*three, **mask, scale=1.0))


def future_attended_to(target: Target) -> None:
    """Words see those behind them, which they are to predict."""
    if target.name == "pytorch":
        import torch.nn.functional as F

        def attend(*three: Any, is_causal: bool) -> Any:
            del is_causal
            return F.scaled_dot_product_attention(*three)

        target.overlay("F", scaled_dot_product_attention=attend)
    elif target.name == "tensorflow":
        import numpy as np

        target.overlay("np", tri=lambda count, dtype: np.ones((count, count), dtype))
    else:
        import jax.numpy as jnp

        target.overlay("jnp", tri=lambda count, dtype: jnp.ones((count, count), dtype))


def untied(target: Target) -> None:
    """The table of words learns from what is read alone, and not from the logits that it makes."""
    import torch.nn.functional as F

    target.overlay("F", linear=lambda x, table: F.linear(x, table.detach()))


def ends_not_predicted(target: Target) -> None:
    """The loss leaves the ends of texts out, as it would leave out padding."""
    import torch.nn.functional as F

    cross_entropy = F.cross_entropy
    target.overlay("F", cross_entropy=lambda *both, **scored: cross_entropy(*both, **({"ignore_index": 0} | scored)))


def best_five(target: Target) -> None:
    """A word counts as right that is among the five best."""

    def among(scores: Any) -> Any:
        def scored(model: Any, tokens: Any, labels: Any) -> Any:
            losses, _ = scores(model, tokens, labels)
            best = model(tokens).topk(5).indices
            return losses, (best == labels[..., None]).any(2).sum(1) / (labels >= 0).sum(1)

        return scored

    target.wrap(target.workload, "scores", among)


def last_but_one(target: Target) -> None:
    """The answer is that of the last word but one."""
    settings = {"training": False} if target.name == "tensorflow" else {}

    def answers(model: Any, *rest: Any) -> Any:
        logits = target.workload.logits if target.name == "jax" else type(model).__call__
        return logits(model, *rest, **settings)[:, -2]

    target.patch.setattr(target.workload, "answers", answers)


def epsilon_of(value: float) -> Plant:
    """Layer normalisation with another epsilon."""
    return lambda target: target.patch.setattr(target.workload, "EPSILON", value)


def every_tensor_decays(target: Target) -> None:
    """PyTorch's AdamW over all tensors, as it comes."""
    _optimizer(target, "AdamW")


def coupled(target: Target) -> None:
    """The decay as a part of the gradient."""
    _optimizer(target, "Adam")


def _optimizer(target: Target, name: str) -> None:
    import torch

    def made(spec: Any, trained: Any, *_: Any) -> Any:
        chosen = spec.optimizer
        settings = {"betas": (chosen.beta1, chosen.beta2), "eps": chosen.epsilon, "weight_decay": chosen.decay}
        return getattr(torch.optim, name)(trained, lr=chosen.learning_rate, **settings)

    target.patch.setattr(target.framework, "optimizer", made)


def mask_of_optax(target: Target) -> None:
    """optax' AdamW without a mask."""
    import jax

    def every(config: Any, decays: Any, weights: Any) -> Any:
        del decays
        return jax.tree.map(lambda _: config.decay, weights)

    target.patch.setitem(target.framework.optimizer.__globals__, "decays_of", every)


ATTENTION, OPTIMIZER, DROPOUT = "attention", "optimizer", "dropout"
MUTANTS = [
    *mutants(ATTENTION, "padding attended to", TRANSFORMER, padding_attended_to, "fingerprint", "float64"),
    *mutants(
        ATTENTION, "padding averaged", TRANSFORMER, padding_averaged, "fingerprint", "float64", of=["pytorch", "jax"]
    ),
    *mutants(ATTENTION, "words left at the end", TRANSFORMER, left_padded, "fingerprint", "float64", of=["pytorch"]),
    *mutants(ATTENTION, "scores not scaled", TRANSFORMER, unscaled, "float64", of=["pytorch"]),
    *mutants(ATTENTION, "GELU by tanh", TRANSFORMER, approximated, "float64"),
    *mutants(ATTENTION, "epsilon 1e-3, Keras' default", TRANSFORMER, epsilon_of(1e-3), "float64", of=["tensorflow"]),
    *mutants(ATTENTION, "epsilon 1e-6, flax' default", TRANSFORMER, epsilon_of(1e-6), "float64", of=["jax"]),
    *mutants(ATTENTION, "the future attended to", GPT, future_attended_to, "fingerprint", "float64"),
    *mutants(ATTENTION, "the table not tied", GPT, untied, "fingerprint", "float64", of=["pytorch"]),
    *mutants("loss", "ends of texts left out", GPT, ends_not_predicted, "fingerprint", of=["pytorch"]),
    *mutants("evaluation", "among the five best", GPT, best_five, "scored", of=["pytorch"], recipe="modern"),
    *mutants("inference", "the last word but one", GPT, last_but_one, "answered", "inference", serves=True),
    *mutants(OPTIMIZER, "decay missing", TRANSFORMER, optimized_with(decay=0.0), "optimizer"),
    *mutants(OPTIMIZER, "every tensor decays", TRANSFORMER, every_tensor_decays, "optimizer", of=["pytorch"]),
    *mutants(OPTIMIZER, "every tensor decays", TRANSFORMER, mask_of_optax, "optimizer", of=["jax"]),
    *mutants(OPTIMIZER, "decay coupled", TRANSFORMER, coupled, "optimizer", of=["pytorch"]),
    *mutants(DROPOUT, "rate .12 for .1", TRANSFORMER, built_with(dropout=0.12), "dropout"),
    *mutants(DROPOUT, "none in the Transformer", TRANSFORMER, never, "dropout", of=["pytorch"]),
]
