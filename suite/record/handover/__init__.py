"""What the processes of a launch hand to each other."""
