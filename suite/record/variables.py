"""The variables by which the processes of a launch know it and each other. Standard library only."""

#: The environment variable that holds a launch's mark, and the one with the process id of its worker.
PROCESS_TAG, WORKER = "SUITE_LAUNCH", "SUITE_WORKER"

#: Which process this is of how many, and which of those on its host.
RANK, WORLD_SIZE, LOCAL_RANK = "SUITE_RANK", "SUITE_WORLD_SIZE", "SUITE_LOCAL_RANK"

#: ``host:port`` at which rank 0 waits for the others, and a secret that they share.
COORDINATOR, TOKEN = "SUITE_COORDINATOR", "SUITE_TOKEN"

#: The address of this rank's own host as the other hosts reach it, and the network interface that has it, such as eth0.
#: An administrator may set either on a host with several networks; the other follows from it.
ADDRESS, INTERFACE = "SUITE_ADDRESS", "SUITE_INTERFACE"

#: The numbers of the cores that this rank may use, with commas between them; all where it is missing.
CORES = "SUITE_CORES"

#: How many cores all ranks of this host have together.
HOST_CORES = "SUITE_HOST_CORES"
