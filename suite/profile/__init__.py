"""Profiles one cell and shows where the time of its step goes. Imports no framework."""
