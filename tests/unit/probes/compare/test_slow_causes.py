"""Test that a cause explains a slow measurement only if the traffic passes the faulty part."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.compare.slow_causes import of_collective, of_network, of_peer_copy
from probes.facts import MachineFacts
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
