"""Write a policy from a good node: its values become the expectations for machines of its kind."""

import datetime
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import tomli_w

from probes.base.record import StrictRecord, Unknown, items_of, known, printable, value_or
from probes.catalogue.hardware import Catalogue
from probes.facts import MachineFacts
from probes.judging.environment_values import nccl_version
from probes.judging.policies.expected_versions import any_matches, complaint_of
from probes.judging.policies.policy import (
    GpuExpectation,
    HostExpectation,
    NicExpectation,
    Policy,
    SoftwareExpectation,
)
from probes.judging.rails import training_ports
from probes.parsers.topology.pci_addresses import normal_address

Number = TypeVar("Number", int, float)
Value = TypeVar("Value", str, bool, int, float)

_HEAD = """\
# What rigtune expects of machines like {name}, learned from it on {day}.
# Use it with `rigtune check --policy FILE` or RIGTUNE_POLICY. What is left out is not expected; edit freely.
# A version is exact ("550.90.07"), a pattern ("550.90.*"), a range (">=550.90,<581"), or a list of those.

schema_version = 1
# fail_on = "warn"    # warnings end with exit code 1, too

# [checks]            # ids as in `rigtune list checks`
# required = []       # where one of these cannot be made, the machine is not accepted
# not_required = []
# [checks.off]
# nofile = "why it is not made here"

# [thresholds]        # other limits than rigtune's own
# nofile_minimum = 65536
"""
_TAIL = """
# [[waivers]]         # a known problem that does not count until it expires
# check = "nic-state"
# subject = "mlx5_7"  # a pattern; left out, every subject
# reason = "cable ordered"
# expires = 2027-01-31
"""
_SECTIONS = {
    "gpu": "Every GPU.",
    "nic": "The ports that carry training, and the firmware of every card by its type.",
    "software": "Versions.",
    "host": "The rest of the machine. Remove file systems and services that other such "
    "machines need not have.",
}
_LONGEST = 200
"""Maximum number of characters of a value that is written as an expectation."""


def learned_policy(facts: MachineFacts, catalogue: Catalogue) -> Policy:
    """Return the expectations that this machine meets.

    Values that could not be read, or that differ between its parts, are not expected.
    """
    return Policy(gpu=_gpu(facts, catalogue), nic=_nic(facts), software=_software(facts), host=_host(facts))


def policy_text(policy: Policy, name: str, day: datetime.date) -> str:
    """Write a learned policy as a commented file; `name` is the name of the machine."""
    title = "".join(character if character.isprintable() else "?" for character in printable(name))
    parts = [_HEAD.format(name=title, day=day)]
    for section, comment in _SECTIONS.items():
        fields = _stated(getattr(policy, section))
        if fields:
            parts.append(f"\n# {comment}\n" + tomli_w.dumps({section: fields}))
    return "".join(parts) + _TAIL


def expectation_count(policy: Policy) -> int:
    """Return the number of values that the policy expects."""
    values = [value for section in _SECTIONS for value in _stated(getattr(policy, section)).values()]
    return sum(len(value) if isinstance(value, (dict, list)) else 1 for value in values)


def _stated(section: StrictRecord) -> dict[str, Any]:
    """Return the fields that state an expectation; a tolerance is returned only together with its field."""
    built = msgspec.to_builtins(section)
    fields = {field: value for field, value in built.items() if value not in (None, [], {}, ())}
    if "memory_bytes" not in fields:
        fields.pop("memory_tolerance_percent", None)
    return fields


def _gpu(facts: MachineFacts, catalogue: Catalogue) -> GpuExpectation:
    driver, gpus = facts.software.driver_version, facts.gpus
    if isinstance(gpus, Unknown):
        return GpuExpectation(driver=_version(driver))
    name = _only(gpu.name for gpu in gpus)
    row = catalogue.gpu(name) if name is not None else None
    return GpuExpectation(
        model=row.id if row is not None else _name(name),
        count=len(gpus),
        memory_bytes=_size(_only(gpu.memory_bytes for gpu in gpus)),
        vbios=_versions(gpu.vbios_version for gpu in gpus),
        driver=_version(driver if known(driver) or not gpus else gpus[0].driver_version),
        mig=_only(gpu.mig_enabled for gpu in gpus),
    )


def _nic(facts: MachineFacts) -> NicExpectation:
    nics, active = facts.nics, training_ports(facts)
    if isinstance(nics, Unknown) or isinstance(active, Unknown):
        return NicExpectation()
    kinds = sorted({kind for nic in nics if (kind := _name(nic.device_type)) is not None})
    firmware = {
        kind: _versions(nic.firmware_version for nic in nics if nic.device_type == kind) for kind in kinds
    }
    layer = _only(nic.link_layer for nic in active)
    return NicExpectation(
        count=len(active),
        rate_gbps=_size(_only(nic.rate_gbps for nic in active)),
        link_layer="InfiniBand" if layer == "InfiniBand" else "Ethernet" if layer == "Ethernet" else None,
        firmware={kind: versions for kind, versions in firmware.items() if versions is not None},
        places={
            name: place for nic in active if (name := _name(nic.name)) and (place := _address(nic.pci_bus_id))
        },
    )


def _software(facts: MachineFacts) -> SoftwareExpectation:
    software = facts.software
    return SoftwareExpectation(
        operating_system=_version(software.operating_system),
        kernel=_version(software.kernel),
        cuda=_version(software.cuda_driver_version),
        cuda_toolkit=_version(software.cuda_toolkit_version),
        nccl=_version(nccl_version(facts)),
        torch=_version(facts.training.torch_version),
        fabric_manager=_version(software.fabric_manager_version),
    )


def _host(facts: MachineFacts) -> HostExpectation:
    software, nodes = facts.software, facts.numa_nodes
    services = items_of(software.services)
    return HostExpectation(
        memory_bytes=_size(facts.memory.total_bytes),
        cpus=_size(facts.cpu.logical_cpus),
        numa_nodes=_size(sum(node.is_gpu_memory is not True for node in nodes)) if known(nodes) else None,
        mounts=_names(disk.mount for disk in items_of(facts.storage)),
        services=_names(service.name for service in services if service.value == "active"),
        modules=_names(items_of(software.modules)),
    )


def _size(value: Number | Unknown | None) -> Number | None:
    """Return the number if it is a possible value for a machine."""
    return value if known(value) and value is not None and 0 < value < math.inf else None


def _only(values: Iterable[Value | Unknown]) -> Value | None:
    """Return the common value; None if the values differ, if one is unknown, or if there are none."""
    different = set(values)
    return value_or(different.pop(), None) if len(different) == 1 else None


def _versions(values: Iterable[str | Unknown]) -> str | tuple[str, ...] | None:
    """Return all versions that occur; None if one of them cannot be written as an expectation."""
    plain_versions = [_version(value) for value in sorted(set(values), key=str)]
    if not plain_versions or None in plain_versions:
        return None
    versions = tuple(version for version in plain_versions if version is not None)
    return versions[0] if len(versions) == 1 else versions


def _version(value: str | Unknown | None) -> str | None:
    """Return the version if, read as an expectation, it matches only itself: it is no pattern or range."""
    name = _name(value)
    return name if name is not None and complaint_of(name) is None and any_matches(name, name) else None


def _address(value: str | Unknown) -> str | None:
    return value if known(value) and normal_address(value) == value else None


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for value in values if (name := _name(value)) is not None}))


def _name(value: str | Unknown | None) -> str | None:
    """Return the name if it can be written to a UTF-8 file and read by a person."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None
