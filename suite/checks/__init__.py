"""Measures the suite itself: ``training-suite checks plain|loaders|monitor``."""
