"""What most files of a workload have alike, one file per framework; importing this package imports no framework."""
