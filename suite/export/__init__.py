"""Sends records to the trackers that teams already watch. Imports no tracker before one is asked for."""
