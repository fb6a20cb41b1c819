"""What some settings of a cell mean: values, variables, what is refused."""
