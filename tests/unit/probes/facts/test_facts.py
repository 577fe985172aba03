"""Test what follows from single facts: samples, variables, counters, and facts as a flat table of texts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Unknown
from probes.base.units import GIB
from probes.facts import (
    Cpu,
    EnvironmentVariable,
    Filesystem,
    Gid,
    GpuMemoryHealth,
    Interface,
    Kernel,
    Limits,
    LogEvent,
    MachineFacts,
    Memory,
    NumaNode,
    NvLink,
    PeerAccess,
    State,
    count_of,
    counts,
    is_virtual,
    value_of,
)
from probes.facts.flat_facts import Key, flat, gpu_key, words_of
from probes.facts.measurements import Measurement, others_share
from probes.facts.named import state_of
from tests.support.machines import h100, h100_node, ndr_port, with_gpus, with_part
from tests.support.measured import measured

NODE = h100_node()
GPU0 = "GPU\0" + str(h100(0).pci_bus_id)


def samples(*values: float) -> Measurement:
    return msgspec.structs.replace(measured("gemm", "gemm_flops_per_s", "GPU0", 1.0), samples=values)


@pytest.mark.parametrize(
    ("values", "median", "spread"),
    [
        ((1.0,), 1.0, 0.0),
        ((1.0, 3.0), 2.0, 0.45),
        # The 5th percentile of 0, 1 ... 20 is 1 and the 95th is 19, so half of the range is 9.
        (tuple(map(float, range(21))), 10.0, 0.9),
        (tuple(map(float, range(0, -21, -1))), -10.0, 0.9),
        ((-1.0, 0.0, 1.0), 0.0, 0.0),
    ],
)
def test_median_and_spread_of_samples(values: tuple[float, ...], median: float, spread: float) -> None:
    assert samples(*values).median == median
    assert samples(*values).spread == pytest.approx(spread)


def test_the_largest_share_of_others_counts() -> None:
    def with_share(share: Any) -> Measurement:
        return msgspec.structs.replace(samples(1.0), conditions={"others_cpu_share": share})

    assert others_share([with_share(0.25), with_share(0.5), with_share("x")]) == 0.5
    assert others_share([with_share("x"), msgspec.structs.replace(samples(1.0), conditions={})]) == 0.0
    assert others_share([]) == 0.0


def test_a_measurement_matches_all_given_parameters() -> None:
    row = measured("gemm", "gemm_flops_per_s", "GPU0", 1.0, dtype="bf16", m=8)
    assert row.matches(dtype="bf16", m=8)
    assert row.matches()
    assert not row.matches(dtype="bf16", m=9)
    assert not row.matches(n=8)
    for busy in (True, False):
        changed = msgspec.structs.replace(row, conditions={"host_busy": busy})
        assert changed.was_disturbed is busy


def test_named_values() -> None:
    assert (count_of(counts({"a": 0, "b": 2}), "b"), count_of((), "b")) == (2, None)
    assert state_of((State(name="a", value="x"),), "a") == "x"
    assert state_of((State(name="a", value="x"),), "b") is None


def test_only_an_effective_variable_has_a_value() -> None:
    rows = tuple(
        EnvironmentVariable(name="A", value=value, origin="environment", is_effective=effective)
        for value, effective in (("1", False), ("2", True))
    )
    assert value_of(MachineFacts(environment=rows), "A") == "2"
    assert value_of(MachineFacts(environment=rows[:1]), "A") is None
    assert value_of(MachineFacts(environment=rows), "B") is None
    assert value_of(MachineFacts(), "A") is None


@pytest.mark.parametrize(
    ("virtualization", "flag", "expected"),
    [("kvm", False, True), (None, True, True), (None, False, False), (NOT_RECORDED, NOT_RECORDED, False)],
)
def test_a_machine_is_virtual_by_its_name_or_its_processor(
    virtualization: Any, flag: Any, expected: bool
) -> None:
    facts = with_part(MachineFacts(), "container", virtualization=virtualization)
    assert is_virtual(msgspec.structs.replace(facts, cpu=Cpu(virtualization_flag=flag))) is expected


@pytest.mark.parametrize(
    ("node", "can_hold_ranks"),
    [
        (NumaNode(index=0, cpus="0-7"), True),
        (NumaNode(index=0, cpus=""), False),
        (NumaNode(index=0), True),
        (NumaNode(index=0, cpus="0-7", is_gpu_memory=True), False),
        (NumaNode(index=0, cpus="0-7", is_gpu_memory=False), True),
    ],
)
def test_ranks_need_a_numa_node_with_cpus(node: NumaNode, can_hold_ranks: bool) -> None:
    assert node.can_hold_ranks is can_hold_ranks


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("limits.memory_temperature_c", "memory temperature"),
        ("gpu_clock_mhz", "GPU clock"),
        ("allowed_cpus", "allowed CPUs"),
        ("is_virtual", "virtual"),
        ("uptime_s", "uptime"),
        ("bandwidth_bytes_per_s", "bandwidth"),
        ("mpi_version", "MPI"),
        ("state", ""),
    ],
)
def test_the_unit_of_a_field_is_no_part_of_its_label(field: str, words: str) -> None:
    assert words_of(field) == words


@pytest.mark.parametrize(
    ("facts", "key", "value"),
    [
        (NODE, Key(GPU0, "power_limit_w"), "700 W"),
        (NODE, Key(GPU0, "memory_bytes"), "79.6 GiB"),
        (NODE, Key(GPU0, "ecc_enabled"), "on"),
        (NODE, Key(GPU0, "mig_enabled"), "off"),
        (NODE, Key(GPU0, "model"), "NVIDIA H100 80GB HBM3"),
        (NODE, Key(GPU0, "nvlinks.up"), "18"),
        (NODE, Key(GPU0, "nvlinks.rate"), "26.56 GB/s"),
        (NODE, Key("mlx5_0", "rate_gbps"), "400 Gb/s"),
        (NODE, Key("mlx5_0", "counters.symbol_error"), "0"),
        (NODE, Key("mlx5_0", "mtu"), "4096"),
        (NODE, Key("mlx5_0", "bit_error_rate"), "0"),
        (NODE, Key("interface eno1", "bond"), "none"),
        (NODE, Key("NUMA node 1", "memory_bytes"), "1008.0 GiB"),
        (NODE, Key("GPU0 GPU1 read", "status"), "OK"),
        (NODE, Key("/raid", "kind"), "xfs"),
        (NODE, Key("host", "software.modules"), tuple(sorted(NODE.software.modules))),  # type: ignore[arg-type]
        (h100_node(cpu=Cpu(max_mhz=3800)), Key("host", "cpu.max_mhz"), "3800 MHz"),
        (h100_node(nics=(ndr_port(0, port=2),)), Key("mlx5_0:2", "state"), "ACTIVE"),
        (
            h100_node(nics=(ndr_port(0, gids=(Gid(index=3, gid="fe80::1", kind="IB"),)),)),
            Key("mlx5_0 Gid 3", "gid"),
            "fe80::1",
        ),
    ],
)
def test_each_fact_is_a_text_with_its_unit(facts: MachineFacts, key: Key, value: object) -> None:
    assert flat(facts)[key] == value


@pytest.mark.parametrize(
    ("facts", "subject"),
    [
        (h100_node(events=(LogEvent(kind="xid", code=0, message="m"),)), "event xid 0"),
        (h100_node(events=(LogEvent(kind="mce", message="m"),)), "event mce"),
        (
            h100_node(events=(LogEvent(kind="xid", code=79, device="0:1", message="m"),)),
            "event xid 79 on 0:1",
        ),
        (h100_node(interfaces=(Interface(name="eth0"),)), "interface eth0"),
        (
            h100_node(peer_access=(PeerAccess(a="GPU0", b="GPU9", capability="write", status="OK"),)),
            "GPU0 GPU9 write",
        ),
        (NODE, "nvswitch 0000:83:00.0"),
    ],
)
def test_each_record_has_a_row_for_itself(facts: MachineFacts, subject: str) -> None:
    assert Key(subject, "") in flat(facts)


def test_unknown_and_left_out_values() -> None:
    mixed = (
        NvLink(index=0, active=True, bandwidth_bytes_per_s=25e9),
        NvLink(index=1, active=False, bandwidth_bytes_per_s=20e9),
    )
    rows = flat(with_gpus(NODE, 0, nvlinks=mixed))
    assert [rows[Key(GPU0, f"nvlinks.{name}")] for name in ("count", "up", "rate")] == ["2", "1", "20 GB/s"]
    unread = (*mixed, NvLink(index=2, active=NOT_RECORDED))
    assert flat(with_gpus(NODE, 0, nvlinks=unread))[Key(GPU0, "nvlinks.up")] == NOT_RECORDED
    assert Key(GPU0, "serial") not in flat(NODE, skip=frozenset({"serial"}))
    assert Key(GPU0, "pcie.width") not in flat(NODE, skip=frozenset({"pcie.width"}))
    assert Key(GPU0, "pcie.width_max") in flat(NODE, skip=frozenset({"pcie.width"}))
    assert Key(GPU0, "driver_version") not in flat(NODE)
    unnamed = with_part(NODE, "software", driver_version=NOT_RECORDED)
    assert flat(unnamed)[Key(GPU0, "driver_version")] == "550.54.15"
    assert flat(h100_node(gpus=NOT_RECORDED))[Key("host", "gpus")] == NOT_RECORDED
    assert NODE.memory.total_bytes == 2015 * GIB
    assert flat(NODE)[Key("host", "memory.total_bytes")] == "2015.0 GiB"


def test_a_gpu_is_identified_by_its_slot_its_uuid_or_its_index() -> None:
    gpu = h100(3)
    assert [gpu_key(gpu, by) for by in ("bus", "uuid", "index")] == [gpu.pci_bus_id, gpu.uuid, "3"]
    assert gpu_key(h100(3, pci_bus_id=NOT_RECORDED), "bus") is None


@pytest.mark.parametrize(
    ("total", "available", "fraction"), [(8, 2, 0.25), (1, 1, 1.0), (0, 0, None), (NOT_RECORDED, 2, None)]
)
def test_the_available_share_of_memory(total: Any, available: Any, fraction: float | None) -> None:
    share = Memory(total_bytes=total, available_bytes=available).available_fraction
    assert isinstance(share, Unknown) if fraction is None else share == fraction


@pytest.mark.parametrize(("total", "free", "used"), [(8, 2, 0.75), (1, 0, 1.0), (0, 0, 0.0)])
def test_the_used_share_of_a_filesystem(total: int, free: int, used: float) -> None:
    assert Filesystem(mount="/", total_bytes=total, free_bytes=free).used_fraction == used


def test_limits_of_the_job_come_before_those_of_this_process() -> None:
    own = Limits(memlock_bytes=1, nofile=2, job_limits_owner="slurmstepd")
    assert (own.memlock_for_training, own.nofile_for_training) == (1, 2)
    assert own.memlock_owner == own.nofile_owner != "slurmstepd"
    job = msgspec.structs.replace(own, job_memlock_bytes=3, job_nofile=4)
    assert (job.memlock_for_training, job.nofile_for_training) == (3, 4)
    assert job.memlock_owner == job.nofile_owner == "slurmstepd"


def test_counts_that_follow_from_two_facts() -> None:
    assert Kernel(local_port_first=32768, local_port_last=60999).local_ports == 28232
    assert Kernel(local_port_first=5, local_port_last=5).local_ports == 1
    # A day has 86400 s; on the first day all errors count.
    for uptime_s, per_day in (
        (7 * 86400.0, 10.0),
        (2 * 86400.0, 35.0),
        (43200.0, 70.0),
        (NOT_RECORDED, 70.0),
    ):
        kernel = Kernel(memory_errors_corrected=70, uptime_s=uptime_s)
        assert kernel.memory_errors_corrected_per_day == pytest.approx(per_day)
    assert GpuMemoryHealth(retired_pages_single_bit=2, retired_pages_double_bit=3).retired_pages == 5
    assert GpuMemoryHealth(retired_pages_single_bit=2).retired_pages == 2
    assert GpuMemoryHealth().retired_pages == 0
