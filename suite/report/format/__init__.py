"""Names, numbers, and a table on a terminal; knows no findings."""
