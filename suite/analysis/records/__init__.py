"""Saved runs and journals become records in memory."""
