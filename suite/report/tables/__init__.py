"""Findings as frames with columns."""
