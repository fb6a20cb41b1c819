"""How a trained model of JAX serves from Python: its forward pass under `jax.jit`, over the weights as they are.

The usual way by JAX's own documentation ("Just-in-time compilation"). A workload whose answers are not its `logits`, as
those of training with batch statistics, has a function `answers`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suite.worker.frameworks.jax.device import graphs
from workloads.data.dataset import Array
from workloads.defaults.jax import evaluate, logits

Decoding = tuple[jax.Array, tuple[jax.Array, ...], jax.Array]

#: Answers of a window that must be waited for: on a CPU, JAX may compute several at once, in any order.
PENDING = None
#: Whether the framework's peak of memory can be forgotten, so that the next one is inference's own.
FORGETS_PEAKS = False


class Model:
    def __init__(self, training: Any) -> None:
        self.state, self.module, self.model = training.state, training.module, training.model
        module, options = training.module, training.options or None
        usual = evaluate if module.logits is logits else module.logits  # the default is that of training
        answers = partial(getattr(module, "answers", usual), training.model)
        self.forward = jax.jit(answers, compiler_options=options)
        self.prefilled = jax.jit(self._prefill, compiler_options=options)
        self.decoded = jax.jit(self._decode, compiler_options=options, donate_argnums=2)  # a cache is changed in place

    def predict(self, inputs: Any) -> jax.Array:
        return self.forward(self.state.weights, self.state.statistics, inputs)

    def answer(self, inputs: Array) -> Array:
        return np.asarray(self.predict(inputs))

    def prefill(self, inputs: Any) -> Decoding:
        return self.prefilled(self.state.weights, self.state.statistics, inputs)

    def decode(self, state: Decoding) -> tuple[jax.Array, Decoding]:
        return self.decoded(self.state.weights, self.state.statistics, state)

    def _prefill(self, weights: Any, statistics: Any, inputs: jax.Array) -> Decoding:
        return *self.module.prefill(self.model, weights, statistics, inputs), jnp.int32(inputs.shape[1])

    def _decode(self, weights: Any, statistics: Any, state: Decoding) -> tuple[jax.Array, Decoding]:
        logits, caches, at = state
        words = logits.argmax(-1)
        return words, (*self.module.decode(self.model, weights, statistics, words, caches, at), at + 1)

    def fence(self, pending: deque[jax.Array]) -> None:
        jax.block_until_ready([*pending])

    def on_host(self, logits: jax.Array) -> Array:
        return np.asarray(logits)

    def count_compiled(self) -> int:
        return sum(map(graphs, (self.forward, self.prefilled, self.decoded)))

    def keeps_gradient(self, inputs: Array) -> bool:
        """Whether the program gives out more than the logits; what it gives to nobody, XLA leaves out."""
        shapes = jax.eval_shape(self.forward, self.state.weights, self.state.statistics, inputs)
        return len(jax.tree.leaves(shapes)) > 1

    def close(self) -> None:
        self.state = None
