"""Records in, findings out: knows no page."""
