"""Runs a stored result again and compares: ``python -m suite.reproduce RESULT``."""
