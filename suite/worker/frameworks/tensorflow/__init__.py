"""TensorFlow: the same file names as its neighbours."""
