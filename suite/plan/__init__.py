"""What is to be measured: cells, matrices, options, how long. Imports nothing else of the suite."""
