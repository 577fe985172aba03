"""Variables that are in force: without effect, or left from debugging."""

from __future__ import annotations

from collections.abc import Iterator

from probes.catalogue.nccl_variables import is_default, load_variables, misread
from probes.logs.deducing.common import environment, found
from probes.logs.event import Event
from probes.logs.seen import Seen

_QUIET = frozenset(
    {
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_DEBUG_FILE",
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "NCCL_DEBUG_TIMESTAMP_LEVELS",
    }
)
"""That print what is read here."""
_LEFT = {
    "NCCL_P2P_DISABLE": "GPUs of a node talk through the host's memory",
    "NCCL_SHM_DISABLE": "ranks of a node without peer-to-peer talk over the network",
    "NCCL_IB_DISABLE": "RDMA is off",
    "NCCL_NVLS_ENABLE": "NVLink SHARP is off",
    "NCCL_NET_GDR_LEVEL": "GPUDirect RDMA is limited by distance",
    "NCCL_PROTO": "the tuner may not choose the protocol",
    "NCCL_ALGO": "the tuner may not choose the algorithm",
}


def without_effect(seen: Seen) -> Iterator[Event]:
    """What was set and does not do what it should."""
    variables = environment(seen)
    network = {str(event.fields.get("name")) for event in seen.of("nccl.network")}
    plugins = " ".join(str(event.fields.get("name", "")) for event in seen.of("nccl.plugin-loaded"))
    ibext, ib = variables.get("NCCL_IBEXT_DISABLE"), variables.get("NCCL_IB_DISABLE")
    if ibext is not None and _on(ibext) and (ib is None or not _on(ib)) and seen.has("nccl.hcas"):
        yield _ineffective(
            ibext,
            1,
            "it switches off the plugin alone, and NCCL's own InfiniBand transport takes over",
            "Set NCCL_IB_DISABLE=1 as well (or remove the plugin) to use sockets.",
        )
    external = any("ext" in name.lower() for name in network) or (
        not network and "ext" in plugins.lower() and seen.has("nccl.hcas")
    )
    if ib is not None and _on(ib) and external and (ibext is None or not _on(ibext)):
        yield _ineffective(
            ib,
            1,
            "the external plugin does not read it",
            "Set NCCL_IBEXT_DISABLE=1 as well, or NCCL_NET_PLUGIN=none.",
        )
    for event in seen.of("nccl.environment-invalid"):
        yield _ineffective(
            event,
            0,
            f"NCCL cannot read the value {event.fields.get('value', '')!r} and uses its default",
            "Write a value that the documentation allows.",
        )
    table = load_variables()
    for name, event in variables.items():
        row = table.find(name)
        text = str(event.fields.get("value", "")).strip().rstrip(".")
        if (
            row is not None
            and event.fields.get("by") != "plugin"
            and (read := misread(row, text)) is not None
        ):
            yield _ineffective(
                event, 0, f"NCCL reads {text!r} as {read}", "Write a value that the documentation allows."
            )


def left_from_debugging(seen: Seen) -> Iterator[Event]:
    """What forces or switches off, set by a person and not by a plugin."""
    table = load_variables()
    by_plugin = {
        str(event.fields.get("name"))
        for event in seen.of("nccl.environment")
        if event.fields.get("by") == "plugin"
    }
    for name, event in environment(seen).items():
        text = str(event.fields.get("value", "")).strip().rstrip(".")
        row = table.find(name)
        if (
            row is None
            or name in _QUIET
            or name in by_plugin
            or row.use not in ("debugging", "forcing")
            or is_default(row, text)
        ):
            continue
        yield found("leftover-variable", event, name=name, value=text, why=_LEFT.get(name, row.costs))


def _on(event: Event) -> bool:
    return str(event.fields.get("value", "")).strip().rstrip(".") not in ("", "0")


def _ineffective(event: Event, firm: int, why: str, fix: str) -> Event:
    return found(
        "ineffective-variable", event, name=str(event.fields.get("name", "")), firm=firm, why=why, fix=fix
    )


DEDUCTIONS = (without_effect, left_from_debugging)
