"""What limits a row, and why one is slower than another."""
