"""Compares the cells of recorded runs, and says how far the figures can be trusted. Imports no framework."""
