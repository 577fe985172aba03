"""Test the sentences about differences of two machines or two moments."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.compare.differences import compare, compare_findings, odd_ones
from probes.facts import LogEvent, MachineFacts
from probes.facts.flat_facts import words_of
from probes.judging.findings import Finding, Status
from tests.support.machines import cpu_box, h100_node, with_gpus, with_part

NODE = h100_node()
GONE = Unknown(Reason.TIMEOUT, "nvmlInit took longer than 10 s")


def sentences(before: MachineFacts, after: MachineFacts, *, everything: bool = False) -> list[str]:
    return [row.sentence for row in compare(before, after, everything=everything)]


def links(up: int) -> object:
    assert isinstance(NODE.gpus, tuple)
    nvlinks = NODE.gpus[0].nvlinks
    assert isinstance(nvlinks, tuple)
    return tuple(msgspec.structs.replace(link, active=link.index < up) for link in nvlinks)


def nic(**changes: object) -> MachineFacts:
    assert isinstance(NODE.nics, tuple)
    changed = msgspec.structs.replace(NODE.nics[2], **changes)
    return h100_node(nics=(*NODE.nics[:2], changed, *NODE.nics[3:]))


def without_gpu(index: int) -> MachineFacts:
    assert isinstance(NODE.gpus, tuple)
    return h100_node(gpus=tuple(gpu for gpu in NODE.gpus if gpu.index != index))


def driver(version: str) -> MachineFacts:
    return with_part(NODE, "software", driver_version=version)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (NODE, []),
        (with_gpus(NODE, 3, nvlinks=links(16)), ["GPU3: NVLinks up 18 -> 16"]),
        (driver("550.90.07"), [f"driver {NODE.software.driver_version} -> 550.90.07"]),
        (nic(state="DOWN"), ["mlx5_2: ACTIVE -> DOWN"]),
        (nic(rate_gbps=200.0), ["mlx5_2: rate 400 Gb/s -> 200 Gb/s"]),
        (without_gpu(5), ["GPU5 is gone"]),
        (with_gpus(NODE, 1, power_limit_w=500.0), ["GPU1: power limit 700 W -> 500 W"]),
        (with_gpus(NODE, 1, ecc_enabled=False), ["GPU1: ECC on -> off"]),
        (with_part(NODE, "software", modules=("nvidia",)), None),
    ],
)
def test_each_change_is_a_sentence(after: MachineFacts, expected: list[str] | None) -> None:
    differences = sentences(NODE, after)
    if expected is not None:
        assert differences == expected
    else:
        assert all("modules" in sentence for sentence in differences)


def test_the_same_change_on_all_gpus_is_one_sentence() -> None:
    assert isinstance(NODE.gpus, tuple)
    all_gpus = tuple(msgspec.structs.replace(gpu, vbios_version="96.00.9f") for gpu in NODE.gpus)
    (row,) = compare(NODE, h100_node(gpus=all_gpus))
    assert row.sentence.startswith("GPU0-7: VBIOS ")
    assert row.subjects == tuple(f"GPU{index}" for index in range(8))


@pytest.mark.parametrize(
    "change", [{"temperature_c": 77}, {"sm_clock_mhz": 901}, {"power_w": 99.0}, {"utilization_percent": 55}]
)
def test_readings_that_always_vary_are_compared_only_on_demand(change: dict[str, object]) -> None:
    after = with_gpus(NODE, 0, **change)
    assert sentences(NODE, after) == []
    assert len(sentences(NODE, after, everything=True)) == 1


def test_identities_count_between_two_moments_of_one_machine() -> None:
    swapped = with_gpus(NODE, 4, serial="1650000000099")
    here = with_gpus(NODE, 4, serial="1650000000001")
    assert sentences(here, swapped) == ["GPU4: serial 1650000000001 -> 1650000000099"]
    assert isinstance(NODE.gpus, tuple)
    elsewhere = tuple(
        msgspec.structs.replace(gpu, uuid=f"GPU-other-{gpu.index}", serial="7") for gpu in NODE.gpus
    )
    assert sentences(NODE, h100_node(hostname="another", gpus=elsewhere)) == []


def test_a_value_that_became_unknown_is_lost_and_not_changed() -> None:
    (row,) = compare(NODE, with_gpus(NODE, 2, power_limit_w=GONE))
    assert (row.change, row.sentence) == (
        "lost",
        "GPU2: power limit was 700 W, and is now unknown (timeout: nvmlInit took longer than 10 s)",
    )
    (back,) = compare(with_gpus(NODE, 2, power_limit_w=GONE), NODE)
    assert back.change == "learnt"


def test_gpus_that_nobody_could_look_for_are_not_gone() -> None:
    differences = compare(NODE, h100_node(gpus=NOT_RECORDED))
    assert not [row for row in differences if row.change == "gone"]
    assert [row.subjects for row in compare(NODE, h100_node(gpus=())) if row.change == "gone"] == [
        tuple(f"GPU{index}" for index in range(8))
    ]


def test_a_new_kind_of_event_is_reported_and_its_count_is_not() -> None:
    xid = LogEvent(kind="xid", code=79, device="0000:9b:00", message="GPU has fallen off the bus")
    quiet, loud = h100_node(events=()), h100_node(events=(xid,))
    assert sentences(quiet, loud) == ["event xid 79 on 0000:9b:00 is new"]
    assert sentences(loud, h100_node(events=(msgspec.structs.replace(xid, count=9),))) == []


def test_two_machines_of_different_kind() -> None:
    differences = compare(NODE, cpu_box())
    assert differences
    assert all(row.sentence and row.subjects for row in differences)


def test_problems_come_and_go() -> None:
    def finding(status: Status, check_id: str = "nvlink-active", subject: str = "GPU3") -> Finding:
        return Finding(check_id=check_id, subject=subject, status=status, summary="links are down")

    came = compare_findings([finding(Status.PASS)], [finding(Status.FAIL)])
    assert [(row.before, row.after) for row in came] == [(None, Status.FAIL)]
    assert [(row.check_id, row.subject) for row in came] == [("nvlink-active", "GPU3")]
    went = compare_findings([finding(Status.WARN)], [])
    assert [(row.before, row.after) for row in went] == [(Status.WARN, None)]
    worse = compare_findings([finding(Status.WARN)], [finding(Status.FAIL)])
    assert [(row.before, row.after) for row in worse] == [(Status.WARN, Status.FAIL)]
    assert compare_findings([finding(Status.FAIL)], [finding(Status.FAIL)]) == ()


def test_the_odd_one_out_of_several() -> None:
    odd = with_gpus(NODE, 3, nvlinks=links(16))
    (row,) = odd_ones([("a", NODE), ("b", odd), ("c", NODE)])
    assert (row.machine, row.sentence) == ("b", "GPU3: NVLinks up 16, the others 18")
    (gone,) = odd_ones([("a", NODE), ("b", NODE), ("c", without_gpu(5))])
    assert (gone.machine, gone.subjects, gone.value) == ("c", ("GPU5",), "not there")
    assert odd_ones([("a", NODE), ("b", with_gpus(NODE, 1, power_limit_w=GONE)), ("c", NODE)]) == ()
    assert odd_ones([("a", NODE), ("b", odd)]) == ()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("memory.total_bytes", "memory"),
        ("cpu.logical_cpus", "logical CPUs"),
        ("is_default_route", "default route"),
        ("software.nccl_version", "NCCL"),
        ("training.nccl_version", "NCCL of torch"),
        ("power_limit_w", "power limit"),
    ],
)
def test_a_field_has_a_name_in_words(field: str, words: str) -> None:
    assert words_of(field) == words
