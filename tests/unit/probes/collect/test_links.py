"""Test links and peer access from several sources, and what other tools measured and diagnosed."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.given import collect_diagnoses, collect_tool_results
from probes.collect.topology import collect_topology
from probes.facts import Link, LinkKind, PeerAccess
from probes.reading.merging import merge_links
from probes.sources.base import NvmlValue
from probes.sources.loose import open_loose
from tests.support.fake_source import FakeSource

OPTIONS = CollectOptions()
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV{count}\t0-3\nGPU1\tNV{count}\tX\t0-3\n"
PEERS = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n"


def link(kind: LinkKind | Unknown, source: str, count: int | None = None) -> Link:
    return Link(
        a="GPU0", b="GPU1", kind=kind, nvlink_count=count, evidence=(EvidenceRef(source="paste", key=source),)
    )


def test_nvlink_goes_before_a_distance_and_a_distance_before_nothing() -> None:
    nothing = link(Unknown(Reason.NOT_RECORDED), "sysfs")
    (merged,), contradictions = merge_links(
        ((nothing,), (link("SYS", "lspci"),), (link("NVLINK", "topo", 18),))
    )
    assert (merged.kind, merged.nvlink_count) == ("NVLINK", 18)
    assert [ref.key for ref in merged.evidence] == ["sysfs", "lspci", "topo"]
    assert contradictions == ()
    assert merge_links(((nothing,), (link("SYS", "lspci"),)))[0][0].kind == "SYS"


def test_different_numbers_of_links_contradict_each_other() -> None:
    (merged,), (contradiction,) = merge_links(((link("NVLINK", "nvml", 17),), (link("NVLINK", "topo", 18),)))
    assert merged.nvlink_count == 17
    assert (contradiction.subject, contradiction.field) == ("GPU0-GPU1", "nvlink_count")
    assert [reading.value for reading in contradiction.readings] == ["17", "18"]


def test_two_matrices_are_merged_and_each_link_names_its_file() -> None:
    texts = [(f"{count}.txt", MATRIX.format(count=count).encode()) for count in (12, 18)]
    collected = collect_topology(open_loose(texts), OPTIONS)
    assert isinstance(collected["links"], tuple)
    (merged,) = collected["links"]
    assert {ref.key for ref in merged.evidence} == {"12.txt", "18.txt"}
    assert len(collected["contradictions"]) == 1  # type: ignore[arg-type]


def test_peer_access_of_a_paste() -> None:
    access = collect_topology(open_loose([("p2p.txt", PEERS.encode())]), OPTIONS)["peer_access"]
    assert isinstance(access, tuple)
    assert [(pair.a, pair.b, pair.status) for pair in access] == [
        ("GPU0", "GPU1", "CNS"),
        ("GPU1", "GPU0", "CNS"),
    ]
    assert access[0].evidence == (EvidenceRef(source="paste", key="p2p.txt", detail="line 2"),)


def test_peer_access_by_nvml_once_per_pair() -> None:
    def nvml(call: str, *args: int) -> NvmlValue | Unknown:
        return {"nvmlDeviceGetCount": 3, "nvmlDeviceGetP2PStatus": 4 if args == (0, 2, 0) else 0}.get(
            call, NOT_RECORDED
        )

    access = collect_topology(FakeSource(nvml=nvml), OPTIONS)["peer_access"]
    assert isinstance(access, tuple)
    assert all(isinstance(pair, PeerAccess) for pair in access)
    assert [(pair.a, pair.b, pair.status) for pair in access] == [
        ("GPU0", "GPU1", "OK"),
        ("GPU0", "GPU2", "DR"),
        ("GPU1", "GPU2", "OK"),
    ]


def test_without_nvml_peer_access_is_unknown() -> None:
    assert isinstance(collect_topology(FakeSource(), OPTIONS)["peer_access"], Unknown)


def test_measurements_and_diagnoses_name_their_lines() -> None:
    source = open_loose(
        [
            ("a.txt", b"cpu_to_gpu0_by_dma_under_numa0 26.1\n"),
            ("b.txt", b"| Denylist | Pass |\n| PCIe     | Fail - GPU: 1 |\n"),
        ]
    )
    (result,) = collect_tool_results(source, OPTIONS)["tool_results"]  # type: ignore[misc]
    assert (result.subject, result.evidence) == (
        "GPU0",
        (EvidenceRef(source="paste", key="a.txt", detail="line 1"),),
    )
    results = collect_diagnoses(source, OPTIONS)["diagnoses"]
    assert [(d.subject, d.result, d.evidence[0].detail) for d in results] == [  # type: ignore[attr-defined]
        ("host", "PASS", "line 1"),
        ("GPU1", "FAIL", "line 2"),
    ]


def test_nothing_given_is_not_recorded_and_a_live_machine_has_none() -> None:
    live = FakeSource()
    live.is_live = True
    for source in (FakeSource(), live):
        assert collect_tool_results(source, OPTIONS)["tool_results"] == NOT_RECORDED
        assert collect_diagnoses(source, OPTIONS)["diagnoses"] == NOT_RECORDED
