"""Is a framework held back by the suite? ``python -m suite.plain`` sets its steps against the plainest loops."""
