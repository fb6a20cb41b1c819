"""The report's page, the index and the site."""
