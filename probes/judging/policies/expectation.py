"""Add the expectations of the command line to a policy: a catalogue machine, or a number of GPUs."""

from typing import NamedTuple

import msgspec

from probes.catalogue.hardware import Catalogue
from probes.judging.policies.policy import Policy


class Expected(NamedTuple):
    """A policy in which the expectations of the command line replace the expectations of the policy file."""

    policy: Policy
    stated_by: dict[str, str]
    """Command-line option by the field of the policy that it states: `gpu.count` by `--expect dgx-h100`."""


def with_expectations(
    policy: Policy, catalogue: Catalogue, *, machine: str | None, gpus: int | None
) -> Expected:
    """Return the policy that also expects the GPUs and training ports of a catalogue machine.

    If `gpus` is given, it is the expected number of GPUs. Raises UsageError for a machine that the catalogue
    does not have.
    """
    stated_by: dict[str, str] = {}
    gpu: dict[str, object] = {}
    nic: dict[str, object] = {}
    if machine is not None:
        row = catalogue.named_machine(machine)
        gpu = {"model": row.gpu, "count": row.gpu_count}
        if row.nic_count:
            nic["count"] = row.nic_count
            if row.nic_rate_gbps:
                nic["rate_gbps"] = row.nic_rate_gbps
            if row.nic_link_layer in _LINK_LAYERS:
                nic["link_layer"] = row.nic_link_layer
        named = [f"gpu.{name}" for name in gpu] + [f"nic.{name}" for name in nic]
        stated_by = dict.fromkeys(named, f"--expect {row.id}")
    if gpus is not None:
        gpu["count"] = gpus
        stated_by["gpu.count"] = f"--expect-gpus {gpus}"
    policy = msgspec.structs.replace(
        policy,
        gpu=msgspec.structs.replace(policy.gpu, **gpu),
        nic=msgspec.structs.replace(policy.nic, **nic),
    )
    return Expected(policy, stated_by)


def expects_gpus(policy: Policy) -> bool:
    """Return whether the policy states which GPUs, or how many, the machine must have."""
    return policy.gpu.count is not None or policy.gpu.model is not None


_LINK_LAYERS = ("InfiniBand", "Ethernet")
"""The link layers that a policy can expect; a port of EFA has neither."""
