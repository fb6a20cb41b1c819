"""A probe that has the device to itself: precisions and peaks, and fences."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from suite.catalog.precisions import Band
from suite.plan.cell import PRECISIONS, Cell
from suite.worker.frameworks import UnsupportedError
from suite.worker.launch import probe
from tests.cuda.probing import Request, Stepper, answer_all

#: Rounds of a chain of kernels, and how long the shorter chain lasts at least.
CHAINS, CHAIN_S = 5, 0.1
#: Of the matrices in a chain: so large on a GPU that few of them fill it, since JAX queues only some.
SIDE = {"cpu": 512, "cuda": 8192}


def installation(request: Request) -> Any:
    """Versions and devices, as the framework sees them."""
    return request.code.installation()


def precision(request: Request, name: str) -> dict[str, Any]:
    """Errors without their bands, so that one outside of its band is told as well; denormals; the peak."""
    cell = Cell("cifar100_cnn", request.framework, name)
    request.prepare(cell)
    probe.BANDS = dict.fromkeys(PRECISIONS, Band(0.0, math.inf))
    return {
        "errors": probe.precision_errors(cell, request.code, request.device),
        "denormals": probe.denormals(cell, request.code, request.device),
        "peak_flops_per_s": probe.peak_flops_per_s(cell, request.code, request.device),
    }


def fence(request: Request) -> dict[str, Any]:
    """Seconds until a chain of kernels is queued, until the fence lets go, and until its result is then read.

    Of a chain and of one twice as long, in turns; and the same of training steps.
    """
    queue, device_s = CHAIN[request.framework](request)
    stepper = Stepper(request, _cnn(request))
    training = stepper.training

    def one(run: Callable[[], Any]) -> dict[str, float]:
        began = time.perf_counter()
        pending = run()
        queued = time.perf_counter()
        training.fence(pending)
        fenced = time.perf_counter()
        training.read([pending])
        return {"queued_s": queued - began, "fenced_s": fenced - began, "read_s": time.perf_counter() - fenced}

    def steps() -> Any:
        for _ in range(stepper.steps):
            loss = training.step(stepper.batch)
        return loss

    length = 1
    one(partial(queue, length))  # compiles
    while (taken := one(partial(queue, length))["fenced_s"]) < CHAIN_S:
        length = max(length + 1, min(100 * length, round(1.2 * CHAIN_S / taken * length)))
    chains: list[dict[str, Any]] = []
    for number in range(2 * CHAINS):
        times = 1 + number % 2
        found = one(partial(queue, times * length))
        chains.append({"times": times, **found, "device_s": device_s() if device_s else None})
    return {"length": length, "chains": chains, "steps": stepper.steps, "rounds": [one(steps) for _ in range(CHAINS)]}


Chain = tuple[Callable[[int], Any], Callable[[], float] | None]


def _pytorch_chain(request: Request) -> Chain:
    """One kernel that spins for so many cycles; two events on its stream say how long the device took for it."""
    import torch

    if request.device == "cpu":
        raise UnsupportedError("PyTorch has computed on a CPU when a call returns; there is nothing to wait for")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    one = torch.ones((), device=request.device)

    def queue(length: int) -> torch.Tensor:
        begin.record()
        torch.cuda._sleep(length)
        end.record()
        return one * 2

    return queue, lambda: begin.elapsed_time(end) / 1e3


def _jax_chain(request: Request) -> Chain:
    """Products one after the other: a loop on the device may have the host wait for each of its turns."""
    import jax
    import jax.numpy as jnp

    side = SIDE[request.device]
    matrix = jnp.full((side, side), 1 / side, jnp.float32)
    multiply, total = jax.jit(jnp.matmul), jax.jit(jnp.sum)

    def queue(length: int) -> jax.Array:
        x = matrix
        for _ in range(length):
            x = multiply(x, matrix)
        return total(x)

    return queue, None


def _tensorflow_chain(request: Request) -> Chain:
    """As in JAX."""
    import tensorflow as tf

    side, place = SIDE[request.device], "/GPU:0" if request.device == "cuda" else "/CPU:0"
    with tf.device(place):
        matrix = tf.fill((side, side), 1 / side)

    def queue(length: int) -> tf.Tensor:
        with tf.device(place):
            x = matrix
            for _ in range(length):
                x = tf.matmul(x, matrix)
            return tf.reduce_sum(x)

    return queue, None


CHAIN: dict[str, Callable[[Request], Chain]] = {
    "pytorch": _pytorch_chain,
    "tensorflow": _tensorflow_chain,
    "jax": _jax_chain,
}


def _cnn(request: Request) -> Cell:
    return Cell("cifar100_cnn", request.framework, batch=request.rest["batch"], size=request.rest["size"])


CHECKS: dict[str, Callable[[Request], Any]] = {
    "installation": installation,
    **{f"precision-{name}": partial(precision, name=name) for name in PRECISIONS},
    "fence": fence,
}

if __name__ == "__main__":
    answer_all(Request.read(), CHECKS)
