"""Which rank a process is, by the variables of what started it: the suite's own, SLURM's, or Kubernetes'.

Sources: srun(1), section "output environment variables"; Kubernetes' documentation of indexed jobs
(``JOB_COMPLETION_INDEX``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from suite.record.rank_variables import LOCAL_RANK, RANK, WORLD_SIZE

#: The variables that say which process this is, of how many, and which on its host, by what starts processes. An indexed
#: job has one process in a pod and does not say how many pods there are.
STARTERS = {
    "suite": (RANK, WORLD_SIZE, LOCAL_RANK),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "kubernetes": ("JOB_COMPLETION_INDEX", "", ""),
}


def rank_variables(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The neutral variables of this process's rank, as far as its starter tells them; none if nothing started it so.

    A batch script has SLURM's variables too, those of its own single task; it is no rank.
    """
    for starter, theirs in STARTERS.items():
        if theirs[0] in variables and not (starter == "slurm" and "SLURM_STEP_ID" not in variables):
            pairs = zip((RANK, WORLD_SIZE, LOCAL_RANK), theirs, strict=True)
            return {name: variables[other] for name, other in pairs if other in variables}
    return {}
