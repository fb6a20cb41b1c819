"""Some networks once more, in each framework's stock layers and its plainest idiomatic loop.

A comparison of frameworks is worth nothing if the suite slows one of them down. ``training-suite checks plain``
times these against the suite's own steps, passes and decoding. They share no code with the other workloads: a reader of
the framework's own tutorial would write them like this.
"""

NETWORKS = ("cifar100_cnn", "imdb_lstm", "imdb_transformer", "gpt_small")
