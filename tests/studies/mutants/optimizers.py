"""Optimizers that are not the spec's, and losses that are not its mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.studies.mutants.mutant import Overlay, Plant, Target, mutants

CNN, LSTM = "cifar100_cnn", "imdb_lstm"


def optimized_with(factor: float = 1.0, **changes: float) -> Plant:
    """The optimizer is made from a spec with these changes, at ``factor`` times its learning rate."""

    def changed(make: Any) -> Any:
        def made(spec: Any, *rest: Any) -> Any:
            chosen = spec.optimizer
            rate = chosen.learning_rate * factor
            return make(replace(spec, optimizer=replace(chosen, learning_rate=rate, **changes)), *rest)

        return made

    return lambda target: target.wrap(target.framework, "optimizer", changed)


def keras_own(name: str, **settings: Any) -> Plant:
    """One of Keras' optimizers; settings that are words name fields of the spec."""

    def plant(target: Target) -> None:
        import keras

        def made(spec: Any, *_: Any) -> Any:
            chosen = spec.optimizer
            given = {k: getattr(chosen, v) if isinstance(v, str) else v for k, v in settings.items()}
            return getattr(keras.optimizers, name)(learning_rate=chosen.learning_rate, **given)

        target.patch.setattr(target.framework, "optimizer", made)

    return plant


def torch_own(name: str, **settings: Any) -> Plant:
    """One of PyTorch's optimizers; settings that are words name fields of the spec."""

    def plant(target: Target) -> None:
        import torch

        def made(spec: Any, trained: Any, *_: Any) -> Any:
            chosen = spec.optimizer
            given = {k: getattr(chosen, v) if isinstance(v, str) else v for k, v in settings.items()}
            if "Adam" in name:
                given |= {"betas": (chosen.beta1, chosen.beta2), "eps": chosen.epsilon}
            return getattr(torch.optim, name)(trained, lr=chosen.learning_rate, **given)

        target.patch.setattr(target.framework, "optimizer", made)

    return plant


def optax_own(make: Any) -> Plant:
    """What ``make`` makes of optax and the spec's optimizer."""

    def plant(target: Target) -> None:
        import optax

        target.patch.setattr(target.framework, "optimizer", lambda spec, *_: make(optax, spec.optimizer))

    return plant


def kernels_only(target: Target) -> None:
    """L2 on kernels, and on no bias."""
    import torch

    def made(spec: Any, trained: Any, *_: Any) -> Any:
        chosen = spec.optimizer
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": chosen.l2},
            {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0},
        ]
        return torch.optim.SGD(groups, lr=chosen.learning_rate, momentum=chosen.momentum)

    target.patch.setattr(target.framework, "optimizer", made)


def both_biases(target: Target) -> None:
    """PyTorch's LSTM trains both of its biases, which moves their sum twice as fast."""

    def opened(import_weights: Any) -> Any:
        def imported(model: Any, weights: Any) -> None:
            import_weights(model, weights)
            model.lstm.bias_hh_l0.requires_grad_(True)

        return imported

    target.wrap(target.workload, "import_weights", opened)


def loss_times(factor: float) -> Plant:
    """The loss, as it is differentiated and shown, times a factor."""

    def plant(target: Target) -> None:
        def scaled(loss: Any) -> Any:
            def multiplied(*arguments: Any) -> Any:
                found = loss(*arguments)
                return (found[0] * factor, found[1]) if target.name == "jax" else found * factor

            return multiplied

        target.wrap(target.workload, "loss", scaled)

    return plant


def summed_loss(target: Target) -> None:
    """The loss is the sum over the batch."""
    by_framework = {"pytorch": 2, "tensorflow": 2, "jax": 5}

    def scaled(loss: Any) -> Any:
        def multiplied(*arguments: Any) -> Any:
            found, size = loss(*arguments), arguments[by_framework[target.name]].shape[0]
            return (found[0] * size, found[1]) if target.name == "jax" else found * size

        return multiplied

    target.wrap(target.workload, "loss", scaled)


def smoothed(target: Target) -> None:
    """Labels smoothed by a tenth."""
    if target.name == "pytorch":
        import torch.nn.functional as F

        target.overlay("F", cross_entropy=lambda x, y, **k: F.cross_entropy(x, y, label_smoothing=0.1, **k))
    elif target.name == "jax":
        import jax.numpy as jnp
        import optax

        def cross_entropy(logits: Any, labels: Any) -> Any:
            hard = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return 0.9 * hard - 0.1 * (logits - jnp.log(jnp.exp(logits).sum(1, keepdims=True))).mean(1)

        target.overlay("optax", softmax_cross_entropy_with_integer_labels=cross_entropy)
    else:
        import tensorflow as tf

        def softened(labels: Any, logits: Any) -> Any:
            hard = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            return 0.9 * hard - 0.1 * tf.reduce_mean(tf.nn.log_softmax(logits), 1)

        target.overlay("tf", nn=Overlay(tf.nn, sparse_softmax_cross_entropy_with_logits=softened))


OPTIMIZER, LOSS = "optimizer", "loss"
MUTANTS = [
    *mutants(OPTIMIZER, "momentum .45 for .5", CNN, optimized_with(momentum=0.45), "own", "optimizer"),
    *mutants(OPTIMIZER, "learning rate 1 % higher", LSTM, optimized_with(1.01), "own", "optimizer"),
    *mutants(OPTIMIZER, "L2 missing", CNN, optimized_with(l2=0.0), "optimizer", of=["pytorch", "tensorflow"]),
    *mutants(OPTIMIZER, "L2 on kernels alone", CNN, kernels_only, "optimizer", of=["pytorch"]),
    *mutants(
        OPTIMIZER,
        "weight decay decoupled",
        CNN,
        keras_own("SGD", momentum="momentum", weight_decay="l2"),
        "optimizer",
        of=["tensorflow"],
    ),
    *mutants(
        OPTIMIZER,
        "weight decay decoupled",
        CNN,
        optax_own(
            lambda optax, s: optax.chain(optax.sgd(s.learning_rate, s.momentum), optax.add_decayed_weights(-s.l2))
        ),
        "optimizer",
        of=["jax"],
    ),
    *mutants(
        OPTIMIZER,
        "Nesterov",
        CNN,
        torch_own("SGD", momentum="momentum", weight_decay="l2", nesterov=True),
        "own",
        "optimizer",
        of=["pytorch"],
    ),
    *mutants(
        OPTIMIZER,
        "Nesterov",
        CNN,
        keras_own("SGD", momentum="momentum", nesterov=True),
        "own",
        "optimizer",
        of=["tensorflow"],
    ),
    *mutants(
        OPTIMIZER,
        "damped momentum",
        CNN,
        torch_own("SGD", momentum="momentum", weight_decay="l2", dampening=0.5),
        "own",
        "optimizer",
        of=["pytorch"],
    ),
    *mutants(
        OPTIMIZER,
        "epsilon before the bias correction",
        LSTM,
        keras_own("Adam", beta_1="beta1", beta_2="beta2", epsilon="epsilon"),
        "optimizer",
        of=["tensorflow"],
    ),
    *mutants(
        OPTIMIZER,
        "epsilon under the root",
        LSTM,
        optax_own(lambda optax, s: optax.adam(s.learning_rate, s.beta1, s.beta2, eps=0.0, eps_root=s.epsilon**2)),
        "optimizer",
        of=["jax"],
    ),
    *mutants(OPTIMIZER, "epsilon 1e-7", LSTM, optimized_with(epsilon=1e-7), "optimizer", of=["pytorch"]),
    *mutants(OPTIMIZER, "beta2 .99", LSTM, optimized_with(beta2=0.99), "optimizer", of=["pytorch", "tensorflow"]),
    *mutants(
        OPTIMIZER, "decoupled decay of 1 %", LSTM, torch_own("AdamW", weight_decay=0.01), "optimizer", of=["pytorch"]
    ),
    *mutants(OPTIMIZER, "AMSGrad", LSTM, torch_own("Adam", amsgrad=True), "optimizer", of=["pytorch"]),
    *mutants(
        OPTIMIZER,
        "gradients clipped to a norm of 1",
        LSTM,
        optax_own(
            lambda optax, s: optax.chain(
                optax.clip_by_global_norm(1.0), optax.adam(s.learning_rate, s.beta1, s.beta2, s.epsilon)
            )
        ),
        of=["jax"],
        survives="in the steps that are compared no gradient is as long as 1, so that nothing is clipped",
    ),
    *mutants(OPTIMIZER, "both of the LSTM's biases trained", LSTM, both_biases, "own", "float64", of=["pytorch"]),
    *mutants(LOSS, "summed over the batch", CNN, summed_loss, "fingerprint", of=["pytorch", "tensorflow"]),
    *mutants(LOSS, "summed over the batch", LSTM, summed_loss, "fingerprint", of=["jax"]),
    *mutants(LOSS, "averaged over two logits", LSTM, loss_times(0.5), "fingerprint", of=["tensorflow"]),
    *mutants(LOSS, "labels smoothed", CNN, smoothed, "fingerprint", of=["pytorch", "tensorflow"]),
]
