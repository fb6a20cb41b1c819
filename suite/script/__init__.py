"""The command that measures a reader's own training script."""
