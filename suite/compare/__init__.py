"""Read runs, set their cells side by side, and say how far the figures can be trusted. Imports no framework."""
