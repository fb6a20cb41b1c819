"""Benchmark suite: the same training workloads in PyTorch, TensorFlow and JAX."""

__version__ = "0.1.0"
