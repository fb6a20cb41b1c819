"""Which launches form a row, which rows share a table, and under which conditions they ran."""
