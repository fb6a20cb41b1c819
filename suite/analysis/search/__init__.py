"""Searches for the best setting: which cells go on."""
