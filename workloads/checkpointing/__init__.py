"""Gradient checkpointing of a block of a model: one file per framework, with the same names.

The backward pass computes the activations inside a block again from the block's input, which alone is kept. The second
forward pass of a block must change nothing: it draws the dropout masks of the first, and leaves running statistics as
they are. Then every gradient is equal to the last bit. Importing this package imports no framework.
"""
