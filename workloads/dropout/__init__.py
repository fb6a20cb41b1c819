"""Dropout that is a part of the state, not of the compiled program: one file per framework that compiles.

So the very program that is timed can take a fingerprint, for which it draws its masks and drops nothing. The masks are
those of the framework's own layer. Importing this package imports no framework.
"""
