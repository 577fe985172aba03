"""Rendezvous, ports and options of torchrun and similar launchers."""

import re

from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Place
from recipes.lint.finding import LintFinding
from recipes.lint.reach import given_to, setting_for
from recipes.lint.readers.grammars import SHELLS, TORCHRUN_OPTIONS
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    closest,
    code_lines,
    commands,
    enclosing,
    has_unknown_words,
    has_whole_nodes,
    last,
    nodes_of,
    number,
    option,
    resolved,
    starts,
    value,
)

_OPERATED = re.compile(
    r"^\s*apiVersion:\s*[\"']?(?!(?:apps|batch|[\w.-]+[.-]k8s\.io)/)[\w.-]+/", re.MULTILINE
)
"""API groups that are not part of Kubernetes: their controllers set variables that the file does not show."""
_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0)(?::\d+)?")


def _nodes(document: Document, command: Command) -> int | None:
    """Return the nodes that `--nnodes` states, or else those of the job; without this option 1, the default.

    None if unknown words or PET_NNODES may state another number.
    """
    asked = option(command, "nnodes")
    if asked is None:
        return (
            1
            if not has_unknown_words(command) and setting_for(document, command, "PET_NNODES") is None
            else None
        )
    known = number((resolved(document, asked) or "").partition(":")[0])
    return known if known is not None else nodes_of(document)


def _is_set_elsewhere(document: Document, command: Command) -> bool:
    """Return whether PET_* variables, an operator or unknown arguments may set the rendezvous."""
    by_variable = any(name.startswith("PET_") for name in given_to(document, command))
    by_operator = _OPERATED.search(document.text) if document.kind == "kubernetes" else None
    return by_variable or by_operator is not None or has_unknown_words(command)


@per_document()
def rendezvous(document: Document, context: Context) -> Findings:
    """Check how several nodes meet."""
    for command in commands(document, "torchrun"):
        nodes = _nodes(document, command)
        options = command.options
        if "standalone" in options and nodes is not None and nodes > 1:
            yield make_finding(
                "torchrun-standalone",
                document,
                command.place,
                f"--standalone starts a separate rendezvous on each of {nodes} nodes",
                fix="Give --rdzv-backend c10d and --rdzv-endpoint with the first node.",
            )
            continue
        if nodes is None or nodes <= 1 or "standalone" in options:
            continue
        endpoint = options.get("rdzv-endpoint", "")
        if _LOOPBACK.fullmatch(endpoint) or _LOOPBACK.fullmatch(options.get("master-addr", "")):
            yield make_finding(
                "torchrun-loopback",
                document,
                command.place,
                f"{endpoint or options['master-addr']} is each node's own address, so {nodes} nodes "
                "cannot meet there",
                fix="Give the name or address of the first node.",
            )
        elif not _is_set_elsewhere(document, command):
            yield from _meeting(document, command, nodes)


def _meeting(document: Document, command: Command, nodes: int) -> Findings:
    options = command.options
    # torch/distributed/run.py: the default backend is static, and static reads --master-addr
    backend = options.get("rdzv-backend", "static")
    dynamic = backend != "static" or ("rdzv-endpoint" in options and "rdzv-backend" in options)
    in_job = document.kind == "sbatch" or "srun" in command.inside
    has_host = re.search(r"\b(?:endpoint|rdzv_endpoint)=", options.get("rdzv-conf", "")) is not None
    if backend == "c10d" and "rdzv-endpoint" not in options and not has_host:
        master = ": it reads --master-addr only for a static rendezvous" if "master-addr" in options else ""
        yield make_finding(
            "torchrun-nowhere",
            document,
            command.place,
            f"{nodes} nodes and no --rdzv-endpoint: torchrun uses localhost:29400 on each node{master}",
            fix="Give --rdzv-endpoint FIRST_NODE:PORT.",
        )
    elif "rdzv-endpoint" not in options and "master-addr" not in options:
        yield make_finding(
            "torchrun-nowhere",
            document,
            command.place,
            f"{nodes} nodes and no rendezvous address: torchrun uses 127.0.0.1 on each node"
            + ("" if in_job else ", unless an operator sets PET_RDZV_ENDPOINT or PET_MASTER_ADDR"),
            fix="Give --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:PORT, or --master-addr, --master-port "
            "and --node-rank.",
            severity=None if in_job else "warning",
        )
    elif backend == "static" and "node-rank" not in options:
        extra = ""
        if re.search(r"\bNODE_RANK=", document.text):
            extra = "; NODE_RANK is set, but torchrun does not read it"
        yield make_finding(
            "torchrun-no-node-rank",
            document,
            command.place,
            f"a static rendezvous of {nodes} nodes without --node-rank makes each of them node 0{extra}",
            fix="Give each node its own --node-rank, or use --rdzv-backend c10d with --rdzv-endpoint.",
        )
    elif (
        not dynamic
        and options.get("node-rank") == "0"
        and enclosing(document, command, "srun", "mpirun") is not None
    ):
        yield make_finding(
            "torchrun-no-node-rank",
            document,
            command.place,
            "--node-rank is 0 on every node",
            fix="Give each node its own number, such as $SLURM_NODEID in single quotes.",
        )


@per_document()
def names(document: Document, context: Context) -> Findings:
    """Check for constant ports and rendezvous ids, which two jobs would share."""
    alone = has_whole_nodes(document)
    for command in commands(document, "torchrun"):
        if document.kind != "sbatch" and "srun" not in command.inside:
            continue
        run_id = resolved(document, command.options.get("rdzv-id"))
        if (
            run_id is not None
            and not re.search(r"\$", command.options["rdzv-id"])
            and (_nodes(document, command) or 2) > 1
        ):
            yield make_finding(
                "rendezvous-id-constant",
                document,
                command.place,
                f"--rdzv-id {run_id} is the same for every job: another job at this address would join",
                fix='Write --rdzv-id "$SLURM_JOB_ID".',
            )
        port = resolved(document, command.options.get("master-port"))
        endpoint = re.fullmatch(r".*:(\d+)", command.options.get("rdzv-endpoint", ""))
        port = port or (endpoint[1] if endpoint else None)
        if (
            port is not None
            and port != "0"
            and not alone
            and setting_for(document, command, "MASTER_PORT") is None
        ):
            yield _constant(document, command.place, port)
    item = last(document, "MASTER_PORT")
    if (
        item is not None
        and document.kind == "sbatch"
        and not alone
        and number(value(document, "MASTER_PORT")) not in (None, 0)
    ):
        yield _constant(document, item.place, item.value or "")


def _constant(document: Document, place: Place, port: str) -> LintFinding:
    return make_finding(
        "port-constant",
        document,
        place,
        f"port {port} is the same for every job: two jobs on one node fail with address in use",
        fix="Derive the port from the job: $((20000 + SLURM_JOB_ID % 10000)).",
    )


_RANDOM = re.compile(r"[\"']?\$\{?RANDOM\}?[\"']?")


@per_document()
def ports(document: Document, context: Context) -> Findings:
    """Check for ports out of range, and for computed ports that may be out of range."""
    yield from _drawn(document)
    for item in document.given:
        if item.name in ("MASTER_PORT", "PET_MASTER_PORT", "MAIN_PROCESS_PORT"):
            port = number(item.value) if item.is_literal else None
            if port is not None and (port > 65535 or 0 < port < 1024):
                why = "the highest port is 65535" if port > 65535 else "only root may use ports below 1024"
                yield make_finding(
                    "port-out-of-range",
                    document,
                    item.place,
                    f"{item.name}={port}: {why}",
                    fix="Choose a port from 20000 to 29999.",
                )
    if document.kind in ("shell", "sbatch"):
        yield from _growing(document)


def _drawn(document: Document) -> Findings:
    ports_set = {setting.name: setting for setting in document.settings if setting.name.endswith("PORT")}
    drawn = [value.place for value in ports_set.values() if _RANDOM.fullmatch(value.written)]
    for command in commands(document, *TRAINERS, "composer", "python"):
        if _RANDOM.fullmatch(option(command, "master-port", "main-process-port") or ""):
            drawn.append(command.place)
    if drawn:
        yield make_finding(
            "port-random",
            document,
            drawn[0],
            "$RANDOM is 0 to 32767: one in 32 of these ports is below 1024, which only root may use",
            fix="Write $((20000 + RANDOM % 10000)).",
        )


def _growing(document: Document) -> Findings:
    for index, line in code_lines(document):
        match = re.search(r"PORT=[\"']?\$\(\(\s*([^()%]*\bSLURM_JOB_?ID\b[^()%]*)\)\)", line)
        if match is not None:
            yield make_finding(
                "port-overflow",
                document,
                Place(line=index),
                f"{match[1].strip()} exceeds 65535 for large job numbers",
                fix="Use the remainder: $((20000 + SLURM_JOB_ID % 10000)).",
            )


@per_document()
def options(document: Document, context: Context) -> Findings:
    """Check for options that torchrun does not have or no longer recommends."""
    for command in commands(document, "torchrun"):
        for name in command.options:
            near = closest(name, TORCHRUN_OPTIONS, 0.85) if name not in TORCHRUN_OPTIONS else ""
            if near and len(name) > 3:
                yield make_finding(
                    "torchrun-option-unknown",
                    document,
                    command.place,
                    f"torchrun has no --{name}; did you mean --{near}?",
                    fix=f"Write --{near}.",
                )
        nested = [
            command
            for command in document.commands
            if "torchrun" in command.inside and command.program in ("deepspeed", "accelerate", "torchrun")
        ]
        if nested:
            yield make_finding(
                "launcher-in-launcher",
                document,
                nested[0].place,
                f"torchrun starts {nested[0].program} in each rank, and each of these starts further ranks",
                fix="Use one of the two launchers.",
            )
    for command in commands(document, *TRAINERS):
        yield from _script(document, command)
        yield from _repeated(document, command)
    old = [
        command
        for command in document.commands
        if command.options.get("module") == "torch.distributed.launch" and command.program == "python"
    ]
    if old:
        yield make_finding(
            "torch-launch-deprecated",
            document,
            old[0].place,
            "torch.distributed.launch is deprecated, and passes the rank as --local-rank",
            fix="Use torchrun, and read LOCAL_RANK from the environment.",
        )


def _repeated(document: Document, command: Command) -> Findings:
    """Check for an option of the launcher with two values."""
    values: dict[str, str] = {}
    texts = [argument.text for argument in command.arguments]
    for number_of, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if not name.startswith("--") or name.lstrip("-").replace("_", "-") not in command.options:
            continue
        value = value if equals else next(iter(texts[number_of + 1 : number_of + 2]), "")
        name = name.replace("_", "-")
        if values.setdefault(name, value) != value and not value.startswith("--"):
            yield make_finding(
                "launcher-option-twice",
                document,
                command.place,
                f"{name} is {values[name]} and then {value}: {starts(command)} uses the last value",
                fix="Keep one of the two values; the other value may belong to another option.",
            )
            return


_NO_SCRIPTS = SHELLS | {"python", "python3", "nsys", "ncu", "apptainer", "singularity", "numactl"}


def _script(document: Document, launcher: Command) -> Findings:
    """Check for a program in the place of the launcher's Python script."""
    at = next(number for number, command in enumerate(document.commands) if command is launcher)
    after = document.commands[at + 1] if at + 1 < len(document.commands) else None
    if after is None or after.inside != (*launcher.inside, launcher.program):
        return
    if {"no-python", "module"} & set(launcher.options) or has_unknown_words(launcher):
        return
    if after.program in _NO_SCRIPTS or after.program.endswith(".sh"):
        yield make_finding(
            "launcher-runs-program",
            document,
            after.place,
            f"{starts(launcher)} runs its script with Python, but {after.program} is not a Python script",
            fix="Remove python, or add --no-python.",
        )
