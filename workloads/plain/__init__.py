"""The two networks of the study once more, in each framework's stock layers and its plainest idiomatic loop.

A comparison of frameworks is worth nothing if the suite slows one of them down. ``python -m suite.checks plain``
times these against the suite's own training steps. They share no code with the other workloads: a reader of the
framework's own tutorial would write them like this.
"""
