"""Tests of hypotheses, by what they are about. Each gets a `suite.prove.case.Case` and returns words, or nothing."""
