"""Requests of a batch script, compared with the commands that the script starts."""

import re
from collections.abc import Iterator

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Argument, Command, Document, Place, Setting
from recipes.lint.reach import given_to, setting_for, tasks_on_each_node, text_in
from recipes.lint.readers.grammars import SHELLS
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    commands,
    directive,
    enclosing,
    gpus_per_node,
    mentions,
    nodes_of,
    number,
    option,
    option_number,
    starts,
    tasks_per_node,
)

_RANKS = (
    "RANK",
    "NODE_RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "MACHINE_RANK",
    "PET_NODE_RANK",
    "GLOBAL_RANK",
    "THEID",
)
_PER_TASK = r"\$\{?SLURM_(PROCID|NODEID|LOCALID)\b"


@per_document("shell", "sbatch")
def early(document: Document, context: Context) -> Findings:
    """Check for ranks that the batch shell expands once, on the first node."""
    if nodes_of(document) == 1:
        return
    written = {item.name: item.written for item in document.settings if not item.is_conditional}
    for command in document.commands:
        if (
            "srun" not in (*command.inside, command.program)
            or command.in_single_quotes
            or command.options.get("rdzv-backend") == "c10d"
        ):
            continue
        texts = [_with_values(argument, written) for argument in command.arguments]
        for text in (*texts, *_targets(document, command)):
            match = re.search(_PER_TASK, text)
            if match is not None and not _is_quoted(document, command, match[0]):
                yield make_finding(
                    "slurm-rank-too-early",
                    document,
                    command.place,
                    f"the batch shell expands ${match[0].strip('${}')} once, so every node gets the value 0",
                    fix="Start it with srun bash -c '...' in single quotes, so that each node expands its "
                    "own value.",
                )
                break
    if document.kind == "sbatch" and not mentions(document, r"srun .*(?:\$0|BASH_SOURCE)"):
        yield from _early_settings(document)


def _targets(document: Document, step: Command) -> Iterator[str]:
    """Yield the files into which the batch shell writes the output of a step."""
    if step.program != "srun":
        return
    for line in document.lines[step.place.line - 1 :]:
        yield from re.findall(r">\s*([^\s;&|]+)", line)
        if not line.endswith("\\"):
            return


def _with_values(argument: Argument, written: dict[str, str]) -> str:
    """Return the text of an argument and the values of its variables as they are written."""
    if argument.is_literal:
        return ""
    names = re.findall(r"\$\{?([A-Za-z_]\w*)", argument.text)
    return " ".join((argument.text, *(written.get(name, "") for name in names)))


@per_document("shell", "sbatch")
def unexpanded(document: Document, context: Context) -> Findings:
    """Check for ranks that no shell expands because of quotes or backslashes."""
    for command in document.commands:
        # programs that start the launcher (eval, ssh, a wrapper) may expand their arguments
        if (
            starts(command) not in ("torchrun", "accelerate")
            or command.inside != ("srun",)
            or command.in_single_quotes
        ):
            continue
        rank = option(command, "node-rank", "machine-rank")
        is_written = any(word.is_literal and rank and word.text.endswith(rank) for word in command.arguments)
        if rank and is_written and re.fullmatch(r"\$(?:\w+|\{\w+\})", rank):
            yield make_finding(
                "slurm-rank-literal",
                document,
                command.place,
                f"no shell expands {rank}, so {starts(command)} gets this text instead of a number",
                fix="Start it with srun bash -c '...' in single quotes, so that each node expands its own "
                "value.",
            )


def _is_quoted(document: Document, command: Command, variable: str) -> bool:
    """Return whether the variable is in single quotes after the start of the command.

    This is a second check, independent of the reader of scripts.
    """
    start = sum(map(len, document.text.splitlines(keepends=True)[: command.place.line - 1]))
    at = document.text.find(variable, start)
    quote, index = "", 0
    text = document.text
    while 0 <= index < at:
        character = text[index]
        if character == "\\" and quote != "'":
            index += 1
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        elif character == "#" and not quote and text[index - 1 : index] in ("", "\n", " ", "\t"):
            index = text.find("\n", index)
            if index < 0:
                break
        index += 1
    return quote == "'"


def _is_inside_step(document: Document, item: Setting) -> bool:
    """Return whether the setting is in the words of `srun bash -c '...'`."""
    line = item.place.line
    shells = [
        command.place.line
        for command in document.commands
        if "srun" in command.inside and command.program in SHELLS
    ]
    inner = [
        command.place.line
        for command in document.commands
        if command.in_single_quotes and "srun" in command.inside
    ]
    return any(begin <= line for begin in shells) and any(line <= end for end in inner)


def _early_settings(document: Document) -> Findings:
    for item in document.given:
        match = re.search(_PER_TASK, item.written)
        if item.name not in _RANKS or match is None or item.reaches != "all":
            continue
        # a c10d rendezvous assigns ranks itself, and ignores these variables
        dynamic = mentions(document, r"rdzv[-_]backend[= ]+[\"']?c10d") and item.name != "LOCAL_RANK"
        inner = _is_inside_step(document, item)
        if item.name == "LOCAL_RANK" and tasks_per_node(document) == 1:
            continue  # if a node has one task, 0 is its right value
        if not dynamic and not inner:
            yield make_finding(
                "slurm-rank-too-early",
                document,
                item.place,
                f"{item.name} gets the {match[0].strip('${}')} of the batch script, which is 0 for all tasks",
                fix="Set it inside the step: srun bash -c '...' in single quotes, or a separate script.",
            )


@per_document("sbatch")
def cpus(document: Document, context: Context) -> Findings:
    """Check for cores of the job that the step does not get, and for jobs that request no cores."""
    asked = number(directive(document, "cpus-per-task"))
    trained = _steps_that_compute(document)
    for step in commands(document, "srun"):
        has_own = option(step, "cpus-per-task", "cpus-per-gpu", "cpu-bind", "exclusive") is not None
        if (
            id(step) not in trained
            or has_own
            or setting_for(document, step, "SRUN_CPUS_PER_TASK") is not None
        ):
            continue
        # srun of 22.05 and 23.02 reads SRUN_CPUS_PER_TASK alone; 23.11 reads SLURM_CPUS_PER_TASK again
        loses = context.slurm_is_within("22.05", "23.11") is True
        if asked is not None and asked > 1 and loses:
            yield make_finding(
                "slurm-cpus-not-passed",
                document,
                step.place,
                f"srun of Slurm {context.slurm} does not inherit --cpus-per-task={asked} of the job: tasks "
                "may get one core each",
                fix="export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or give srun "
                '--cpus-per-task="$SLURM_CPUS_PER_TASK".',
            )
            break
    launchers = [
        command
        for command in commands(document, *TRAINERS)
        if enclosing(document, command, "srun") is not None
    ]
    passes_cores = any(
        setting_for(document, launcher, "SRUN_CPUS_PER_TASK") is not None for launcher in launchers
    )
    requests_cores = any(
        name in _names(document) for name in ("cpus-per-task", "exclusive", "cpus-per-gpu", "mincpus")
    )
    if (
        launchers
        and not requests_cores
        and not passes_cores
        and (gpus_per_node(document) or 0) > 1
        and not _any_step(document, "cpus-per-task", "cpus-per-gpu", "cpu-bind")
    ):
        yield make_finding(
            "slurm-cpus-missing",
            document,
            launchers[0].place,
            "no cores are requested: by default, Slurm gives each task one core, which all of its ranks and "
            "data loaders share",
            fix="Add #SBATCH --cpus-per-task with the cores of the node, and pass it to srun.",
        )


def _steps_that_compute(document: Document) -> set[int]:
    """Return the steps, by identity, in which a launcher, Python or a script runs."""
    steps = set[int]()
    step: Command | None = None
    for command in document.commands:
        if starts(command) == "srun":
            step = command
        elif (
            step is not None
            and _computes(command)
            and command.inside[: len(step.inside) + 1] == (*step.inside, step.program)
        ):
            steps.add(id(step))
    return steps


def _names(document: Document) -> set[str]:
    return {item.name for item in document.directives} | {
        "cpus-per-task" for item in document.directives if item.name == "c"
    }


def _any_step(document: Document, *names: str) -> bool:
    return any(option(step, *names) is not None for step in commands(document, "srun"))


def _computes(command: Command) -> bool:
    return starts(command) in (*TRAINERS, "python") or command.program.endswith((".py", ".sh"))


@per_document()
def gpus(document: Document, context: Context) -> Findings:
    """Check for GPUs that are bound to tasks and hidden from each other, and for more ranks than GPUs."""
    for place, name, text, bind, count in _gpu_requests(document):
        # --gpus-per-task=1 binds each task to its GPU unless --gpu-bind=none
        one_each = name == "gpus-per-task" and text.rpartition(":")[2] in ("1", "") and bind != "none"
        isolates = one_each or (name == "gpu-bind" and text.startswith(("single", "closest", "map", "mask")))
        if isolates and count != 1:
            yield make_finding(
                "slurm-gpus-per-task",
                document,
                place,
                f"--{name}={text} hides the GPUs of a task from the other tasks, so that peers "
                "cannot use NVLink",
                fix="Request --gpus-per-node, and let tasks choose by LOCAL_RANK (--gpu-bind=none).",
            )
    if document.kind != "sbatch":
        return
    ranks = [
        command
        for command in commands(document, "torchrun")
        if option_number(document, command, "nproc-per-node")
    ]
    have = gpus_per_node(document)
    for command in ranks:
        wanted = option_number(document, command, "nproc-per-node") or 0
        if have is not None and wanted > have:
            yield make_finding(
                "slurm-more-ranks-than-gpus",
                document,
                command.place,
                f"{plural(wanted, 'rank')} on each node, but the job requests {plural(have, 'GPU')}",
                fix=f"Start {plural(have, 'rank')}, or request {plural(wanted, 'GPU')}.",
            )


def _task_count(document: Document) -> int | None:
    """Return the number of tasks of each node of a batch script; the default is one task. None if unknown."""
    if (
        document.kind == "sbatch"
        and directive(document, "ntasks", "ntasks-per-node", "tasks-per-node") is None
    ):
        return 1 if directive(document, "gpus", "ntasks-per-gpu") is None else None
    return 1 if directive(document, "ntasks") == "1" else tasks_per_node(document)


def _gpu_requests(document: Document) -> Iterator[tuple[Place, str, str, str | None, int | None]]:
    """Yield each --gpus-per-task and --gpu-bind: place, option, value, binding of GPUs, tasks of each node.

    A step inherits the requests of the job.
    """
    job_bind = directive(document, "gpu-bind")
    steps = list(commands(document, "srun"))
    binds = {_bind(document, step, job_bind) for step in steps} or {job_bind}
    for item in document.directives:
        if item.name in ("gpus-per-task", "gpu-bind"):
            bind = binds.copy().pop() if len(binds) == 1 else None
            yield item.place, item.name, item.value.strip(), bind, _task_count(document)
    for step in steps:
        for name in ("gpus-per-task", "gpu-bind"):
            if name in step.options:
                has_own = option(step, "ntasks", "ntasks-per-node") is not None
                count = tasks_on_each_node(document, step) if has_own else _task_count(document)
                yield step.place, name, step.options[name], _bind(document, step, job_bind), count


def _bind(document: Document, step: Command, job_bind: str | None) -> str | None:
    return option(step, "gpu-bind") or text_in(given_to(document, step), "SLURM_GPU_BIND") or job_bind


@per_document("sbatch")
def surroundings(document: Document, context: Context) -> Findings:
    """Check for variables and bindings that do not reach the ranks as intended."""
    if (directive(document, "export") or "").upper() == "NONE" and document.settings:
        steps = [
            command
            for command in commands(document, "srun")
            if "export" not in command.options and not _passes_environment(document, command)
        ]
        if steps:
            yield make_finding(
                "slurm-export-none",
                document,
                steps[0].place,
                "--export=NONE applies to srun too, so the ranks do not get the script's exports",
                fix="Give srun --export=ALL.",
            )
    for step in commands(document, "srun"):
        names = step.options.get("export", "")
        if (
            names
            and "container-image" not in step.options
            and not re.search(r"\b(?:ALL|NONE|NIL)\b|\$", names)
        ):
            yield make_finding(
                "slurm-export-list",
                document,
                step.place,
                f"--export={names} passes only these variables, without PATH and the script's exports",
                fix=f"Write --export=ALL,{names}.",
            )
    yield from _containers(document)
    yield from _binding(document)


def _passes_environment(document: Document, step: Command) -> bool:
    return any(
        setting_for(document, step, name) is not None for name in ("SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV")
    )


def _containers(document: Document) -> Findings:
    for step in commands(document, "srun"):
        threads = setting_for(document, step, "OMP_NUM_THREADS")
        keeps = mentions(document, r"(?:--container-env|--export)\S*OMP_NUM_THREADS")
        if threads is not None and "container-image" in step.options and not keeps:
            yield make_finding(
                "slurm-container-threads",
                document,
                threads.place,
                "enroot's hook for PyTorch overwrites OMP_NUM_THREADS in the container",
                fix="Give srun --container-env=OMP_NUM_THREADS, or set it inside the container.",
            )
            return


def _binding(document: Document) -> Findings:
    count = tasks_per_node(document)
    for step in commands(document, "srun"):
        bind = option(step, "cpu-bind") or ""
        match = re.search(r"map_cpu:([\w,]+)", bind)
        if match is not None:
            places = match[1].split(",")
            if len(set(places)) < len(places) or (count is not None and len(places) < count):
                yield make_finding(
                    "slurm-cpu-binding",
                    document,
                    step.place,
                    f"--cpu-bind={bind} binds several of {count or len(places)} tasks to the same cores",
                    fix="Give each task its own cores near its GPU, or use --cpu-bind=cores.",
                )
    each = count is not None and count > 1 and count == gpus_per_node(document)
    direct = [
        command for command in document.commands if "srun" in command.inside and starts(command) == "python"
    ]
    if (
        each
        and direct
        and not ({"cpus-per-task", "cpus-per-gpu", "exclusive"} & _names(document))
        and not _any_step(document, "cpus-per-task", "cpus-per-gpu", "cpu-bind")
    ):
        yield make_finding(
            "slurm-cpu-binding",
            document,
            direct[0].place,
            f"{count} tasks with a GPU each and no --cpus-per-task: by default, each task gets only one core",
            fix="Set --cpus-per-task to the cores of a node divided by its tasks, and pass it to srun too.",
        )
