"""Makes a bundle of a run: one file for others, with nothing personal in it. Imports no framework."""
