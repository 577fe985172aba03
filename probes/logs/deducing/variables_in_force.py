"""Deductions about environment variables that have no effect or are left over from debugging."""

from collections.abc import Iterator

from probes.catalogue.nccl_variables import is_default, load_variables, misread
from probes.logs.deducing.common import deduced, environment
from probes.logs.event import Event
from probes.logs.events.deduced_course_events import DeducedIneffectiveVariable, DeducedLeftoverVariable
from probes.logs.events.nccl_events import NcclEnvironment, NcclEnvironmentInvalid
from probes.logs.events.nccl_network_events import NcclHcas, NcclNetwork, NcclPluginLoaded
from probes.logs.logged_events import LoggedEvents

_QUIET = frozenset(
    {
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_DEBUG_FILE",
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "NCCL_DEBUG_TIMESTAMP_LEVELS",
    }
)
"""Variables that only control debugging output, such as the lines of these logs, and change nothing else."""
_LEFT = {
    "NCCL_P2P_DISABLE": "GPUs of a node communicate through the host's memory",
    "NCCL_SHM_DISABLE": "ranks of a node without peer-to-peer communicate over the network",
    "NCCL_IB_DISABLE": "RDMA is off",
    "NCCL_NVLS_ENABLE": "NCCL does not decide itself whether to use NVLink SHARP",
    "NCCL_NET_GDR_LEVEL": "NCCL does not decide itself up to which distance to use GPUDirect RDMA",
    "NCCL_PROTO": "the tuner may not choose the protocol",
    "NCCL_ALGO": "the tuner may not choose the algorithm",
}


def without_effect(logged: LoggedEvents) -> Iterator[Event]:
    """Yield variables that were set but do not have the intended effect."""
    variables = environment(logged)
    network = {event.what.name for event in logged.of(NcclNetwork)}
    plugins = " ".join(event.what.name or "" for event in logged.of(NcclPluginLoaded))
    ibext, ib = variables.get("NCCL_IBEXT_DISABLE"), variables.get("NCCL_IB_DISABLE")
    if ibext is not None and _on(ibext) and (ib is None or not _on(ib)) and logged.has(NcclHcas):
        yield _ineffective(
            ibext,
            "the variable switches off only the plugin, and NCCL's own InfiniBand transport is used instead",
            "Set NCCL_IB_DISABLE=1 as well (or remove the plugin) to use sockets.",
        )
    external = any("ext" in name.lower() for name in network) or (
        not network and "ext" in plugins.lower() and logged.has(NcclHcas)
    )
    if ib is not None and _on(ib) and external and (ibext is None or not _on(ibext)):
        yield _ineffective(
            ib,
            "the external plugin does not read this variable",
            "Set NCCL_IBEXT_DISABLE=1 as well, or NCCL_NET_PLUGIN=none.",
        )
    for invalid in logged.of(NcclEnvironmentInvalid):
        yield _ineffective(
            invalid,
            f"NCCL cannot read the value {invalid.what.value!r} and uses its default",
            "Write a value that the documentation allows.",
            is_firm=False,
        )
    table = load_variables()
    for name, event in variables.items():
        row = table.find(name)
        text = _text(event)
        if row is not None and event.what.by != "plugin" and (read := misread(row, text)) is not None:
            yield _ineffective(
                event,
                f"NCCL reads {text!r} as {read}",
                "Write a value that the documentation allows.",
                is_firm=False,
            )


def left_from_debugging(logged: LoggedEvents) -> Iterator[Event]:
    """Yield variables that force or disable something, set by a person and not by a plugin."""
    table = load_variables()
    by_plugin = {event.what.name for event in logged.of(NcclEnvironment) if event.what.by == "plugin"}
    for name, event in environment(logged).items():
        text = _text(event)
        row = table.find(name)
        if (
            row is None
            or name in _QUIET
            or name in by_plugin
            or row.use not in ("debugging", "forcing")
            or is_default(row, text)
        ):
            continue
        yield deduced(event, DeducedLeftoverVariable(name=name, value=text, why=_LEFT.get(name, row.costs)))


def _text(event: Event[NcclEnvironment]) -> str:
    return str(event.what.value).strip().rstrip(".")


def _on(event: Event[NcclEnvironment]) -> bool:
    return _text(event) not in ("", "0")


def _ineffective(
    event: Event[NcclEnvironment | NcclEnvironmentInvalid], why: str, fix: str, *, is_firm: bool = True
) -> Event:
    return deduced(event, DeducedIneffectiveVariable(name=event.what.name, firm=is_firm, why=why, fix=fix))


DEDUCTIONS = (without_effect, left_from_debugging)
