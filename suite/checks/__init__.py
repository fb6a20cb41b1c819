"""The suite measured by itself: ``python -m suite.checks plain|loaders|monitor``."""
