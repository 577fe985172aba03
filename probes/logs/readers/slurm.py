"""Reader of a job's own output, which states why Slurm, PBS or LSF ended the job, a step or a task.

Source: SchedMD/slurm, src/slurmd/slurmstepd, src/srun/libsrun/launch.c, task_state.c, src/plugins/cgroup;
openpbs/openpbs, src/resmom; IBM documentation, LSF termination reasons (read 2026-11).
"""

from typing import Any

from probes.logs.event import Event, LogLine
from probes.logs.events.process_events import (
    SlurmBindFailed,
    SlurmKilled,
    SlurmLaunchFailed,
    SlurmMpiFailed,
    SlurmNodeFailure,
    SlurmOom,
    SlurmStepAborted,
    SlurmStepRefused,
    SlurmStepTerminating,
    SlurmSubmitRefused,
    SlurmTaskExit,
    SlurmTaskKilled,
    SlurmTmpdirReplaced,
    SlurmUnreachable,
)
from probes.logs.readers.row_readers import read_rows, row, signs

_STEP = (
    r"(?:StepId=|step ?= ?|step |job )?(?P<step>\d{1,12}(?:_\d{1,9})?(?:\.(?:\d{1,9}|batch|extern|"
    r"interactive))?(?:\+\d{1,5})?)"
)
_TASKS = r"srun: error: (?P<node>[\w.\[\],-]{1,200}): tasks? (?P<tasks>[\d,-]{1,200}): "
_SIGNALS = {
    "Killed": 9,
    "Terminated": 15,
    "Segmentation fault": 11,
    "Bus error": 7,
    "Aborted": 6,
    "Illegal instruction": 4,
    "Floating point exception": 8,
}
"""Signal numbers by the texts of `strsignal` on Linux."""

_REASONS = {
    "TIME LIMIT": "time limit",
    "PREEMPTION": "preemption",
    "NODE FAILURE": "node failure",
    "TASK FAILURE": "task failure",
    "JOB REQUEUE": "requeue",
    "JOB NOT ENDING WITH SIGNALS": "not ending",
    "WALLTIME": "time limit",
    "CPUT": "time limit",
    "MEM": "memory",
    "VMEM": "memory",
    "PMEM": "memory",
}


def _killed(fields: dict[str, Any]) -> SlurmKilled:
    words = fields.pop("words", "").upper()
    reason = next((reason for start, reason in _REASONS.items() if words.startswith(start)), words.lower())
    return SlurmKilled(**fields, reason=reason or "signal")


def _task_killed(fields: dict[str, Any]) -> SlurmTaskKilled:
    return SlurmTaskKilled(**fields, signal=_SIGNALS.get(fields["reason"]))


_ROWS = (
    row(
        SlurmKilled,
        "CANCELLED AT ",
        r"\*\*\* (?P<scope>JOB|STEP) (?:StepId=)?(?P<step>[\d_.+]{1,40}(?:batch|extern|interactive)?)"
        r"(?: STEPD TERMINATED)? ON "
        r"(?P<node>\S{1,120}) CANCELLED AT (?P<at>[\dT:.+-]{1,40})(?: DUE TO (?P<words>[A-Z][A-Z ]{2,60}))?",
        finish=_killed,
    ),
    row(
        SlurmKilled,
        "STEPD TERMINATED ON ",
        r"\*\*\* (?P<scope>JOB|STEP) (?P<step>[\d_.+]{1,40}\w{0,12}) STEPD TERMINATED ON "
        r"(?P<node>\S{1,120}) AT (?P<at>\S{1,40})"
        r"(?: DUE TO (?P<words>[A-Z][A-Z ]{2,60}))?",
        finish=_killed,
    ),
    row(SlurmOom, "oom_kill event", rf"Detected (?P<count>\d{{1,12}}) oom_kill events? in {_STEP}"),
    row(
        SlurmOom,
        "oom-kill event",
        rf"Detected (?P<count>\d{{1,12}}) oom-kill event(?:\(s\))?(?: in {_STEP})?",
    ),
    row(
        SlurmOom,
        "memory limit",
        rf"slurmstepd: error: (?:Exceeded (?:job|step) memory limit(?! at some point)|(?:Step|Job|"
        rf"StepId=) ?{_STEP} exceeded)",
    ),
    row(SlurmOom, "Out Of Memory", rf"{_TASKS}Out Of Memory"),
    row(SlurmNodeFailure, "srun: error: Node failure on ", r"Node failure on (?P<node>\S{1,200})"),
    row(
        SlurmTaskExit, ": Exited with exit code ", rf"{_TASKS}Exited with exit code (?P<exit_code>\d{{1,3}})"
    ),
    row(
        SlurmTaskKilled,
        "srun: error: ",
        rf"{_TASKS}(?P<reason>Killed|Terminated|Segmentation fault|Bus error|Aborted|Illegal instruction|"
        r"Floating point exception|unknown)\b",
        finish=_task_killed,
    ),
    row(SlurmStepAborted, "srun: Job step aborted"),
    row(SlurmStepAborted, "Timed out waiting for job step to complete"),
    row(
        SlurmStepTerminating,
        "srun: ",
        rf"(?:Terminating|forcing job termination|Force Terminated) (?:job step )?{_STEP}",
    ),
    row(
        SlurmLaunchFailed,
        "ask launch for ",
        rf"[Tt]ask launch for {_STEP} failed on node (?P<node>[\w.-]{{1,120}}): (?P<reason>.{{1,120}})",
    ),
    row(
        SlurmLaunchFailed,
        "srun: error: Application launch failed",
        r"Application launch failed: (?P<reason>.{1,120})",
    ),
    row(SlurmUnreachable, "nable to contact slurm", r"(?P<reason>[Uu]nable to contact slurm\w{1,12}.{0,80})"),
    row(
        SlurmUnreachable,
        "error: Unable to confirm allocation",
        r"(?P<reason>Unable to confirm allocation.{0,120})",
    ),
    row(
        SlurmStepRefused,
        "srun: error: Unable to create step",
        r"create step for job \d{1,12}: (?P<reason>.{1,160})",
    ),
    row(
        SlurmSubmitRefused,
        ": error: ",
        r"(?:sbatch|salloc|srun): error: (?:Batch job submission failed|Job submit/allocate failed|"
        r"Unable to allocate resources|"
        r"Failed to allocate resources): (?P<reason>.{1,160})",
    ),
    row(
        SlurmBindFailed,
        "slurmstepd: error: ",
        r"error: (?P<reason>.{0,60}(?:cpu_bind|gpu_bind|mem_bind|--cpu-bind|tres_bind).{0,160})",
    ),
    row(SlurmMpiFailed, "slurmstepd: error: ", r"error: (?P<reason>.{0,40}(?:mpi/pmi|PMI|pmix).{0,160})"),
    row(
        SlurmLaunchFailed,
        "slurmstepd: error: ",
        r"error: (?P<reason>(?:execve\(\)|couldn't chdir(?!.{0,200}going to )).{0,160})",
    ),
    row(SlurmTmpdirReplaced, "slurmstepd: error: ", r"error: Setting TMPDIR to (?P<folder>\S{1,160})"),
    row(
        SlurmKilled,
        "PBS: job killed: ",
        r"PBS: job killed: (?P<words>\w{2,12}).{0,80}exceeded limit",
        finish=_killed,
    ),
    row(SlurmKilled, "TERM_RUNLIMIT", words="TIME LIMIT", finish=_killed),
    row(SlurmKilled, "TERM_MEMLIMIT", words="MEMORY", finish=_killed),
    row(SlurmKilled, "TERM_OWNER", finish=_killed),
    row(SlurmKilled, "TERM_PREEMPT", words="PREEMPTION", finish=_killed),
)
SIGNS: tuple[bytes, ...] = (
    b"slurmstepd: error: ",
    b"srun: error: ",
    b"srun: Job step",
    b"erminating StepId=",
    b"srun: forcing job termination",
    b"srun: Force Terminated",
    b"srun: Terminating ",
    b"srun: launch/slurm",
    b"sbatch: error: ",
    b"salloc: error: ",
    *(
        sign
        for sign in signs(_ROWS)
        if not sign.startswith((b"srun: ", b"slurmstepd: "))
        and sign not in {b"memory limit", b"srun: ", b": error: "}
    ),
)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return read_rows(_ROWS, line)
