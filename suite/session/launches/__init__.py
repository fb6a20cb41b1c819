"""One launch: its process, its messages, its deadline, and its cleanup."""
