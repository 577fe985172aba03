"""Test that a cause explains a slow measurement only if the traffic passes the faulty part."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.compare.slow_causes import forbids_nvls, of_collective, of_network, of_peer_copy
from probes.facts import MachineFacts
from tests.support.check_cases_measured import variable
from tests.support.machines import evidence_of, h100_node, with_gpus
from tests.support.machines_pci import bridge_address


def redirecting(facts: MachineFacts) -> MachineFacts:
    """Return the facts with ACS on the bridge above GPU2."""
    devices = tuple(
        msgspec.structs.replace(device, acs=("request_redirect",))
        if device.bus_id == bridge_address(2)
        else device
        for device in facts.pci_devices
    )
    return msgspec.structs.replace(facts, pci_devices=devices)


NVLINKED = redirecting(h100_node())
OVER_PCIE = with_gpus(NVLINKED, nvlinks=NOT_RECORDED)


@pytest.mark.parametrize(("facts", "explains"), [(NVLINKED, False), (OVER_PCIE, True)])
def test_redirects_do_not_slow_what_goes_over_nvlink(facts, explains):
    evidence = evidence_of(facts)
    for cause in (of_peer_copy(evidence, ("GPU2", "GPU3")), of_collective(evidence)):
        assert (cause is not None and bridge_address(2) in cause.words) is explains


def test_redirects_slow_what_goes_from_gpus_to_nics():
    assert bridge_address(2) in of_network(evidence_of(NVLINKED)).words
    assert of_network(evidence_of(h100_node())) is None


@pytest.mark.parametrize(
    ("name", "value", "forbids"),
    [
        ("NCCL_NVLS_ENABLE", "0", True),
        ("NCCL_NVLS_ENABLE", "1", False),
        ("NCCL_ALGO", "Ring,Tree", True),
        ("NCCL_ALGO", "Ring,NVLS", False),
        ("NCCL_ALGO", "^Ring", False),
        ("NCCL_ALGO", "^NVLS,NVLSTree", True),
        ("NCCL_ALGO", "nvls; allreduce:ring", True),
        ("NCCL_ALGO", "ring;allreduce:nvls", False),
        ("NCCL_ALGO", "allgather:ring", False),
    ],
)
def test_a_variable_can_keep_an_all_reduce_out_of_the_switch(name, value, forbids):
    assert forbids_nvls(variable(name, value)) == (f"{name}={value}" if forbids else "")
