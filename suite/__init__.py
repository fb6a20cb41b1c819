"""Benchmark suite: the same training workloads in PyTorch, TensorFlow and JAX.

PYTEST_DONT_REWRITE: its asserts are no tests, though it brings a plugin.
"""

__version__ = "0.1.0"
