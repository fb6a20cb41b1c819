"""How records lie in files."""
