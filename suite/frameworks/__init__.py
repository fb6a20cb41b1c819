"""One file per framework, with the same names in the same order, so that they can be read side by side.

Each has `DISTRIBUTIONS`, `prepare`, `Training`, `memory` and `out_of_memory`. Importing this package imports none.
"""

from __future__ import annotations

#: Environment variables that must be set before the framework is imported.
VARIABLES: dict[str, dict[str, str]] = {
    "pytorch": {},
    # Keras reads its backend at import, whatever a settings file in the home folder says.
    "tensorflow": {"KERAS_BACKEND": "tensorflow"},
    # A preallocating client would hide what a model really needs.
    "jax": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}

#: What to install for a framework: the extra's name without its `-cpu` or `-cuda`, which is the framework's own.
MODULES = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}


class UnsupportedError(RuntimeError):
    """A setting that this framework does not have on this device; the launch is skipped with the reason."""
