"""The hardware of a run, as far as its logs name it."""

from __future__ import annotations

from probes.base.units import GB
from probes.catalogue.hardware import MachineModel, load_catalogue
from probes.logs.deducing.common import whole
from probes.logs.seen import Seen, number

_BITS = 8


def nic_rate(seen: Seen) -> float | None:
    """Bytes per second of all HCAs of the host that names most of them; None where a speed is told neither by
    the logs nor by the machine's facts.
    """
    by_host: dict[str, dict[str, int]] = {}
    for event in seen.of("nccl.hca"):
        speed = whole(event.fields.get("speed_mbps"))
        if speed is None:
            return None
        by_host.setdefault(event.host or "", {})[f"{event.fields.get('name')}:{event.fields.get('port')}"] = (
            speed
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
    """By the machine's facts of the ports that are used, else by the one speed of all adapters in NCCL's
    topology.
    """
    ports = {
        f"{event.fields.get('name')}:{event.fields.get('port')}": event for event in seen.of("machine.port")
    }
    speeds = [number(ports[name].fields.get("gbps")) for name in used if name in ports]
    if len(speeds) == len(used) and None not in speeds:
        return sum(speed for speed in speeds if speed is not None) * 1e9 / _BITS
    told = {
        number(event.fields.get("gbps"))
        for event in seen.of("nccl.topology")
        if event.fields.get("link") == "NET"
    }
    speed = told.pop() if len(told) == 1 else None
    return None if not speed else len(used) * speed * GB


def machine(seen: Seen) -> MachineModel | None:
    """The kind of machine that a plugin names, all of whose adapters it uses."""
    for event in seen.of("ofi.platform"):
        for model in load_catalogue().machines_sold_as(str(event.fields.get("name"))):
            nics = [whole(provider.fields.get("nics")) for provider in seen.of("ofi.provider")]
            if set(nics) <= {model.nic_count, None}:
                return model
    return None


def gpu_id(seen: Seen) -> str | None:
    """The one GPU model that the logs name, or else the machine's facts."""
    names = {
        str(event.fields.get("name")) for event in seen.of("nccl_tests.rank") if event.fields.get("name")
    }
    names = names or {str(event.fields.get("name")) for event in seen.of("machine.gpu")}
    if len(names) != 1:
        sold = machine(seen)
        return None if names or sold is None else sold.gpu
    model = load_catalogue().gpu(next(iter(names)))
    return None if model is None else model.id


def used_hcas(seen: Seen) -> set[str]:
    """The HCAs that NCCL lists, of the process with most of them."""
    most: list[str] = []
    for event in seen.of("nccl.hcas"):
        names = str(event.fields.get("names", "")).split(",")
        most = names if len(names) > len(most) else most
    return set(most)
