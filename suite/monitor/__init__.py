"""Watches a worker from outside: the parent samples GPU and host, never the measured process itself."""
