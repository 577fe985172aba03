"""Requests of a batch script that Slurm does not read as written."""

from __future__ import annotations

import difflib
import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Place, lines_of
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import directive, directive_place, first_line, number

_LIKE = 0.8


@per_document("sbatch")
def directives(document: Document, context: Context) -> Findings:
    """Check for requests that Slurm ignores or does not expand."""
    lines = lines_of(document.text)
    # requests after the first here-document may belong to a script that this one writes
    here = next(
        (index for index, line in enumerate(lines, 1) if re.search(r"<<-?\s*[\"']?\w+", line)),
        len(lines) + 1,
    )
    for item in document.directives:
        if item.place.line > here:
            continue  # it belongs to a script that this one writes
        if not item.is_read:
            yield make_finding(
                "slurm-directive-late",
                document,
                item.place,
                f"#SBATCH --{item.name} comes after the first command, so Slurm ignores it",
                fix="Move it above the first command.",
            )
        elif re.search(r"\$[A-Za-z_{(]", item.value):
            yield make_finding(
                "slurm-directive-variable",
                document,
                item.place,
                f"#SBATCH --{item.name}={item.value}: Slurm does not expand variables here",
                fix="Write the value, use %j and %x, or pass the option to sbatch.",
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
            "blanks around = in a request",
            fix="Write --name=value.",
        )


def _misspelt(document: Document) -> Findings:
    """Check for `#SBTACH` and `#sbatch`, which Slurm takes for comments."""
    if not any(item.place.line for item in document.directives):
        return
    for index, line in enumerate(document.lines, 1):
        match = re.match(r"(?:!#|#)([A-Za-z]{5,7})\s+(--?[A-Za-z][\w-]*)", line)
        if match is None or line.startswith("#SBATCH"):
            continue
        if match[1][0] not in "Ss" and match[1] != "BATCH":
            continue  # a directive of another scheduler
        if (
            sorted(match[1].upper()) == sorted("SBATCH")
            or difflib.SequenceMatcher(None, match[1], "SBATCH").ratio() > _LIKE
        ):
            yield make_finding(
                "slurm-directive-misspelt",
                document,
                Place(line=index),
                f"{line.split()[0]} {match[2]} is a comment: Slurm reads only lines that begin with #SBATCH",
                fix="Write #SBATCH.",
            )


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
    for item in document.directives:
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
        requested = f"{nodes} nodes of {each} GPUs"
    elif task and tasks and total != tasks * task:
        requested = f"{tasks} tasks of {task} GPUs"
    else:
        return
    yield make_finding(
        "slurm-gpus-differ",
        document,
        directive_place(document, "gpus"),
        f"--gpus={total} counts the GPUs of the whole job, and the script requests {requested}",
        fix="Remove --gpus.",
    )


def _request(document: Document, expression: str) -> Place | None:
    """Return the first line that matches, comments included, as requests are comments."""
    for index, line in enumerate(lines_of(document.text), 1):
        if re.match(expression, line):
            return Place(line=index)
    return None


@per_document()
def threads_per_core(document: Document, context: Context) -> Findings:
    """Check for hardware threads counted as cores on AWS machines with A100."""
    is_p4 = re.search(r"\bp4de?(?:\.24xlarge)?\b", document.text)
    at = _request(document, r"#SBATCH\s+--(?:hint=multithread|threads-per-core=2)") if is_p4 else None
    place = (at or _multithreading(document)) if is_p4 else None
    if place is not None:
        yield make_finding(
            "hyper-threads-on-p4",
            document,
            place,
            "two hardware threads of a core compete for the network work of p4d",
            fix="Use one thread of each core: --hint=nomultithread, or turn simultaneous multithreading off.",
        )


def _multithreading(document: Document) -> Place | None:
    at = first_line(
        document, r"DisableSimultaneousMultithreading:\s*false|hint=multithread|threads-per-core[= ]2"
    )
    return None if at is None else at[0]
