"""Runs a stored result again and compares: ``training-suite reproduce RESULT``."""
