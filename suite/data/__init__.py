"""Downloads, verifies and lists the data sets: ``training-suite data``."""
