"""Turns records into findings; knows nothing of tables or pages."""
