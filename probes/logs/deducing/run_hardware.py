"""The hardware of a run, as far as its logs name it."""

from __future__ import annotations

from probes.base.units import GB
from probes.catalogue.hardware import MachineModel, load_catalogue
from probes.logs.events.compared_events import MachineGpu, MachinePort
from probes.logs.events.measurement_events import NcclTestsRank
from probes.logs.events.nccl_network_events import NcclHca, NcclHcas, OfiPlatform, OfiProvider
from probes.logs.events.nccl_topology_events import NcclTopology
from probes.logs.seen import Seen

_BITS = 8


def nic_rate(seen: Seen) -> float | None:
    """Return the bytes per second of all HCAs of the host that names most of them.

    None where neither the logs nor the machine's facts report a speed.
    """
    by_host: dict[str, dict[str, int]] = {}
    for event in seen.of(NcclHca):
        by_host.setdefault(event.host or "", {})[f"{event.what.name}:{event.what.port}"] = (
            event.what.speed_mbps
        )
    used = used_hcas(seen)
    best = max(by_host.values(), key=len, default={})
    chosen = {name: speed for name, speed in best.items() if not used or name in used}
    if chosen and not used - chosen.keys():
        return sum(chosen.values()) * 1e6 / _BITS
    if used and (rate := _rate_beside(seen, used)) is not None:
        return rate
    model = machine(seen)
    return (
        model.nic_count * model.nic_rate_gbps * 1e9 / _BITS
        if model is not None and model.nic_rate_gbps
        else None
    )


def _rate_beside(seen: Seen, used: set[str]) -> float | None:
    """Return the rate of the ports in use by the machine's facts, else by NCCL's topology with one speed."""
    ports = {f"{event.what.name}:{event.what.port}": event.what.gbps for event in seen.of(MachinePort)}
    speeds = [ports[name] for name in used if name in ports]
    if len(speeds) == len(used):
        return sum(speeds) * 1e9 / _BITS
    of_adapters = {event.what.gbps for event in seen.of(NcclTopology) if event.what.link == "NET"}
    speed = of_adapters.pop() if len(of_adapters) == 1 else None
    return None if not speed else len(used) * speed * GB


def machine(seen: Seen) -> MachineModel | None:
    """Return the kind of machine that a plugin names and all of whose adapters it uses."""
    for event in seen.of(OfiPlatform):
        for model in load_catalogue().machines_sold_as(event.what.name):
            nics = [provider.what.nics for provider in seen.of(OfiProvider)]
            if set(nics) <= {model.nic_count, None}:
                return model
    return None


def gpu_id(seen: Seen) -> str | None:
    """Return the only GPU model that the logs name, else that of the machine's facts."""
    names = {event.what.name for event in seen.of(NcclTestsRank) if event.what.name}
    names = names or {event.what.name for event in seen.of(MachineGpu)}
    if len(names) != 1:
        sold = machine(seen)
        return None if names or sold is None else sold.gpu
    model = load_catalogue().gpu(next(iter(names)))
    return None if model is None else model.id


def used_hcas(seen: Seen) -> set[str]:
    """Return the HCAs that NCCL lists in the process with most of them."""
    most: list[str] = []
    for event in seen.of(NcclHcas):
        names = event.what.names.split(",")
        most = names if len(names) > len(most) else most
    return set(most)
