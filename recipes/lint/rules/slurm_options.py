"""Options and values in requests that sbatch refuses or misreads."""

from __future__ import annotations

import difflib
import re

from recipes.lint.context import Context
from recipes.lint.document import Directive, Document
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import gpus_per_node, number

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
"""Long options of sbatch, of 17.11 to 25.05.

Plugins of a site add more, so only a name close to one of these counts as a slip.
"""
_LIKE = 0.88
_LEAST_MIB = {"mem": 1000, "mem-per-gpu": 1000, "mem-per-cpu": 64}
"""Memory below which no process with CUDA can run; a number without a unit is MiB."""


@per_document("sbatch")
def options(document: Document, context: Context) -> Findings:
    """Check names of options, times and memory."""
    for item in document.directives:
        line = document.lines[item.place.line - 1] if item.place.line <= len(document.lines) else ""
        if line.lstrip().startswith("#SBATCH") and item.is_read:
            yield from _judged(document, item)


def _judged(document: Document, item: Directive) -> Findings:
    is_beginning = any(name.startswith(item.name) for name in _OPTIONS)
    name = item.name.replace("_", "-")
    near = [] if is_beginning else difflib.get_close_matches(name, _OPTIONS, n=1, cutoff=_LIKE)
    if near:
        message = f"sbatch has no --{item.name} and refuses the script; did you mean --{near[0]}?"
        yield make_finding("slurm-option-misspelt", document, item.place, message, fix=f"Write --{near[0]}.")
    if item.name in ("time", "time-min") and re.fullmatch(r"\d+(?:\.\d+)?\s*[A-Za-z]+", item.value):
        message = f"Slurm does not accept --{item.name}={item.value} as a time"
        yield make_finding(
            "slurm-time",
            document,
            item.place,
            message,
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
