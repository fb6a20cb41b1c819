"""JAX: the same file names as its neighbours."""
