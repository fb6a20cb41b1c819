"""What several devices gain."""
