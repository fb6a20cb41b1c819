"""What `suite.compare` prints."""
