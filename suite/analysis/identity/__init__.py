"""Whether launches computed the same, and may be compared."""
