"""Checks a bundle that somebody else made, by numbered rules. Imports no framework, and runs nothing of the bundle."""
