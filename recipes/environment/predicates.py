"""Named conditions on facts, which rows of environment variables combine.

A predicate returns words for the value and the reason of a row, or None if the condition does not hold. An
unknown fact fulfils no condition, except that `imex_not_down` only excludes a known fault.
"""

import ipaddress
import re
from collections.abc import Callable

from probes.base.record import Unknown, items_of, known, only_known, value_or
from probes.base.units import percent
from probes.base.versions import at_least
from probes.catalogue.thresholds import load_thresholds
from probes.judging.rails import (
    candidate_interfaces,
    default_interface,
    is_up,
    meeting_interface,
    training_ports,
)
from recipes.environment.job_situation import Situation

Words = dict[str, str]
"""Texts that a predicate returns, by the names under which a row's `value` and `why` use them."""

_TIGHT = 0.9
"""Share of the memory limit above which fragmentation may determine whether a job fits."""
_FAST_GBPS = 40.0
"""Rate from which one TCP connection cannot fill an interface (NCCL user guide, NCCL_SOCKET_NTHREADS)."""
_AFFECTED = "GeForce RTX 40"
"""Boards for which old drivers wrongly report peer access, as in the check `peer-access-geforce`."""


def _holds(condition: object) -> Words | None:
    return {} if condition else None


def _cores_known(situation: Situation) -> Words | None:
    cores = situation.cluster.physical_cores_per_rank
    return None if cores is None else {"cores": str(cores)}


def _interfaces_ambiguous(situation: Situation) -> Words | None:
    """Return the interface of the default route if there are several candidates."""
    if len(items_of(candidate_interfaces(situation.facts))) < 2:
        return None
    interface = default_interface(situation.facts)
    return None if interface is None else {"interface": interface.name}


def _name_is_loopback(situation: Situation) -> Words | None:
    """Return the ranks' interface if the host's name resolves to the loopback, where gloo would listen."""
    interface = meeting_interface(situation.facts)
    addresses = items_of(situation.facts.naming.addresses)
    if interface is None or not any(map(_is_loopback, addresses)):
        return None
    return {"interface": interface.name}


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _training_ports(situation: Situation) -> Words | None:
    ports = ",".join(f"{port.name}:{port.port}" for port in items_of(training_ports(situation.facts)))
    return {"ports": ports} if ports else None


def _other_ports_active(situation: Situation) -> Words | None:
    """Return the ports that are up but not for training, because NCCL would use them too."""
    training = items_of(training_ports(situation.facts))
    others = [port for port in items_of(situation.facts.nics) if is_up(port) and port not in training]
    if not training or not others:
        return None
    return {"others": ", ".join(f"{port.name}:{port.port}" for port in others)}


def _several_rails(situation: Situation) -> Words | None:
    ports = items_of(training_ports(situation.facts))
    return {"rails": str(len(ports))} if len(ports) > 1 else None


def _common_roce_gid(situation: Situation) -> Words | None:
    """Return the index of the RoCE v2 entry with an IPv4 address, if it is the same on all training ports."""
    ports = items_of(training_ports(situation.facts))
    indices = {
        min((gid.index for gid in items_of(port.gids) if gid.kind == "RoCE v2" and gid.address), default=None)
        for port in ports
    }
    index = indices.pop() if len(indices) == 1 else None
    return None if index is None else {"index": str(index)}


def _network_proven(situation: Situation) -> Words | None:
    """Return the network that NCCL chose in a job on this machine, unless this was the fallback to TCP."""
    network = situation.facts.software.nccl_network
    if isinstance(network, Unknown) or network.lower() == "socket":
        return None
    return {"network": network}


def _memory_tight(situation: Situation) -> Words | None:
    """Return the share of the memory limit if it is large; None on WSL, which has no expandable segments."""
    limit = situation.cluster.memory_bytes_per_rank
    is_wsl = situation.facts.container.runtime == "wsl"
    if is_wsl or limit is None or situation.memory.upper < _TIGHT * limit.value:
        return None
    return {"share": percent(min(1.0, situation.memory.upper / limit.value))}


def _broken_peer_access(situation: Situation) -> Words | None:
    """Return the driver's version if it wrongly reports peer access between GeForce RTX 40 boards."""
    fixed = load_thresholds().geforce_peer_access_fixed.value
    gpus = items_of(situation.facts.gpus)
    drivers = [situation.facts.software.driver_version, *(gpu.driver_version for gpu in gpus)]
    driver = next((each for each in only_known(drivers) if each), None)
    is_old = driver is not None and at_least(driver, fixed) is False
    affected = [gpu for gpu in gpus if _AFFECTED in value_or(gpu.name, "")]
    return {"driver": str(driver)} if is_old and len(affected) > 1 else None


def _blocked_numa_calls(situation: Situation) -> Words | None:
    """Return the container's runtime if it withholds the system calls that place memory on a NUMA node."""
    container = situation.facts.container
    if not known(container.runtime) or container.runtime is None or not known(container.capabilities):
        return None
    return None if "sys_nice" in container.capabilities else {"runtime": container.runtime}


def _sharp_plugin(situation: Situation) -> Words | None:
    plugins = items_of(situation.facts.software.nccl_plugins)
    return _holds(any(re.search(r"sharp|hpcx", path) for path in plugins))


def _fast_interface(situation: Situation) -> Words | None:
    interface = meeting_interface(situation.facts)
    if interface is None or not known(interface.speed_gbps) or interface.speed_gbps < _FAST_GBPS:
        return None
    return {"interface": interface.name, "rate": f"{interface.speed_gbps:g}"}


def _mixed_gpus(situation: Situation) -> Words | None:
    return _holds(len(set(only_known(gpu.name for gpu in items_of(situation.facts.gpus)))) > 1)


def _divided_layers(situation: Situation) -> Words | None:
    """Return an empty dict if tp or cp is above 1 and parameters are not sharded, else None."""
    degrees = situation.degrees
    return _holds((degrees.tp > 1 or degrees.cp > 1) and situation.sharding != "zero3")


PREDICATES: dict[str, Callable[[Situation], Words | None]] = {
    "cores_known": _cores_known,
    "interfaces_ambiguous": _interfaces_ambiguous,
    "name_is_loopback": _name_is_loopback,
    "training_ports": _training_ports,
    "other_ports_active": _other_ports_active,
    "several_rails": _several_rails,
    "common_roce_gid": _common_roce_gid,
    "network_proven": _network_proven,
    "memory_tight": _memory_tight,
    "broken_peer_access": _broken_peer_access,
    "blocked_numa_calls": _blocked_numa_calls,
    "imex_up": lambda situation: _holds(situation.facts.software.imex == "UP"),
    "imex_not_down": lambda situation: _holds(
        isinstance(situation.facts.software.imex, Unknown) or situation.facts.software.imex == "UP"
    ),
    "sharp_plugin": _sharp_plugin,
    "fast_interface": _fast_interface,
    "mixed_gpus": _mixed_gpus,
    "divided_layers": _divided_layers,
    "sharded_parameters": lambda situation: _holds(situation.sharding == "zero3"),
}
