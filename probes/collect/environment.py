"""The variables that steer training: of this process, of NCCL's configuration files, and those that an NCCL
log names.

NCCL takes the environment first, then `$NCCL_CONF_FILE` or else `~/.nccl.conf`, then `/etc/nccl.conf`; a file
never replaces what is set (NVIDIA/nccl, src/misc/param.cc, read 2026-06). Only listed names are asked for,
and none that holds a secret.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.evidence import environment_ref, file_ref
from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.rows import read_rows, row_names
from probes.collect.collecting import CollectOptions
from probes.facts import EnvironmentVariable, Unread
from probes.parsers.tools.nccl_conf import parse_configuration, parse_logged
from probes.reading.outputs import outputs
from probes.sources.base import Source

_SYSTEM_FILE = "/etc/nccl.conf"
_CREDENTIALS = pattern(r"(?<=://)[^/@\s]{1,400}@")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`environment`."""
    own, silence = _own(source)
    unread: list[Unread] = []
    found = [*own, *_logged(source, {variable.name for variable in own})]
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
        found += _of_file(
            path, data.decode("utf-8", "replace"), {variable.name for variable in found}, unread
        )
    if silence is not None and not found and not has_file:
        return {"environment": silence, "unread": tuple(unread)}
    return {"environment": tuple(found), "unread": tuple(unread)}


def asked_names() -> tuple[str, ...]:
    """Return the names of all variables that are read; no other is asked for."""
    return (*row_names("nccl_variables"), *read_rows("environment_names")["names"])


def _own(source: Source) -> tuple[list[EnvironmentVariable], Unknown | None]:
    """What is set, and why nothing is known where nothing is."""
    found: list[EnvironmentVariable] = []
    silence: Unknown | None = None
    for name in asked_names():
        value = source.env(name)
        if isinstance(value, Unknown):
            silence = silence or NOT_RECORDED
        elif value is not None:
            plain = _CREDENTIALS.sub("***@", value)
            found.append(
                EnvironmentVariable(
                    name=name, value=plain, origin="environment", evidence=(environment_ref(name),)
                )
            )
    return found, silence


def _logged(source: Source, names: set[str]) -> Iterator[EnvironmentVariable]:
    """What a job's log names. On a live machine nobody gives one."""
    logs = outputs(source, "nccl-log")
    for output in () if isinstance(logs, Unknown) else logs:
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
    """The files that NCCL reads, first come first served, and whether the user named it."""
    if named:
        # NCCL opens the name as it stands: a `~` is a folder of that name.
        yield named, True
    else:
        home = source.env("HOME")
        if isinstance(home, str) and home.startswith("/"):
            yield f"{home.rstrip('/')}/.nccl.conf", False
    yield _SYSTEM_FILE, False


def _of_file(
    path: str, text: str, set_before: set[str], unread: list[Unread]
) -> Iterator[EnvironmentVariable]:
    assignments, ignored = parse_configuration(text)
    for line in ignored:
        unread.append(
            Unread(source=path, line=line.line, text=line.text, why="NCCL skips a line without `=`")
        )
    for assignment in assignments:
        yield EnvironmentVariable(
            name=assignment.name,
            value=assignment.value,
            origin=path,
            is_effective=assignment.name not in set_before,
            evidence=(file_ref(path, f"line {assignment.line}"),),
        )
        set_before.add(assignment.name)
