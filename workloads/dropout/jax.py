"""Dropout in JAX behind a switch among a module's variables; flax' own layer asks for its rate while it is traced."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

#: The collection of the switch, and its name there.
COLLECTION, SWITCH = "switches", "dropout"


def switches(dropout: bool) -> dict[str, Any]:
    """The collection of a model, on the device: on where it has dropout, else empty."""
    return {SWITCH: jnp.array(True)} if dropout else {}


def keep_if_off(model: nn.Module, dropped: jax.Array, x: jax.Array) -> jax.Array:
    """What of ``x`` dropout has left, unless the model's variables say that it is off."""
    return jax.lax.select(model.get_variable(COLLECTION, SWITCH, jnp.array(True)), dropped, x)


def turn_off(statistics: dict[str, Any]) -> dict[str, Any]:
    """The same with the switch off, on the same devices, where there is one."""
    if SWITCH not in statistics:
        return statistics
    on = statistics[SWITCH]
    return statistics | {SWITCH: jax.jit(jnp.zeros_like, out_shardings=on.sharding)(on)}
