"""Findings in; text, pictures and pages out: knows no process."""
