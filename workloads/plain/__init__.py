"""The two networks of the study once more, in each framework's stock layers and its plainest idiomatic loop.

A comparison of frameworks is worth nothing if one of them is held back by the suite. ``python -m suite.checks plain``
times these against the suite's own training steps. They share no code with the other workloads: they are what somebody
would write who has read the framework's own tutorial.
"""
