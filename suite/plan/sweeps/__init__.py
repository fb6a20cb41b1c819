"""Cells from lists of values, of the command line or of a file."""
