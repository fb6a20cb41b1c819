"""One file for each kind of plot."""
