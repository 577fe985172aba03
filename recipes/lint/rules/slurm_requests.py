"""Requests and variables in batch scripts that Slurm refuses, or understands in another way than intended."""

import difflib
import posixpath
import re

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Directive, Document, Place, lines_of
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    closest,
    code_lines,
    commands,
    directive,
    directive_place,
    first_line,
    gpus_per_node,
    number,
    slurm_requests,
)


@per_document("sbatch")
def directives(document: Document, context: Context) -> Findings:
    """Check for requests that Slurm ignores or does not expand."""
    lines = lines_of(document.text)
    # requests after the first here-document may belong to a script that this script writes
    first_here_document = next(
        (index for index, line in enumerate(lines, 1) if re.search(r"<<-?\s*[\"']?\w+", line)),
        len(lines) + 1,
    )
    # requests that this script writes into another script are not judged
    requests = [item for item in slurm_requests(document) if item.place.line <= first_here_document]
    yield from _late(document, [item for item in requests if not item.is_read])
    for item in requests:
        if not item.is_read:
            continue
        if re.search(r"\$[A-Za-z_{(]", item.value):
            yield make_finding(
                "slurm-directive-variable",
                document,
                item.place,
                f"#SBATCH --{item.name}={item.value}: Slurm does not expand variables here",
                fix="Write the value, use %j and %x, or pass the option to sbatch.",
                severity=None if item.name in _TEXTS else "error",
            )
        elif item.value.startswith("~") and item.name in ("output", "error", "input", "chdir"):
            yield make_finding(
                "slurm-directive-variable",
                document,
                item.place,
                f"#SBATCH --{item.name}={item.value}: Slurm does not expand ~ here",
                fix="Write the whole path.",
            )
    yield from _misspelt(document)
    at = _request(document, r"#SBATCH\s+--[\w-]+\s+=|#SBATCH\s+--[\w-]+=\s+\S")
    if at is not None:
        yield make_finding(
            "slurm-directive-blanks",
            document,
            at,
            "there are blanks around = in a request",
            fix="Write --name=value.",
        )


_TEXTS = frozenset({
    "output", "error", "input", "chdir", "workdir", "job-name", "comment", "mail-user", "export", "wckey",
    "o", "e", "i", "D", "J",
})  # fmt: skip
"""Options that accept any text, so that sbatch accepts a variable as it is written."""


def _late(document: Document, late: list[Directive]) -> Findings:
    if not late:
        return
    names = ", ".join(dict.fromkeys(f"--{item.name}" for item in late))
    is_several = len(late) > 1
    yield make_finding(
        "slurm-directive-late",
        document,
        late[0].place,
        f"#SBATCH {names} {'come' if is_several else 'comes'} after the first command, so Slurm ignores "
        f"{'them' if is_several else 'it'}",
        fix=f"Move {'them' if is_several else 'it'} above the first command.",
    )


_BLANK_DIRECTIVE = re.compile(r"#[ \t]+SBATCH[ \t]+--?([A-Za-z][\w-]*)")
_NEAR_LINES = 2


def _misspelt(document: Document) -> Findings:
    """Check for `#SBTACH`, `#sbatch` and `# SBATCH`, which Slurm treats as comments."""
    if not any(slurm_requests(document)):
        return
    lines = {item.place.line for item in slurm_requests(document) if item.is_read}
    names = {item.name for item in slurm_requests(document)}
    for index, line in enumerate(document.lines, 1):
        blank = _BLANK_DIRECTIVE.match(line)
        is_near = any(abs(index - other) <= _NEAR_LINES for other in lines)
        if blank is not None and is_near and blank[1] not in names:
            yield make_finding(
                "slurm-directive-misspelt",
                document,
                Place(line=index),
                f"# SBATCH --{blank[1]} is a comment: Slurm reads only lines that begin with #SBATCH",
                fix="Write #SBATCH, or ##SBATCH for a request that is turned off.",
                severity="warning",
            )
            continue
        match = re.match(r"(?:!#|#)([A-Za-z]{5,7})\s+(--?[A-Za-z][\w-]*)", line)
        if match is None or line.startswith("#SBATCH"):
            continue
        if match[1][0] not in "Ss" and match[1] != "BATCH":
            continue  # a directive of another scheduler
        if (
            sorted(match[1].upper()) == sorted("SBATCH")
            or difflib.SequenceMatcher(None, match[1], "SBATCH").ratio() > 0.8
        ):
            yield make_finding(
                "slurm-directive-misspelt",
                document,
                Place(line=index),
                f"{line.split()[0]} {match[2]} is a comment: Slurm reads only lines that begin with #SBATCH",
                fix="Write #SBATCH.",
            )


@per_document("sbatch")
def folders(document: Document, context: Context) -> Findings:
    """Check for output in a folder that the script creates only after Slurm has opened the file."""
    made = {
        posixpath.normpath(word.text)
        for command in commands(document, "mkdir")
        for word in command.arguments
        if word.is_literal and not word.text.startswith("-")
    }
    for item in slurm_requests(document):
        folder = posixpath.dirname(item.value)
        is_output = item.is_read and item.name in ("output", "error", "o", "e")
        if is_output and folder and "%" not in folder and posixpath.normpath(folder) in made:
            yield make_finding(
                "slurm-output-folder",
                document,
                item.place,
                f"Slurm opens {item.value} before the script creates {folder}: if the folder does not exist, "
                "the job ends at once and leaves no output",
                fix=f"Create {folder} before sbatch.",
            )
            return


_TIME = re.compile(r"\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}")
_TEMPLATE = ("{{", "{%", "<%")


@per_document("sbatch")
def shapes(document: Document, context: Context) -> Findings:
    """Check for scripts and values that sbatch refuses."""
    asked = [line for line in document.lines if line.startswith("#SBATCH")]
    if (
        asked
        and not document.text.startswith("#!")
        and not any(mark in document.text for mark in (*_TEMPLATE, "<<"))
    ):
        yield make_finding(
            "slurm-no-shebang",
            document,
            Place(line=1),
            "the first line is not #!, so sbatch refuses the script",
            fix="Begin the file with #!/bin/bash.",
        )
    if not asked:
        return
    for item in slurm_requests(document):
        if (
            item.name in ("time", "time-min")
            and re.fullmatch(r"[\d:-]+", item.value)
            and not _TIME.fullmatch(item.value)
        ):
            yield make_finding(
                "slurm-time",
                document,
                item.place,
                f"Slurm does not accept --{item.name}={item.value} as a time",
                fix="Write minutes, hours:minutes:seconds, or days-hours:minutes:seconds.",
            )
    yield from _gpus(document)


def _gpus(document: Document) -> Findings:
    total = number((directive(document, "gpus") or "").rpartition(":")[2])
    nodes = number(directive(document, "nodes"))
    each = number((directive(document, "gpus-per-node") or "").rpartition(":")[2])
    task = number((directive(document, "gpus-per-task") or "").rpartition(":")[2])
    tasks = number(directive(document, "ntasks")) or (nodes or 0) * (
        number(directive(document, "ntasks-per-node")) or 0
    )
    if total is None:
        return
    if nodes and each and total != nodes * each:
        requested = f"{plural(nodes, 'node')} of {plural(each, 'GPU')}"
    elif task and tasks and total != tasks * task:
        requested = f"{plural(tasks, 'task')} of {plural(task, 'GPU')}"
    else:
        return
    yield make_finding(
        "slurm-gpus-differ",
        document,
        directive_place(document, "gpus"),
        f"--gpus={total} counts the GPUs of the whole job, but the script requests {requested}",
        fix="Remove --gpus.",
    )


def _request(document: Document, expression: str) -> Place | None:
    """Return the place of the first line that matches.

    Comments are included, because requests are comments.
    """
    for index, line in enumerate(lines_of(document.text), 1):
        if re.match(expression, line):
            return Place(line=index)
    return None


@per_document()
def threads_per_core(document: Document, context: Context) -> Findings:
    """Check for two hardware threads per core on AWS machines with A100."""
    if not re.search(r"\bp4de?(?:\.24xlarge)?\b", document.text):
        return
    setting = first_line(
        document, r"DisableSimultaneousMultithreading:\s*false|hint=multithread|threads-per-core[= ]2"
    )
    place = _request(document, r"#SBATCH\s+--(?:hint=multithread|threads-per-core=2)")
    place = place or (setting[0] if setting is not None else None)
    if place is not None:
        yield make_finding(
            "hyper-threads-on-p4",
            document,
            place,
            "on p4d, two hardware threads of one core compete for the work of the network",
            fix="Use one thread of each core: --hint=nomultithread, or turn simultaneous multithreading off.",
        )


_OPTIONS = frozenset({
    "account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint",
    "clusters", "comment", "constraint", "consolidate-segments", "container", "container-id", "contiguous",
    "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot",
    "dependency", "distribution", "error", "exclude", "exclusive", "export", "export-file", "extra",
    "extra-node-info", "get-user-env", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node",
    "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "help", "hint", "hold", "ignore-pbs", "input",
    "job-name", "kill-on-invalid-dep", "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind",
    "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice", "no-kill", "no-requeue", "nodefile",
    "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
    "ntasks-per-socket", "open-mode", "output", "overcommit", "oversubscribe", "parsable", "partition",
    "power", "prefer", "priority", "profile", "propagate", "qos", "quiet", "reboot", "requeue",
    "reservation", "resv-ports", "segment", "share", "signal", "sockets-per-node", "spread-job",
    "spread-segments", "stepmgr", "switches", "tasks-per-node", "test-only", "thread-spec",
    "threads-per-core", "time", "time-min", "tmp", "tres-bind", "tres-per-task", "uid", "usage",
    "use-min-nodes", "verbose", "version", "wait", "wait-all-nodes", "wckey", "workdir", "wrap",
})  # fmt: skip
"""Long options of sbatch, from 17.11 to 25.05.

Plugins of a site add more options, so only a name that is similar to a known name is reported.
"""
_LEAST_MIB = {"mem": 1000, "mem-per-gpu": 1000, "mem-per-cpu": 64}
"""Memory below which no process with CUDA can run; a number without a unit is MiB."""


@per_document("sbatch")
def options(document: Document, context: Context) -> Findings:
    """Check names of options, times and memory."""
    for item in slurm_requests(document):
        line = document.lines[item.place.line - 1] if item.place.line <= len(document.lines) else ""
        if line.lstrip().startswith("#SBATCH") and item.is_read:
            yield from _option(document, item)


def _option(document: Document, item: Directive) -> Findings:
    is_beginning = any(name.startswith(item.name) for name in _OPTIONS)
    name = item.name.replace("_", "-")
    near = "" if is_beginning else closest(name, _OPTIONS, 0.88)
    if near:
        yield make_finding(
            "slurm-option-misspelt",
            document,
            item.place,
            f"sbatch has no --{item.name} and refuses the script; did you mean --{near}?",
            fix=f"Write --{near}.",
        )
    if item.name in ("time", "time-min") and re.fullmatch(r"\d+(?:\.\d+)?\s*[A-Za-z]+", item.value):
        yield make_finding(
            "slurm-time",
            document,
            item.place,
            f"Slurm does not accept --{item.name}={item.value} as a time",
            fix="Write minutes, hours:minutes:seconds, or days-hours:minutes:seconds.",
        )
    amount = number(item.value)
    if amount and amount < _LEAST_MIB.get(item.name, 0) and gpus_per_node(document):
        yield make_finding(
            "slurm-memory-unit",
            document,
            item.place,
            f"--{item.name}={amount} is {amount} MiB: the processes are killed as they start",
            fix=f"Write --{item.name}={amount}G.",
        )


_SLURM_NAMES = """
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
_SLURM_VARIABLES = frozenset(f"SLURM_{name}" for name in _SLURM_NAMES.split())
"""Variables that Slurm sets for jobs and tasks.

Source: the manual pages of sbatch and srun, 23.11.
"""


@per_document("shell", "sbatch")
def variables(document: Document, context: Context) -> Findings:
    """Check for names that differ slightly from the name of a variable that Slurm sets."""
    own = {item.name for item in document.settings}
    for index, line in code_lines(document):
        for name in re.findall(r"(?<![\\\w])\$\{?(SLURM_[A-Z_]+)\b(?!:)", line):
            near = closest(name, _SLURM_VARIABLES, 0.93) if name not in _SLURM_VARIABLES | own else ""
            if near:
                yield make_finding(
                    "slurm-variable-misspelt",
                    document,
                    Place(line=index),
                    f"Slurm does not set {name}; did you mean {near}?",
                    fix=f"Write {near}.",
                )
