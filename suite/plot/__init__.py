"""Draws one plot of a run: ``training-suite plot RUN KIND``."""
