"""What launches scatter by: cells and blocks, outliers, and the noise of a table."""
