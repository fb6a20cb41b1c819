"""Measures, and saves the run: ``training-suite run``."""
