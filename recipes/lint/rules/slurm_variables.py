"""Slurm variables that a script reads."""

from __future__ import annotations

import difflib
import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import code_lines

_NAMES = """
ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP CLUSTER_NAME CONF
CPU_BIND CPUS_ON_NODE CPUS_PER_GPU CPUS_PER_TASK DISTRIBUTION EXPORT_ENV GPUS GPU_BIND GPUS_ON_NODE
GPUS_PER_NODE GPUS_PER_TASK GTIDS HET_SIZE HINT JOBID JOB_ID JOB_ACCOUNT JOB_CPUS_PER_NODE JOB_DEPENDENCY
JOB_END_TIME JOB_GID JOB_GPUS JOB_NAME JOB_NODELIST JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION
JOB_RESTART_COUNT JOB_START_TIME JOB_UID JOB_USER LAUNCH_NODE_IPADDR LOCALID MEM_BIND MEM_PER_CPU MEM_PER_GPU
MEM_PER_NODE NNODES NODEID NODELIST NODE_ALIASES NPROCS NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE
NTASKS_PER_SOCKET OVERCOMMIT PRIO_PROCESS PROCID PROFILE RESTART_COUNT SRUN_COMM_HOST SRUN_COMM_PORT
STEP_GPUS STEP_ID STEPID STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_TASKS_PER_NODE SUBMIT_DIR
SUBMIT_HOST TASKS_PER_NODE TASK_PID THREADS_PER_CORE TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN TMPDIR UMASK
WORKING_CLUSTER MPI_TYPE NTASKS_PER_TRES TRES_PER_TASK SHARDS_ON_NODE OOM_KILL_STEP
"""
_SLURM_VARIABLES = frozenset(f"SLURM_{name}" for name in _NAMES.split())
"""Variables that Slurm sets for jobs and tasks.

Source: the manual pages of sbatch and srun, 23.11.
"""
_LIKE = 0.93


@per_document("shell", "sbatch")
def misspelt(document: Document, context: Context) -> Findings:
    """Check for variables that differ slightly from one that Slurm sets."""
    own = {item.name for item in document.settings}
    for index, line in code_lines(document):
        for name in re.findall(r"(?<![\\\w])\$\{?(SLURM_[A-Z_]+)\b(?!:)", line):
            near = (
                difflib.get_close_matches(name, _SLURM_VARIABLES, n=1, cutoff=_LIKE)
                if name not in _SLURM_VARIABLES | own
                else []
            )
            if near:
                yield make_finding(
                    "slurm-variable-misspelt",
                    document,
                    Place(line=index),
                    f"Slurm does not set {name}; did you mean {near[0]}?",
                    fix=f"Write {near[0]}.",
                )
