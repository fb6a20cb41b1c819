"""Several devices of one cell."""
