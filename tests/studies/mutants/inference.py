"""What serves after training is not the trained model in evaluation mode, or answers another request."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tests.studies.mutants.mutant import Target, mutants

KIND = "inference"
CNN, LSTM, GPT = "cifar100_cnn", "imdb_lstm", "gpt_small"


def model_of(target: Target) -> Any:
    """The class that serves."""
    return import_module(f"suite.worker.frameworks.{target.name}.inference").Model


def other_function(target: Target, make: Any) -> None:
    """Serve by another function of the ``Model`` and of the training that it is made of."""

    def initialised(init: Any) -> Any:
        def made(self: Any, training: Any) -> None:
            init(self, training)
            self.forward = make(self, training)

        return made

    target.wrap(model_of(target), "__init__", initialised)


def dropping(target: Target) -> None:
    """Dropout is left on."""
    if target.name == "pytorch":
        other_function(target, lambda model, _: model.model.train())
    elif target.name == "tensorflow":
        import tensorflow as tf

        def in_training(model: Any, training: Any) -> Any:
            return tf.function(lambda inputs: training.model(inputs, training=True), autograph=False)

        other_function(target, in_training)
    else:
        import jax

        from workloads.defaults.jax import COLLECTION

        def drawn(model: Any, training: Any) -> Any:
            def logits(weights: Any, statistics: Any, inputs: Any) -> Any:
                variables = {"params": weights, COLLECTION: statistics}
                return training.model.apply(variables, inputs, rngs={"dropout": jax.random.key(3)})

            return jax.jit(logits)

        other_function(target, drawn)


def keeping(target: Target) -> None:
    """The pass keeps what a gradient needs, or computes one."""
    model = model_of(target)
    if target.name == "pytorch":

        def detached(answer: Any) -> Any:
            def answered(self: Any, inputs: Any) -> Any:
                import torch

                self.last = self.predict(torch.from_numpy(inputs))
                return self.last.detach().numpy()

            return answered

        target.wrap(model, "predict", lambda predict: predict.__wrapped__)
        target.wrap(model, "on_host", lambda on_host: lambda self, logits: on_host(self, logits.detach()))
        target.wrap(model, "answer", detached)
    elif target.name == "tensorflow":
        import tensorflow as tf

        def taped(_: Any, training: Any) -> Any:
            def pass_with_gradient(inputs: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    logits = training.model(inputs, training=False)
                tape.gradient(logits, training.model.trainable_variables)
                return logits

            return tf.function(pass_with_gradient, autograph=False)

        other_function(target, taped)
    else:
        import jax

        def both(_: Any, training: Any) -> Any:
            def logits(weights: Any, statistics: Any, inputs: Any) -> Any:
                found = training.module.logits(training.model, weights, statistics, inputs)
                return found.sum(), found

            return jax.jit(jax.grad(logits, has_aux=True))

        other_function(target, both)
        target.wrap(model, "predict", lambda predict: lambda self, inputs: predict(self, inputs)[1])


def late(target: Target) -> None:
    """Each request gets the answer of the one before it."""

    def one_behind(answer: Any) -> Any:
        def answered(self: Any, inputs: Any) -> Any:
            logits = answer(self, inputs)
            before, self.held = getattr(self, "held", logits), logits
            return before

        return answered

    target.wrap(model_of(target), "answer", one_behind)


def cache_one_behind(target: Target) -> None:
    """The first word that is written takes the place of the prompt's last."""

    def shifted(prefill: Any) -> Any:
        def filled(self: Any, inputs: Any) -> Any:
            logits, caches, at = prefill(self, inputs)
            return logits, caches, at - 1

        return filled

    target.wrap(model_of(target), "prefill", shifted)


def places_without_words(target: Target) -> None:
    """A word attends to the places of the cache that no word has filled yet."""
    if target.name == "pytorch":
        import torch
        import torch.nn.functional as F

        def whole(decode: Any) -> Any:
            """All places, as in a compiled program, and not the filled ones alone."""
            return lambda model, words, caches, at: decode(model, words, caches, torch.full((1,), at))

        def unmasked(query: Any, key: Any, value: Any, before: Any, is_causal: bool) -> Any:
            return F.scaled_dot_product_attention(query, key, value, None, is_causal=is_causal)

        target.wrap(target.workload, "decode", whole)
        target.overlay("F", scaled_dot_product_attention=unmasked)
        return

    def everywhere(attention: Any) -> Any:
        def attended(query: Any, key: Any, value: Any, before: Any, *others: Any) -> Any:
            return attention(query, key, value, (before | True) if len(before.shape) == 1 else before, *others)

        return attended

    target.wrap(target.workload, "plain_attention", everywhere)


MUTANTS = [
    *mutants(KIND, "dropout left on", CNN, dropping, "answered", "inference", serves=True),
    *mutants(KIND, "a gradient kept", LSTM, keeping, "answered", serves=True),
    *mutants(KIND, "the answer of the previous request", LSTM, late, "answered", serves=True),
    *mutants(KIND, "the cache off by one", GPT, cache_one_behind, "answered", serves=True),
    *mutants(KIND, "places without words attended to", GPT, places_without_words, "answered", serves=True),
]
