"""Write a policy from a good node: its values become the expectations for machines of its kind."""

import datetime
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard, TypeVar

import msgspec
import tomli_w

from probes.base.record import Record, StrictRecord, Unknown, items_of, known, map_known, printable, value_or
from probes.catalogue.hardware import Catalogue
from probes.catalogue.thresholds import load_thresholds
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.policies.compared import (
    GPU_AMOUNTS,
    GPU_MODES,
    NIC_AMOUNTS,
    VERSIONS,
    numa_node_count,
    service_states,
)
from probes.judging.policies.expected_versions import any_matches, complaint_of
from probes.judging.policies.policy import (
    GpuExpectation,
    HostExpectation,
    NicExpectation,
    Policy,
    SoftwareExpectation,
)
from probes.judging.rails import training_ports
from probes.parsers.kernel.command_line import kernel_arguments
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
# required = []       # if one of these cannot be carried out, the machine is not accepted
# not_required = []
# [checks.off]
# nofile = "why this check is off"

# [thresholds]        # limits that replace rigtune's own
# nofile_minimum = 65536
"""
_TAIL = """
# [[waivers]]         # a known problem that does not count until it expires
# check = "nic-state"
# subject = "mlx5_7"  # a pattern; without this line, every subject
# reason = "cable ordered"
# expires = 2027-01-31

# [[site_checks]]     # a command of yours; assistant/docs/policy.md says more
# name = "scratch"
# command = ["mountpoint", "/scratch"]

# [[hosts]]           # other expectations for some hosts
# names = ["gpu-b*"]
# [hosts.gpu]
# power_limit_w = 650
"""
_SECTIONS = {
    "gpu": "Every GPU.",
    "nic": "The ports that carry training, and the firmware of every card by its type.",
    "software": "Versions.",
    "host": "The rest of the machine. Remove file systems and services that other such "
    "machines need not have.",
}
_LARGEST = 2**63
"""Smallest positive integer that does not fit into TOML."""
_LONGEST = 200
"""Maximum number of characters of a value that is written as an expectation."""


class Doubt(Record, kw_only=True):
    """A reason why a learned value may come from a fault of the machine."""

    place: str
    """Field of the policy: `gpu.power_limit_w`."""
    reason: str


GPU_VALUES: dict[str, Callable[[Gpu], Any]] = {
    "memory_bytes": lambda gpu: gpu.memory_bytes,
    **{field: value_of for field, _, value_of in GPU_MODES},
    **{field: value_of for field, _, _, value_of in GPU_AMOUNTS},
    "power_limit_w": lambda gpu: map_known(gpu.power_limit_w, _rounded),
}
"""Fields that are learned if all GPUs have the same value, and the fact of a GPU."""
NIC_VALUES: dict[str, Callable[[Nic], Any]] = {
    "rate_gbps": lambda nic: nic.rate_gbps,
    **{field: value_of for field, _, value_of in NIC_AMOUNTS},
}
"""Fields that are learned if all training ports have the same value, and the fact of a port."""


def _rounded(watts: float) -> float:
    """Return the power limit to the nearest watt; drivers report fractions."""
    return float(round(watts)) if math.isfinite(watts) else watts


def learned_policy(facts: MachineFacts, catalogue: Catalogue) -> Policy:
    """Return the expectations that this machine meets.

    Values that could not be read are not expected. If the GPUs or ports differ in a value, no value is
    expected; but of VBIOS and NIC firmware, every version that occurs is expected.
    """
    return Policy(
        gpu=_gpu(facts, catalogue),
        nic=_nic(facts),
        software=SoftwareExpectation(**_versions_in("software", facts)),
        host=_host(facts),
    )


def policy_text(policy: Policy, name: str, day: datetime.date, doubts: tuple[Doubt, ...] = ()) -> str:
    """Write a learned policy as a commented file; `name` is the name of the machine.

    The reasons for doubt are comments above their fields.
    """
    parts = [_HEAD.format(name=_plain_line(name), day=day)]
    for section, comment in _SECTIONS.items():
        fields = stated(getattr(policy, section))
        reasons = [doubt for doubt in doubts if doubt.place.partition(".")[0] == section]
        if fields or reasons:
            parts.append(f"\n# {comment}\n" + _with_doubts(tomli_w.dumps({section: fields}), reasons))
    return "".join(parts) + _TAIL


def _with_doubts(text: str, doubts: list[Doubt]) -> str:
    """Return the lines of a section; each doubt is above its field, or at the head of the section."""
    lines = text.splitlines()
    for doubt in doubts:
        name = doubt.place.split(".", 2)[-1]
        heads = (f"{name} = ", f'"{name}" = ', f"[{doubt.place}]")
        at = next((number for number, line in enumerate(lines) if line.startswith(heads)), 0)
        lines.insert(at, f"# CHECK {doubt.place}: {_plain_line(doubt.reason)}")
    return "\n".join(lines) + "\n"


def _plain_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in printable(text))


def expectation_count(policy: Policy) -> int:
    """Return the number of values that the policy expects; a tolerance is not counted."""
    values = [
        value
        for section in _SECTIONS
        for field, value in stated(getattr(policy, section)).items()
        if field != "memory_tolerance_percent"
    ]
    return sum(len(value) if isinstance(value, (dict, list, tuple)) else 1 for value in values)


def stated(section: StrictRecord) -> dict[str, Any]:
    """Return the fields that state an expectation; a tolerance is returned only together with its field."""
    built = msgspec.to_builtins(section)
    fields = {field: value for field, value in built.items() if value not in (None, [], {}, ())}
    if "memory_bytes" not in fields:
        fields.pop("memory_tolerance_percent", None)
    return fields


def _gpu(facts: MachineFacts, catalogue: Catalogue) -> GpuExpectation:
    driver, gpus = _versions_in("gpu", facts), facts.gpus
    if isinstance(gpus, Unknown):
        return GpuExpectation(**driver)
    name = _only(gpu.name for gpu in gpus)
    row = catalogue.gpu(name) if name is not None else None
    shared: dict[str, Any] = {field: _only(map(value_of, gpus)) for field, value_of in GPU_VALUES.items()}
    shared = {field: value if isinstance(value, bool) else _size(value) for field, value in shared.items()}
    return GpuExpectation(
        **shared,
        **driver,
        model=row.id if row is not None else _name(name),
        count=len(gpus),
        vbios=_versions(gpu.vbios_version for gpu in gpus),
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
        **{field: _size(_only(map(value_of, active))) for field, value_of in NIC_VALUES.items()},
        count=len(active),
        link_layer="InfiniBand" if layer == "InfiniBand" else "Ethernet" if layer == "Ethernet" else None,
        firmware={kind: versions for kind, versions in firmware.items() if versions is not None},
        places={
            name: place for nic in active if (name := _name(nic.name)) and (place := _address(nic.pci_bus_id))
        },
    )


def _versions_in(section: str, facts: MachineFacts) -> dict[str, Any]:
    """Return the versions to expect, by their field in a section of the policy."""
    return {row.field: _version(row.value_of(facts)) for row in VERSIONS if row.section == section}


def _host(facts: MachineFacts) -> HostExpectation:
    software, limits = facts.software, load_thresholds()
    services = value_or(service_states(facts), {})
    arguments = map_known(facts.kernel.command_line, kernel_arguments)
    return HostExpectation(
        **_versions_in("host", facts),
        sysctl={
            row.name: row.value
            for row in items_of(facts.kernel.sysctls)
            if row.name in limits.learned_sysctls.value and _is_setting(row.value)
        },
        kernel_arguments=_names(
            argument
            for argument in items_of(arguments)
            if argument.partition("=")[0] in limits.learned_kernel_arguments.value and _is_plain(argument)
        ),
        memory_bytes=_size(facts.memory.total_bytes),
        cpus=_size(facts.cpu.logical_cpus),
        numa_nodes=_size(numa_node_count(facts)),
        mounts=_names(disk.mount for disk in items_of(facts.storage)),
        services=_names(name for name, state in services.items() if state == "active"),
        modules=_names(items_of(software.modules)),
    )


def _is_setting(value: int | str | Unknown) -> TypeGuard[int | str]:
    """Return whether the value of a kernel setting, used as an expectation, matches only the same value."""
    if isinstance(value, int):
        return abs(value) < _LARGEST
    return _name(value) is not None and known(value) and _is_plain(value) and value[:1] not in "<>=!"


def _is_plain(text: str) -> bool:
    return not any(character in text for character in '*?["')


def _size(value: Number | Unknown | None) -> Number | None:
    """Return the number if it is positive and finite."""
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
    """Return the version if, as an expectation, it is exact and neither a pattern nor a range."""
    name = _name(value)
    return name if name is not None and complaint_of(name) is None and any_matches(name, name) else None


def _address(value: str | Unknown) -> str | None:
    return value if known(value) and normal_address(value) == value else None


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for value in values if (name := _name(value)) is not None}))


def _name(value: str | Unknown | None) -> str | None:
    """Return the name if it is printable and not too long for a file that people read."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None
