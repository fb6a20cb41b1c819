"""What exists, each declared once."""
