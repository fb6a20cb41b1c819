"""Checks what this machine can measure, and says how to fix what it cannot: ``training-suite doctor``."""
