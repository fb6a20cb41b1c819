"""The variables by which the processes of a launch know it, and by which they are known. Standard library only."""

#: The environment variable that holds a launch's mark, and the one with the process id of its worker.
PROCESS_TAG, WORKER = "SUITE_LAUNCH", "SUITE_WORKER"
