"""Trainings to the end: accuracies, and whether they are equal."""
