"""Test that the reports of several texts about GPUs become one list of GPUs."""

from __future__ import annotations

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.facts import Gpu, NvLink
from probes.facts.gpu_facts import UNNUMBERED
from probes.reading.merge_gpus import merge_gpus


def gpu(index: int, bus: str = "", **fields: object) -> Gpu:
    address = {"pci_bus_id": f"0000:{bus}:00.0"} if bus else {}
    return Gpu(index=index, evidence=(EvidenceRef(source="paste", key=f"{index}{bus}"),), **address, **fields)  # type: ignore[arg-type]


def test_by_address_then_index() -> None:
    table = (gpu(0, "1b", temperature_c=30), gpu(1, "3b", temperature_c=31))
    links = (gpu(1, nvlinks=(NvLink(index=0, active=True),)),)
    merged, contradictions = merge_gpus([table, links])
    assert [record.index for record in merged] == [0, 1]
    assert isinstance(merged[1].nvlinks, tuple)
    assert contradictions == ()


def test_a_different_name_is_a_contradiction_and_a_different_temperature_is_none() -> None:
    merged, contradictions = merge_gpus(
        [
            (gpu(0, "1b", name="NVIDIA X100", temperature_c=30),),
            (gpu(0, "1b", name="NVIDIA X200", temperature_c=60),),
        ]
    )
    assert [(conflict.subject, conflict.field) for conflict in contradictions] == [("GPU0", "name")]
    assert (merged[0].name, merged[0].temperature_c) == ("NVIDIA X100", 30)


def test_a_shortened_name_is_no_contradiction() -> None:
    merged, contradictions = merge_gpus(
        [(gpu(0, "1b", name="NVIDIA X1..."),), (gpu(0, "1b", name="NVIDIA X100"),)]
    )
    assert (merged[0].name, contradictions) == ("NVIDIA X100", ())


def test_equal_redacted_uuids_do_not_merge_gpus() -> None:
    zeros = "GPU-00000000"
    text = tuple(gpu(index, uuid=zeros) for index in range(4))
    assert len(merge_gpus([text, text])[0]) == 4


def test_another_machine_is_compared_and_not_added() -> None:
    merged, contradictions = merge_gpus([(gpu(0, "1b"), gpu(1, "3b")), (gpu(0, "4c"), gpu(1, "5d"))])
    assert len(merged) == 2
    assert {conflict.field for conflict in contradictions} == {"pci_bus_id"}


def test_a_lost_gpu_is_added_at_its_index() -> None:
    lost = gpu(3, "04", name=Unknown(Reason.ERROR, "GPU is lost"))
    merged, _ = merge_gpus([(gpu(0, "01"), gpu(2, "03"), gpu(4, "05")), (lost,)])
    assert [record.index for record in merged] == [0, 2, 3, 4]


def test_those_without_a_number_are_numbered_by_address() -> None:
    merged, _ = merge_gpus([(gpu(UNNUMBERED, "9b"), gpu(UNNUMBERED, "1b"))])
    assert [(record.index, record.pci_bus_id) for record in merged] == [
        (0, "0000:1b:00.0"),
        (1, "0000:9b:00.0"),
    ]


def test_others_add_to_known_gpus_only() -> None:
    merged, _ = merge_gpus([(gpu(0, "1b"),)], [(gpu(UNNUMBERED, "1b", numa_node=1), gpu(UNNUMBERED, "3b"))])
    assert [(record.pci_bus_id, record.numa_node) for record in merged] == [("0000:1b:00.0", 1)]
