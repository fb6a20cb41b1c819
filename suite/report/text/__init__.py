"""Findings as sentences."""
