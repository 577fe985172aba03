"""Test what logs, pasted texts and errors of recorded machines show about drivers and NCCL's variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from probes.sources.loose import open_loose
from tests.support.machines import evidence_of

SHARED = Path(os.environ.get("RIGTUNE_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "machines"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded machines are not here")
ROWS = {row.id: row for row in CHECKS}


def facts_of(*paths: str) -> MachineFacts:
    source = open_loose([(path, (SHARED / path).read_bytes()) for path in paths])
    return assemble(source.title, gather(source, CollectOptions()))


def said(check_id: str, facts: MachineFacts) -> set[Status]:
    row = ROWS[check_id]
    return {finding.status for finding in row.run(evidence_of(facts))}


def test_module_and_library_of_the_driver_differ() -> None:
    facts = facts_of(
        "nvsmi_text/err-driver-library-mismatch-580.txt",
        "kernel_log/proc-driver-nvidia-version-580.173.02.txt",
    )
    assert (facts.software.driver_version, facts.software.driver_library_version) == ("580.173.02", "580.178")


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("nccl_log/p2p-could-not-enable-a100-2gpu.log", "NCCL_ALGO", "Tree"),
        ("nccl_log/p2p-disabled-azure-a100-pcie-vm.log", "NCCL_IB_DISABLE", "1"),
        ("nccl_log/dgx-a100-cannot-disable-ibext.log", "NCCL_SOCKET_IFNAME", "en"),
    ],
)
def test_variables_that_a_log_names(path: str, name: str, value: str) -> None:
    environment = facts_of(path).environment
    assert isinstance(environment, tuple)
    assert (name, value) in {(variable.name, variable.value) for variable in environment}


def test_leftovers_in_a_job_are_found() -> None:
    assert said("nccl-forced", facts_of("nccl_log/p2p-could-not-enable-a100-2gpu.log")) == {Status.WARN}
    assert said("nccl-debug-settings", facts_of("nccl_log/p2p-disabled-azure-a100-pcie-vm.log")) == {
        Status.WARN
    }


def test_a_variable_that_a_plugin_sets_is_no_leftover() -> None:
    assert said("nccl-forced", facts_of("nccl_log/aws-p4d-2node-16gpu-efa-2.16-healthy.log")) == {Status.PASS}
