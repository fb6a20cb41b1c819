"""Formulas of what a model has, by where two sides differ. Each gets a `suite.prove.layers.Case`."""
