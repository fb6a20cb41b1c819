"""Findings in the documented form for programs."""
