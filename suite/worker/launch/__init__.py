"""What a launch does, in order, and how it is timed."""
