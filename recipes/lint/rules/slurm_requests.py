"""Requests of a batch script that Slurm does not read as they stand."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Document, Place, lines_of
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import make_finding
from recipes.lint.views import directive, directive_place, first_line, number

Documents = tuple[Document, ...]

_LIKE = 0.8


def directives(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Requests that Slurm does not read as they stand."""
    del context
    for document in documents:
        if document.kind != "sbatch":
            continue
        lines = lines_of(document.text)
        here = next(
            (index for index, line in enumerate(lines, 1) if re.search(r"<<-?\s*[\"']?\w+", line)),
            len(lines) + 1,
        )
        for item in document.directives:
            if item.place.line > here:
                continue  # a script that this one writes
            if not item.is_read:
                yield make_finding(
                    "slurm-directive-late",
                    document,
                    item.place,
                    f"#SBATCH --{item.name} stands after the first command, where Slurm no longer reads",
                    fix="Move it above the first command.",
                )
            elif re.search(r"\$[A-Za-z_{(]", item.value):
                yield make_finding(
                    "slurm-directive-variable",
                    document,
                    item.place,
                    f"#SBATCH --{item.name}={item.value}: Slurm expands no variables here",
                    fix="Write the value, use %j and %x, or give the option to sbatch.",
                )
            elif item.value.startswith("~") and item.name in ("output", "error", "input", "chdir"):
                yield make_finding(
                    "slurm-directive-variable",
                    document,
                    item.place,
                    f"#SBATCH --{item.name}={item.value}: Slurm expands no ~ here",
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


def _misspelt(document: Document) -> Iterator[LintFinding]:
    """`#SBTACH`, `#sbatch`: comments to Slurm."""
    if not any(item.place.line for item in document.directives):
        return
    for index, line in enumerate(document.lines, 1):
        match = re.match(r"(?:!#|#)([A-Za-z]{5,7})\s+(--?[A-Za-z][\w-]*)", line)
        if match is None or line.startswith("#SBATCH"):
            continue
        if match[1][0] not in "Ss" and match[1] != "BATCH":
            continue  # another scheduler's
        if (
            sorted(match[1].upper()) == sorted("SBATCH")
            or difflib.SequenceMatcher(None, match[1], "SBATCH").ratio() > _LIKE
        ):
            yield make_finding(
                "slurm-directive-misspelt",
                document,
                Place(line=index),
                f"{line.split()[0]} {match[2]} is no request: Slurm reads lines that begin with #SBATCH "
                "alone",
                fix="Write #SBATCH.",
            )


_TIME = re.compile(r"\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}")
_TEMPLATE = ("{{", "{%", "<%")


def shapes(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """What sbatch refuses."""
    del context
    for document in documents:
        if document.kind != "sbatch":
            continue
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
                "the first line is no #!, and sbatch refuses the script",
                fix="Begin the file with #!/bin/bash.",
            )
        if not asked:
            continue
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
                    f"--{item.name}={item.value} is no time to Slurm",
                    fix="Write minutes, hours:minutes:seconds, or days-hours:minutes:seconds.",
                )
        yield from _gpus(document)


def _gpus(document: Document) -> Iterator[LintFinding]:
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
        told = f"{nodes} nodes of {each} GPUs"
    elif task and tasks and total != tasks * task:
        told = f"{tasks} tasks of {task} GPUs"
    else:
        return
    yield make_finding(
        "slurm-gpus-differ",
        document,
        directive_place(document, "gpus"),
        f"--gpus={total} counts the GPUs of the whole job, and the script asks for {told}",
        fix="Leave --gpus away.",
    )


def _request(document: Document, expression: str) -> Place | None:
    """Also in comments, where Slurm's requests stand."""
    for index, line in enumerate(lines_of(document.text), 1):
        if re.match(expression, line):
            return Place(line=index)
    return None


def threads_per_core(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Hardware threads counted as cores on AWS machines with A100."""
    del context
    for document in documents:
        is_p4 = re.search(r"\bp4de?(?:\.24xlarge)?\b", document.text)
        at = _request(document, r"#SBATCH\s+--(?:hint=multithread|threads-per-core=2)") if is_p4 else None
        place = (at or _multithreading(document)) if is_p4 else None
        if place is not None:
            yield make_finding(
                "hyper-threads-on-p4",
                document,
                place,
                "two hardware threads of a core compete for the network work of p4d",
                fix="Use one thread of each core: --hint=nomultithread, or turn simultaneous multithreading "
                "off.",
            )


def _multithreading(document: Document) -> Place | None:
    at = first_line(
        document, r"DisableSimultaneousMultithreading:\s*false|hint=multithread|threads-per-core[= ]2"
    )
    return None if at is None else at[0]
