"""Is a port the same model? In float64, and where two frameworks differ, where first and why."""
