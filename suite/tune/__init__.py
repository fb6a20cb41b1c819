"""The command that searches for the best setting with few launches."""
