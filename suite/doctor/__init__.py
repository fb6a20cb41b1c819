"""What this machine can measure, and how to mend what it cannot: ``python -m suite.doctor``."""
