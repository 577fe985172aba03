"""mpirun: variables that it passes on, placement of ranks, and lists of hosts."""

import re

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Entry, Setting, lines_of
from recipes.lint.reach import given_to, setting_for
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import commands, may_use_gpus, mentions, number, option, option_number, total

_FORWARDED = (
    "NCCL_",
    "TORCH_",
    "GLOO_",
    "FI_",
    "CUDA_DEVICE",
    "UCX_",
    "OMP_NUM_THREADS",
    "LD_LIBRARY_PATH",
    "MASTER_",
)


def _is_open_mpi(command: Command) -> bool:
    """Return whether the command has options that MPICH's mpiexec (Hydra) does not have.

    Hydra too has -bind-to and -map-by, but maps only by a part of a machine (`numa`, `core`).
    """
    own_options = command.options.keys() & {"x", "mca", "allow-run-as-root", "npernode", "tag-output"}
    return (
        bool(own_options)
        or re.match(r"(?i)ppr:|(?:slot|node)\b", option(command, "map-by") or "") is not None
        or any(argument.text == "-H" for argument in command.arguments)
    )


def _hosts(command: Command) -> list[str]:
    return [part for part in re.split(r"[,\n]", option(command, "host", "hosts", "H") or "") if part]


@per_document()
def forwarding(document: Document, context: Context) -> Findings:
    """Check for variables that ranks on other machines do not get."""
    for command in commands(document, "mpirun"):
        remote = len(_hosts(command)) > 1 or "hostfile" in command.options or "machinefile" in command.options
        given = given_to(document, command)
        if not _is_open_mpi(command) or not remote or "OMPI_MCA_mca_base_env_list" in given:
            continue
        list_of_names = option(command, "x") or ""
        named = set(re.findall(r"(?:^|[\n,;])\s*([A-Za-z_]\w*)", list_of_names)) | {
            item.name for item in command.settings
        }
        wildcard = (
            "mca_base_env_list" in (option(command, "mca") or "")
            or "*" in list_of_names
            or "$" in list_of_names
        )
        lost = [name for name in given if name.startswith(_FORWARDED) and name not in named]
        if lost and not wildcard and may_use_gpus(document):
            yield make_finding(
                "mpi-not-forwarded",
                document,
                command.place,
                f"mpirun does not pass {', '.join(lost)} to other machines",
                fix="Add " + " ".join(f"-x {name}" for name in lost) + ".",
            )


_INHERITED = re.compile(r"\w*PATH|HOME|USER|SHELL|TMPDIR|LD_PRELOAD|\w+_(?:HOME|ROOT|DIR)")
"""Names that logins or environment modules usually export already; a new value is then exported too."""


def _is_inherited(item: Setting) -> bool:
    return (
        _INHERITED.fullmatch(item.name) is not None
        or re.search(rf"\$\{{?{item.name}\b", item.written) is not None
    )


@per_document("shell", "sbatch")
def handed(document: Document, context: Context) -> Findings:
    """Check for `-x NAME` in which NAME is a shell variable that is not exported."""
    if mentions(document, r"\bset -\w*a|allexport"):
        return
    own = {item.name for item in document.settings if not item.is_exported and not _is_inherited(item)}
    for command in commands(document, "mpirun"):
        names_of_option = [
            part for part in (option(command, "x") or "").split("\n") if re.fullmatch(r"[A-Za-z_]\w*", part)
        ]
        lost = [
            name for name in dict.fromkeys(names_of_option) if name in own and name not in document.last_given
        ]
        if lost:
            names = ", ".join(lost)
            yield make_finding(
                "mpi-not-exported",
                document,
                command.place,
                f"-x {names}: mpirun passes only exported variables, and the script exports no such name",
                fix=f'Write export {" ".join(lost)} before, or -x {lost[0]}="${lost[0]}".',
            )


_PARAMETER = re.compile(
    r"(?:coll|btl|pml|mtl|osc|oob|plm|orte|rmaps|hwloc|ess|routed|opal|prte|pmix|mpi)_[a-z][a-z0-9_]*"
)


@per_document()
def parameters(document: Document, context: Context) -> Findings:
    """Check for parameters of Open MPI that -x passes as variables, which nothing reads."""
    for command in commands(document, "mpirun"):
        names = [part.partition("=")[0] for part in (option(command, "x") or "").split("\n")]
        lost = [name for name in dict.fromkeys(names) if _PARAMETER.fullmatch(name)]
        if lost:
            yield make_finding(
                "mpi-parameter-exported",
                document,
                command.place,
                f"-x sets variables, but {', '.join(lost)} belong{'s' * (len(lost) == 1)} to --mca",
                fix=f"Write --mca {lost[0]} VALUE.",
            )


@per_document()
def placement(document: Document, context: Context) -> Findings:
    """Check the slots of hosts, the binding to cores, and parameters that exclude each other."""
    for command in commands(document, "horovodrun"):
        yield from _counted(document, command, _hosts(command))
    for command in commands(document, "mpirun"):
        hosts, ranks = _hosts(command), number(option(command, "np", "n"))
        # Open MPI counts one slot for a host of -H without a number
        plain = hosts and not any(":" in host or "$" in host for host in hosts)
        if (
            plain
            and ranks is not None
            and ranks > len(hosts)
            and _is_open_mpi(command)
            and not _is_crowded(command)
            and not any(name in command.options for name in ("npernode", "N", "ppn"))
        ):
            yield make_finding(
                "mpi-slots",
                document,
                command.place,
                f"{plural(ranks, 'rank')} on {plural(len(hosts), 'host')} of one slot each",
                fix="Write the slots: -H "
                + ",".join(f"{host}:{-(-ranks // len(hosts))}" for host in hosts)
                + ".",
            )
        if _is_open_mpi(command) and not _is_crowded(command):
            yield from _counted(document, command, hosts)
        is_bound = option(command, "bind-to") == "core" or "bind-to-core" in command.options
        if is_bound and may_use_gpus(document):
            yield make_finding(
                "mpi-bound-to-core",
                document,
                command.place,
                "--bind-to core puts all threads of a rank, including those of NCCL and data loaders, on "
                "one core",
                fix="Write --bind-to none, or numa.",
            )
        yield from _components(document, command)


def _is_crowded(command: Command) -> bool:
    """Return whether more ranks than slots are allowed."""
    return "oversubscribe" in command.options or "OVERSUBSCRIBE" in (option(command, "map-by") or "").upper()


def _counted(document: Document, command: Command, hosts: list[str]) -> Findings:
    """Compare the ranks with the slots if all hosts state slots."""
    slots = total([number(host.rpartition(":")[2]) if ":" in host else None for host in hosts])
    ranks = option_number(document, command, "np", "n")
    if ranks is not None and slots is not None and ranks > slots:
        yield make_finding(
            "mpi-slots",
            document,
            command.place,
            f"{plural(ranks, 'rank')} on {plural(slots, 'slot')}",
            fix="Raise the slots, or start fewer ranks.",
        )


def _components(document: Document, command: Command) -> Findings:
    components = option(command, "mca") or ""
    for part in ("btl_tcp_if", "oob_tcp_if"):
        both = [
            f"{part}_{way}" in components
            or setting_for(document, command, f"OMPI_MCA_{part}_{way}") is not None
            for way in ("include", "exclude")
        ]
        if all(both):
            yield make_finding(
                "mpi-include-and-exclude",
                document,
                command.place,
                f"{part}_include and {part}_exclude exclude each other",
                fix="Keep one of the two.",
            )


@per_document()
def ranks(document: Document, context: Context) -> Findings:
    """Check that each Python process under mpirun gets its own rank."""
    if re.search(r"\b(?:ba)?sh -\w*c\b", document.text):
        return  # the shell that mpirun starts may set the variables
    for item in document.given:
        from_mpi = item.name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") and re.search(
            r"\$\{?OMPI_COMM_WORLD_", item.written
        )
        if not from_mpi or item.reaches == "command":
            continue
        if any(setting_for(document, command, item.name) == item for command in commands(document, "mpirun")):
            yield make_finding(
                "mpi-rank-too-early",
                document,
                item.place,
                f"{item.name} is set before mpirun starts the ranks, so it is empty or equal for all ranks",
                fix="Set it inside the command: mpirun ... bash -c '...' with single quotes.",
            )


def _named(document: Document, text: str | None) -> bool:
    """Return whether an option names this list of hosts."""
    return text is not None and text.strip("\"'").rpartition("/")[2] == document.name.rpartition("/")[2]


def _listed_hosts(document: Document) -> list[tuple[Entry, int | None]]:
    slots = {
        item.path.partition(".")[0]: item.value
        for item in document.entries
        if item.path.endswith(".slots") and isinstance(item.value, int)
    }
    names = [item for item in document.entries if item.path.endswith(".name")]
    return [(item, slots.get(item.path.partition(".")[0])) for item in names]


def hostfiles(documents: Documents, context: Context) -> Findings:
    """Check lists of hosts for too few slots, and for lines that DeepSpeed refuses."""
    for document in documents:
        if document.kind != "hostfile":
            continue
        for other in documents:
            for command in commands(other, "deepspeed"):
                if _named(document, option(command, "hostfile")):
                    yield from _list_for_deepspeed(document, other, command)
            for command in commands(other, "mpirun"):
                if _named(document, option(command, "hostfile", "machinefile", "f")):
                    yield from _list_for_mpi(document, other, command)


def _list_for_deepspeed(document: Document, other: Document, command: Command) -> Findings:
    earlier: set[str] = set()
    hosts = _listed_hosts(document)
    lines = lines_of(document.text)
    for item, _ in hosts:
        name = str(item.value)
        if name in earlier:
            yield make_finding(
                "hostfile-refused",
                document,
                item.place,
                f"{name} is listed twice, so DeepSpeed ends with an error",
                fix="Write each host once, with all its slots.",
            )
        elif not re.match(r"\S+\s+slots=\d+", lines[item.place.line - 1].strip()):
            yield make_finding(
                "hostfile-refused",
                document,
                item.place,
                f"{name} has no slots, so DeepSpeed ends with: Hostfile contains a bad entry",
                fix=f"Write {name} slots=N, where N is the number of GPUs of this host.",
            )
        earlier.add(name)
    wanted = option_number(other, command, "num-nodes")
    if wanted is not None and wanted > len(hosts) > 0:
        yield make_finding(
            "hostfile-few",
            other,
            command.place,
            f"{document.name} lists {plural(len(hosts), 'host')}, "
            f"but the job requests {plural(wanted, 'node')}",
            fix="Name more hosts, or request fewer.",
        )


def _list_for_mpi(document: Document, other: Document, command: Command) -> Findings:
    """Compare the ranks with the slots of a list.

    Open MPI counts the cores of a host without slots, so only a list with all slots is judged.
    """
    slots = total([count for _, count in _listed_hosts(document)])
    ranks = option_number(other, command, "np", "n")
    if ranks is not None and slots is not None and ranks > slots and not _is_crowded(command):
        yield make_finding(
            "hostfile-few",
            other,
            command.place,
            f"{plural(ranks, 'rank')}, but {document.name} has {plural(slots, 'slot')}",
            fix="Raise the slots, or start fewer ranks.",
        )
