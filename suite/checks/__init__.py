"""Measures the suite itself: ``python -m suite.checks plain|loaders|monitor``."""
