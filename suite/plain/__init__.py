"""The plainest idiomatic loop of each framework, against which the suite's own training step is timed.

A comparison of frameworks is worth nothing if one of them is held back by the suite. ``python -m suite.plain`` runs
both on the same batches in one process, in turns, and prints the ratio. These loops share no code with the workloads:
they are what somebody would write who has read the framework's own tutorial.
"""
