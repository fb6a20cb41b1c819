"""Finds the release that made a cell slower: a bisection whose steps are sequential tests."""
