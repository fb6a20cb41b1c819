"""Real data: where it comes from, and how it is fetched and read."""
