"""What a record shows of what was computed."""
