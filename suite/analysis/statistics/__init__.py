"""Ratios, tests, verdicts and power."""
