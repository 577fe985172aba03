"""Test the report of a node: it contains a kernel setting of the policy, and names a benchmark without a
result.
"""

from __future__ import annotations

import msgspec

from assistant.usecases.fleet.node_side import node_report
from probes.facts.measurements import BenchFailure, MeasurementSet
from probes.fleet.node_report import MARK, NodeReport
from probes.fleet.node_side import unmeasured
from probes.judging.findings import Status
from probes.judging.policies.policy import Policy
from probes.sources.stored import Recording, StoredSource

SETTING = "/proc/sys/net/core/rmem_max"


def report(policy: Policy) -> NodeReport:
    source = StoredSource(Recording(title="node", files={SETTING: "212992\n"}))
    line = node_report(source, policy=policy, version="1", commit="", tier="quick", budget_s=60.0, suite=None)
    assert line.startswith(MARK)
    return msgspec.json.decode(line.removeprefix(MARK), type=NodeReport)


def test_a_kernel_setting_that_only_the_policy_names_is_read():
    host = msgspec.structs.replace(Policy().host, sysctl={"net.core.rmem_max": "1"})
    reasons = report(msgspec.structs.replace(Policy(), host=host)).reasons
    (about,) = (reason for reason in reasons if reason.check_id == "policy-host")
    assert about.status is Status.FAIL, about


def test_a_benchmark_without_a_result_is_named():
    failure = BenchFailure(bench_id="gemm", subject="host", kind="busy", message="the CPUs are busy")
    assert unmeasured(MeasurementSet(failures=(failure, failure))) == "gemm: the CPUs are busy (and 1 more)"
    assert unmeasured(MeasurementSet()) == ""
