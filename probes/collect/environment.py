"""Collect variables that affect training: from this process, NCCL's configuration files and NCCL logs.

NCCL uses the environment first, then `$NCCL_CONF_FILE` or else `~/.nccl.conf`, then `/etc/nccl.conf`; a file
never replaces a variable that is already set (NVIDIA/nccl, src/misc/param.cc, read 2026-06). From the
environment, only listed names are read, and none of these contains a secret.
"""

from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, environment_ref, file_ref, items_of
from probes.base.rows import read_rows, row_names
from probes.collect.collecting import CollectOptions
from probes.facts import EnvironmentVariable, Unread
from probes.parsers.tools.nccl_conf import parse_configuration, parse_logged
from probes.reading.texts import outputs
from probes.sources.base import Source

_SYSTEM_FILE = "/etc/nccl.conf"
_CREDENTIALS = pattern(r"(?<=://)[^/@\s]{1,400}@")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `environment`."""
    own, unknown = _own(source)
    unread: list[Unread] = []
    variables = [*own, *_logged(source, {variable.name for variable in own})]
    named = next((variable.value for variable in own if variable.name == "NCCL_CONF_FILE"), "")
    has_file = False
    for path, is_named in _files(source, named):
        data = source.read(path)
        if isinstance(data, Unknown):
            if is_named or data.reason not in (Reason.TOOL_MISSING, Reason.NOT_RECORDED):
                unread.append(
                    Unread(source=path, why=f"NCCL's configuration file could not be read: {data.words}")
                )
            continue
        has_file = True
        variables += _variables_of_file(
            path, data.decode("utf-8", "replace"), {variable.name for variable in variables}, unread
        )
    if unknown is not None and not variables and not has_file:
        return {"environment": unknown, "unread": tuple(unread)}
    return {"environment": tuple(variables), "unread": tuple(unread)}


def asked_names() -> tuple[str, ...]:
    """Return the names of the variables that this collector reads from the environment."""
    return (*row_names("nccl_variables"), *read_rows("environment_names")["names"])


def _own(source: Source) -> tuple[list[EnvironmentVariable], Unknown | None]:
    """Return the variables that are set, and a reason if the environment is unknown."""
    variables: list[EnvironmentVariable] = []
    unknown: Unknown | None = None
    for name in asked_names():
        value = source.env(name)
        if isinstance(value, Unknown):
            unknown = unknown or NOT_RECORDED
        elif value is not None:
            plain = _CREDENTIALS.sub("***@", value)
            variables.append(
                EnvironmentVariable(
                    name=name, value=plain, origin="environment", evidence=(environment_ref(name),)
                )
            )
    return variables, unknown


def _logged(source: Source, names: set[str]) -> Iterator[EnvironmentVariable]:
    """Yield the variables that a job's log names; a live machine has no given logs."""
    for output in items_of(outputs(source, "nccl-log")):
        for variable in parse_logged(output.text):
            if variable.name not in names:
                names.add(variable.name)
                yield EnvironmentVariable(
                    name=variable.name,
                    value=variable.value,
                    origin="environment",
                    evidence=(output.line(variable.line),),
                )


def _files(source: Source, named: str) -> Iterator[tuple[str, bool]]:
    """Yield the files that NCCL reads, highest priority first, each with True if the user named the file."""
    if named:
        # NCCL does not expand the path: `~` would be a folder with this name.
        yield named, True
    else:
        home = source.env("HOME")
        if isinstance(home, str) and home.startswith("/"):
            yield f"{home.rstrip('/')}/.nccl.conf", False
    yield _SYSTEM_FILE, False


def _variables_of_file(
    path: str, text: str, set_before: set[str], unread: list[Unread]
) -> Iterator[EnvironmentVariable]:
    assignments, ignored = parse_configuration(text)
    why = "NCCL skips a line without `=`"
    unread += [Unread(source=path, line=line.line, text=line.text, why=why) for line in ignored]
    for assignment in assignments:
        yield EnvironmentVariable(
            name=assignment.name,
            value=assignment.value,
            origin=path,
            is_effective=assignment.name not in set_before,
            evidence=(file_ref(path, f"line {assignment.line}"),),
        )
        set_before.add(assignment.name)
