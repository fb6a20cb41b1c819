"""Where records are sent: a file per target, with the same functions in the same order, found by its ``ABOUT``."""
