"""The parts of a record."""
