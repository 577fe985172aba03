"""Test how many faults the comparison detects, and its false alarms, on fleets whose faults are known."""

from __future__ import annotations

import msgspec
import pytest

from probes.fleet.comparing.compare_nodes import compare_nodes
from tests.support.simulated_fleet import Fleet, past_of


def nodes_of(findings, *kinds: str) -> set[str]:
    return {node for finding in findings if finding.kind in kinds for node in finding.nodes}


def subjects_of(findings, *kinds: str) -> list[str]:
    return [finding.subject for finding in findings if finding.kind in kinds]


@pytest.mark.parametrize("nodes", [4, 32, 500])
@pytest.mark.parametrize("seed", range(4))
def test_a_gpu_that_is_10_percent_slow_is_found_and_no_other(nodes, seed):
    fleet = Fleet(nodes, seed, factor=lambda node, gpu: 0.9 if (node, gpu) == (1, 3) else 1.0)
    findings = compare_nodes(fleet.run())
    assert "n1 GPU3" in subjects_of(findings, "slow-part", "suspect-part")
    assert nodes_of(findings, "slow-part") <= {"n1"}


@pytest.mark.slow
def test_power_and_false_alarms_of_peers_at_2000_nodes():
    slow = {node: 0.9 if node % 40 else 0.95 for node in range(0, 2000, 20)}
    missed, wrong, suspects = 0, 0, 0
    for seed in range(3):
        fleet = Fleet(2000, seed, factor=lambda node, gpu: slow.get(node, 1.0) if gpu == 0 else 1.0)
        findings = compare_nodes(fleet.run())
        sure = nodes_of(findings, "slow-part")
        tenth = {f"n{node}" for node, factor in slow.items() if factor == 0.9}
        twentieth = {f"n{node}" for node, factor in slow.items() if factor == 0.95}
        missed += len(tenth - sure)
        wrong += len(sure - tenth - twentieth)
        suspects += len(twentieth & nodes_of(findings, "slow-part", "suspect-part"))
    assert missed <= 1  # of about 150 GPUs that are 10 % slow
    assert wrong == 0
    assert suspects >= 0.6 * 150


@pytest.mark.parametrize(("slow", "least"), [(0.95, 1.0), (0.97, 0.95)])
def test_comparison_with_earlier_runs_finds_gpus_that_are_a_little_slower(slow, least):
    faulty = range(0, 400, 20)
    fleet = Fleet(400, 7, factor=lambda node, gpu: slow if node in faulty and gpu == 0 else 1.0)
    past = past_of([fleet.run(with_faults=False) for _ in range(8)])
    worse = nodes_of(compare_nodes(fleet.run(), past), "slower-than-before")
    expected = {f"n{node}" for node in faulty}
    assert len(worse & expected) >= least * len(expected)
    assert not worse - expected


def test_a_change_of_the_whole_fleet_is_one_finding():
    fleet = Fleet(200, 3)
    past = past_of([fleet.run() for _ in range(8)])
    findings = compare_nodes(fleet.run(change=0.985), past)
    assert [finding.kind for finding in findings] == ["common-mode"]
    assert findings[0].change == pytest.approx(-0.015, abs=0.002)


def test_two_earlier_runs_are_too_few_to_judge():
    fleet = Fleet(50, 1, factor=lambda node, gpu: 0.95 if node == 1 else 1.0)
    past = past_of([fleet.run(with_faults=False) for _ in range(2)])
    assert not nodes_of(compare_nodes(fleet.run(), past), "slower-than-before", "common-mode")


def vbios(node: int) -> str:
    return "96.00.61" if node % 16 == 3 else "96.00.74"


@pytest.mark.parametrize("seed", range(5))
def test_a_firmware_that_is_2_percent_slow_is_named_once(seed):
    fleet = Fleet(
        1024,
        seed,
        rack_sd=0.005,
        factor=lambda node, gpu: 0.98 if vbios(node) == "96.00.61" else 1.0,
        attributes=lambda node: {
            "vbios": vbios(node),
            "switch": f"s{node // 128}",
            "pdu": f"p{node // 64}",
            "batch": f"b{node % 40}",
        },
    )
    causes = [finding for finding in compare_nodes(fleet.run()) if finding.kind == "common-cause"]
    assert [finding.subject for finding in causes] == ["vbios = 96.00.61"]
    assert causes[0].change == pytest.approx(-0.02, abs=0.003)
    assert len(causes[0].nodes) == 64


@pytest.mark.parametrize("seed", range(5))
def test_racks_that_differ_without_a_fault_are_no_cause(seed):
    attributes = {"switch": 128, "pdu": 64, "image": 400}
    fleet = Fleet(
        1600,
        seed,
        rack_sd=0.005,
        attributes=lambda node: {
            **{name: f"{name}{node // size}" for name, size in attributes.items()},
            "batch": f"b{node % 37}",
            "nic_firmware": f"f{node % 5}",
        },
    )
    assert not subjects_of(compare_nodes(fleet.run()), "common-cause")


def test_a_slow_switch_is_named_without_its_racks_and_power_units():
    fleet = Fleet(
        2048,
        5,
        factor=lambda node, gpu: 0.95 if node // 256 == 2 else 1.0,
        attributes=lambda node: {"switch": f"s{node // 256}", "pdu": f"p{node // 64}"},
        rack_sd=0.002,
    )
    assert subjects_of(compare_nodes(fleet.run()), "common-cause") == ["switch = s2"]


@pytest.mark.parametrize("share", [0.3, 0.4, 0.6])
def test_a_large_bad_part_of_a_group_is_reported_as_two_humps(share):
    fleet = Fleet(200, 2, factor=lambda node, gpu: 0.88 if node < 200 * share else 1.0)
    findings = compare_nodes(fleet.run())
    (humps,) = (finding for finding in findings if finding.kind == "two-humps")
    assert humps.change == pytest.approx(-0.12, abs=0.01)
    assert set(humps.nodes) >= {f"n{node}" for node in range(int(200 * share))}


def test_few_parts_have_no_peers():
    (finding,) = compare_nodes(Fleet(1, 1, factor=lambda node, gpu: 0.5 if gpu else 1.0).run())
    assert finding.kind == "few-peers"


def test_kinds_of_gpus_are_not_compared_with_each_other():
    fleet = Fleet(
        64,
        1,
        factor=lambda node, gpu: (0.6 if node % 2 else 1.0) * (0.9 if (node, gpu) == (3, 1) else 1.0),
        attributes=lambda node: {"gpu_model": "H100 PCIe" if node % 2 else "H100"},
    )
    findings = [finding for finding in compare_nodes(fleet.run()) if finding.kind != "mixed"]
    assert [(finding.kind, finding.subject) for finding in findings] == [("slow-part", "n3 GPU1")]


def with_samples(report, gpu: int, samples: tuple[float, ...]):
    metrics = list(report.metrics)
    metrics[gpu] = msgspec.structs.replace(metrics[gpu], samples=samples)
    return msgspec.structs.replace(report, metrics=tuple(metrics))


def test_bursts_are_found_although_the_median_is_that_of_the_peers():
    reports = Fleet(20, 4).run()
    steady = [7e14 * (1 + 0.001 * (number % 5)) for number in range(20)]
    reports = [with_samples(report, gpu, tuple(steady)) for report in reports for gpu in [0]]
    bursts = tuple(value * (0.7 if number % 4 == 0 else 1) for number, value in enumerate(steady))
    reports[5] = with_samples(reports[5], 0, bursts)
    assert subjects_of(compare_nodes(reports), "bursts") == ["n5 GPU0"]


def test_disturbed_measurements_judge_no_part():
    reports = Fleet(40, 1, factor=lambda node, gpu: 0.5 if node == 1 else 1.0).run()
    metrics = tuple(msgspec.structs.replace(metric, quality="busy") for metric in reports[1].metrics)
    reports[1] = msgspec.structs.replace(reports[1], metrics=metrics)
    assert not compare_nodes(reports)


def test_times_are_worse_when_they_are_longer():
    reports = [
        msgspec.structs.replace(
            report,
            metrics=tuple(
                msgspec.structs.replace(
                    metric,
                    metric="step_time_s",
                    is_larger_better=False,
                    samples=tuple(1e14 / sample for sample in metric.samples),
                )
                for metric in report.metrics
            ),
        )
        for report in Fleet(40, 1, factor=lambda node, gpu: 0.9 if (node, gpu) == (1, 3) else 1.0).run()
    ]
    assert subjects_of(compare_nodes(reports), "slow-part") == ["n1 GPU3"]
