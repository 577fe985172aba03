"""Test the sentences about differences of two machines or two moments."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.compare.differences import (
    Comparison,
    FindingChange,
    compare,
    compare_findings,
    is_one_machine,
    odd_ones,
)
from probes.facts import LogEvent, MachineFacts
from probes.facts.flat_facts import words_of
from probes.judging.findings import Finding, Status
from tests.support.machines import cpu_box, h100, h100_node, with_gpus, with_nics, with_part

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


def test_gpus_that_could_not_be_read_are_not_gone() -> None:
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


def named(hostname: object, *uuids: object) -> MachineFacts:
    """Return a machine with a host name, and one GPU for each UUID."""
    return h100_node(
        hostname=hostname, gpus=tuple(h100(index, uuid=uuid) for index, uuid in enumerate(uuids))
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (named("a", "1", "2"), named("a", "3", "4"), True),
        (named("a", "1", "2"), named("b", "1", "2"), True),
        (named("a", "1", "2"), named("b", "1", "3"), False),
        (named("a", "1"), named("b", "1", "2"), False),
        (named("a"), named("b"), False),
        (named(NOT_RECORDED, "1", "2"), named("b", "1", "3"), True),
        (named(NOT_RECORDED, "1", "2"), named(NOT_RECORDED, "1"), True),
        (named(NOT_RECORDED, "1", "2"), named(NOT_RECORDED, "3"), False),
        (named(NOT_RECORDED), named(NOT_RECORDED), False),
        (named(NOT_RECORDED, GONE), named(NOT_RECORDED, GONE), False),
    ],
)
def test_a_machine_is_the_same_by_its_name_or_by_its_gpus(
    before: MachineFacts, after: MachineFacts, expected: bool
) -> None:
    assert is_one_machine([before, after]) is expected


def test_any_difference_makes_two_machines_unequal() -> None:
    same = Comparison(machines=("a", "b"), is_one_machine=True)
    assert same.is_equal
    finding = FindingChange(check_id="x", subject="host", before=None, after=Status.FAIL, summary="")
    assert not msgspec.structs.replace(same, findings=(finding,)).is_equal
    assert not msgspec.structs.replace(same, differences=compare(NODE, driver("1"))).is_equal
    odd = odd_ones([("a", NODE), ("b", driver("1")), ("c", NODE)])
    assert not msgspec.structs.replace(same, odd=odd).is_equal


def test_gpus_are_matched_by_their_slot_and_else_by_their_index() -> None:
    assert isinstance(NODE.gpus, tuple)
    swapped = (*(msgspec.structs.replace(NODE.gpus[n], index=1 - n) for n in (0, 1)), *NODE.gpus[2:])
    assert sentences(NODE, h100_node(gpus=swapped)) == ["GPU0: index 0 -> 1", "GPU1: index 1 -> 0"]
    # No slot is common, so that the slots of two kinds of machines are compared in the driver's order.
    moved = tuple(msgspec.structs.replace(gpu, pci_bus_id=f"0000:e{gpu.index}:00.0") for gpu in NODE.gpus)
    assert sentences(NODE, h100_node(gpus=moved))[5:7] == [
        "GPU5: PCI address 0000:bb:00.0 -> 0000:e5:00.0",
        "GPU6: PCI address 0000:cb:00.0 -> 0000:e6:00.0",
    ]
    (row,) = compare(NODE, with_gpus(NODE, 3, pci_bus_id=NOT_RECORDED))
    assert (row.change, row.subjects, row.field) == ("lost", ("GPU3",), "pci_bus_id")


def less_linked(count: int) -> MachineFacts:
    """Return the node with fewer NVLinks in its first `count` pairs of GPUs."""
    assert isinstance(NODE.links, tuple)
    return h100_node(
        links=tuple(
            msgspec.structs.replace(link, nvlink_count=12) if position < count else link
            for position, link in enumerate(NODE.links)
        )
    )


def moved_links(*ends: tuple[str, str]) -> MachineFacts:
    assert isinstance(NODE.links, tuple)
    return h100_node(
        links=tuple(
            msgspec.structs.replace(link, kind="SYS") if (link.a, link.b) in ends else link
            for link in NODE.links
        )
    )


def modules(*names: str) -> MachineFacts:
    return with_part(NODE, "software", modules=names)


XID = LogEvent(kind="xid", code=79, device="0000:9b:00", message="GPU has fallen off the bus")
QUIET_NODE = h100_node(events=())


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (NODE, h100_node(gpus=NODE.gpus[:6]), ["GPU6-7 are gone"]),  # type: ignore[index]
        (without_gpu(7), NODE, ["GPU7 is new"]),
        (h100_node(gpus=NODE.gpus[:6]), NODE, ["GPU6-7 are new"]),  # type: ignore[index]
        (NODE, h100_node(interfaces=()), ["interface docker0, interface eno1 are gone"]),
        (NODE, nic(state=GONE), [f"mlx5_2: state was ACTIVE, and is now unknown ({GONE.words})"]),
        (nic(state=GONE), NODE, [f"mlx5_2: state is ACTIVE, and was unknown ({GONE.words})"]),
        (modules("a", "b"), modules("b", "c"), ["modules: no more a; now also c"]),
        (modules("a", "b"), modules("b"), ["modules: no more a"]),
        (modules("a"), modules("a", "b", "c"), ["modules: now also b, c"]),
        (NODE, less_linked(6), ["GPU0 GPU1-6: NVLinks 18 -> 12"]),
        (NODE, less_linked(7), ["7 pairs of GPU0-7: NVLinks 18 -> 12"]),
        (
            NODE,
            moved_links(("GPU0", "GPU1"), ("GPU0", "mlx5_1")),
            ["GPU0 GPU1: NVLINK -> SYS", "GPU0 mlx5_1: NODE -> SYS"],
        ),
        (NODE, h100_node(numa_nodes=NODE.numa_nodes[:1]), ["NUMA node 1 is gone"]),  # type: ignore[index]
        (
            QUIET_NODE,
            h100_node(events=(XID, msgspec.structs.replace(XID, kind="sxid"))),
            ["event sxid 79 on 0000:9b:00, event xid 79 on 0000:9b:00 are new"],
        ),
        (
            NODE,
            with_gpus(NODE, 2, nvlinks=()),
            [
                "GPU2: NVLinks 18 -> 0",
                "GPU2: NVLinks up 18 -> 0",
                "GPU2: rate of an NVLink 26.56 GB/s -> none",
            ],
        ),
    ],
)
def test_what_came_and_went_is_reported_once(
    before: MachineFacts, after: MachineFacts, expected: list[str]
) -> None:
    assert sentences(before, after) == expected


@pytest.mark.parametrize("part", ["gpus", "nics", "interfaces", "links", "numa_nodes", "pci_devices"])
def test_a_list_that_could_not_be_read_has_lost_no_member(part: str) -> None:
    unread = h100_node(**{part: NOT_RECORDED})
    assert not {"gone", "appeared"} & {row.change for row in (*compare(NODE, unread), *compare(unread, NODE))}
    assert odd_ones([("a", NODE), ("b", unread), ("c", NODE)]) == ()


@pytest.mark.parametrize("part", ["fabric", "nvlinks"])
def test_a_part_that_became_unknown_is_lost_with_all_its_values(part: str) -> None:
    unread = with_gpus(NODE, 2, **{part: GONE})
    assert {row.change for row in compare(NODE, unread)} == {"lost"}
    assert {row.change for row in compare(unread, NODE)} == {"learnt"}
    assert compare(unread, with_gpus(NODE, 2, **{part: NOT_RECORDED})) == ()


def test_hardware_that_is_gone_comes_before_changed_settings() -> None:
    after = with_gpus(without_gpu(5), 1, power_limit_w=500.0)
    after = with_nics(with_part(after, "software", kernel="6.1"), "mlx5_2", state="DOWN")
    after = with_nics(after, "mlx5_3", mtu=GONE)
    assert [row.sentence.split(" ")[0] for row in compare(NODE, after)] == [
        "GPU5",
        "GPU1:",
        "mlx5_2:",
        "kernel",
        "mlx5_3:",
    ]


def test_only_more_than_half_of_the_machines_make_others_odd() -> None:
    def odd(*versions: str) -> list[tuple[str, str, str]]:
        machines = [(f"n{place}", driver(version)) for place, version in enumerate(versions)]
        return [(row.machine, row.value, row.sentence) for row in odd_ones(machines)]

    assert odd("1", "1", "2", "2") == []
    assert odd("1", "1", "2") == [("n2", "2", "driver 2, the others 1")]
    assert odd("1", "1", "1", "2", "3") == [
        ("n3", "2", "driver 2, the others 1"),
        ("n4", "3", "driver 3, the others 1"),
    ]
    assert odd("1", "1", "2", "3") == []


def test_sentences_about_the_odd_one_of_several_machines() -> None:
    assert isinstance(NODE.gpus, tuple)
    fewer = h100_node(gpus=NODE.gpus[:6])
    (row,) = odd_ones([("a", NODE), ("b", NODE), ("c", fewer)])
    assert row.sentence == "GPU6-7: not there, and there on the others"
    (row,) = odd_ones([("a", NODE), ("b", nic(state="DOWN")), ("c", NODE)])
    assert row.sentence == "mlx5_2: state DOWN, the others ACTIVE"
    serials = [
        (name, with_gpus(NODE, 0, serial=serial)) for name, serial in (("a", "1"), ("b", "1"), ("c", "2"))
    ]
    assert odd_ones(serials) == ()
    assert [row.machine for row in odd_ones(serials, everything=True)] == ["c"]
