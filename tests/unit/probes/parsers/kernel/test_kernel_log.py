"""The kernel log in several forms."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.facts import LogEvent
from probes.parsers.kernel.kernel_log import parse_kernel_log, recognise
from probes.parsers.kernel.log_lines import is_log_line, take_apart
from probes.parsers.kernel.log_tally import MOST_EVENTS
from tests.support.kernel_lines import LINES

XID = "NVRM: Xid (PCI:0000:17:00): 79, pid=4242, name=python3, GPU has fallen off the bus."


def complaints(text: str) -> list[LogEvent]:
    return [event for event in parse_kernel_log(text).events if event.is_complaint]


def single_event(text: str) -> LogEvent:
    (event,) = complaints(text)
    return event


def event_counts(text: str) -> list[tuple[str, str | None, int]]:
    return [(event.kind, event.device, event.count) for event in complaints(text)]


FORMS = {
    f"[ 4428.423595] {XID}": "4428.423595",
    f"[ 4428.423595][ T1234] {XID}": "4428.423595",
    f"[Sun Feb 23 16:24:18 2025] {XID}": "Sun Feb 23 16:24:18 2025",
    f"kern  :warn  : [ 4428.423595] {XID}": "4428.423595",
    f"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 {XID}": "2025-01-21T04:41:44,283302+00:00",
    f"kern: warning: [2025-01-21T04:41:44.283302Z]: {XID}": "2025-01-21T04:41:44.283302Z",
    f"2025-01-21T04:41:44,283302+00:00 {XID}": "2025-01-21T04:41:44,283302+00:00",
    f"4,3964,206764307,-;{XID}": "206.764307",
    f"<4>[ 1126.588387] {XID}": "1126.588387",
    f"<4>{XID}": "",
    f"Jan 21 04:41:44 gpu-7 kernel: {XID}": "Jan 21 04:41:44",
    f"Jan  1 04:41:44 gpu-7 kernel: [ 4428.423595] {XID}": "Jan  1 04:41:44",
    f"2025-01-21T04:41:44+0000 gpu-7 kernel: {XID}": "2025-01-21T04:41:44+0000",
    f"[ 4428.423595] gpu-7 kernel: {XID}": "4428.423595",
    f'         "msg": "{XID}"': "",
    f"Okt 06 17:59:27 gpu-7 kernel: {XID}": "Okt 06 17:59:27",
    f"11月 15 14:15:47 gpu-7 kernel: {XID}": "11月 15 14:15:47",
    f"Apr  9 21:05:38.106121 gpu-7 WARNING kernel: [10601.214044] {XID}": "Apr  9 21:05:38.106121",
    f"kernel: {XID}": "",
    f"[exporter] [WARN] GPU-0: {XID}": "",
    json.dumps(
        {"__REALTIME_TIMESTAMP": "1737434504283302", "_TRANSPORT": "kernel", "MESSAGE": XID}
    ): "1737434504283302",
    XID: "",
}


@pytest.mark.parametrize("line", FORMS)
def test_every_form_of_a_line_yields_the_same_event(line: str) -> None:
    event = single_event(f"\n{line}\n")
    assert (event.kind, event.code, event.device, event.count, event.line) == ("xid", 79, "0000:17:00", 1, 2)
    assert event.first_time == event.last_time == FORMS[line]
    assert event.message == XID.removeprefix("NVRM: ")
    assert recognise(line)


XIDS = {
    "NVRM: Xid (PCI:0000:9b:00.0): 13, Graphics Exception": (13, "0000:9b:00"),
    "NVRM: Xid (0000:9B:00): 31, Ch 1": (31, "0000:9b:00"),
    "NVRM: Xid (009b:00): 31, Ch 1": (31, "0000:9b:00"),
    "NVRM: Xid (PCI:00000008:9b:00): 31, Ch 1": (31, "0008:9b:00"),
    "Xid 79 (PCI:0000:46:00): GPU has fallen off the bus": (79, "0000:46:00"),
    "Mar 10 21:38:13  Xid 79 (PCI:0000:46:00): pid=1, name=x, GPU has fallen off the bus": (79, "0000:46:00"),
    "NVRM: Xid (PCI:0000:05:00): 99999, unknown error": (99999, "0000:05:00"),
}


@pytest.mark.parametrize("line", XIDS)
def test_old_and_new_xid_lines(line: str) -> None:
    event = single_event(line)
    assert (event.code, event.device) == XIDS[line]
    assert isinstance(event.fatal, bool) is False


def test_nvlink5_lines_have_a_sub_code_and_the_log_s_own_word() -> None:
    fatal, other, early = (
        f"NVRM: Xid (PCI:0008:01:00): {words}"
        for words in (
            "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x025001c6 0x00000000)",
            "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x026001c6 0x00000000)",
            "145, pid=7, name=ray, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)",
        )
    )
    events = parse_kernel_log("\n".join((fatal, fatal, other, early))).events
    assert [(event.sub_code, event.fatal, event.count) for event in events] == [
        (37, True, 2),
        (38, True, 1),
        (0, False, 1),
    ]


def test_switch_lines_are_counted_and_broken_ones_named() -> None:
    log = parse_kernel_log(
        """\
nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Data {0x50610002, 0x10100030}
nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22013, Non-fatal, Link 57 Minion Link DLREQ interrupt
nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): none, Fatal error
nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): , Fatal error
nvidia-nvswitch2: open (major=510)
"""
    )
    assert [(event.code, event.fatal, event.count, event.last_line) for event in log.events] == [
        (20034, True, 1, 2),
        (22013, False, 1, 3),
    ]
    assert [line.number for line in log.unread] == [4, 5]


def test_a_boot_or_a_new_load_of_the_driver_settles_an_xid() -> None:
    oom = "[ 9.0] Out of memory: Killed process 7 (python)"
    load = "[ 9.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15"
    boot = "[    0.000000] Linux version 6.8.0-45-generic"
    events = complaints("\n".join((XID, oom, load)))
    assert [(event.kind, event.settled) for event in events] == [("xid", True), ("out-of-memory", False)]
    events = complaints("\n".join((XID, oom, boot, oom)))
    assert [(event.kind, event.settled) for event in events] == [("xid", True), ("out-of-memory", False)]


def test_a_recovery_that_is_over_settles_its_own_gpu() -> None:
    done = (
        "NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 "
        "(None)"
    )
    other = XID.replace(":17:", ":18:")
    events = parse_kernel_log("\n".join((XID, other, done))).events
    assert [(event.code, event.device, event.settled) for event in events] == [
        (79, "0000:17:00", True),
        (79, "0000:18:00", False),
        (154, "0000:17:00", True),
    ]


@pytest.mark.parametrize(
    "message",
    [
        "pci 0000:17:02.0: BAR 14: failed to assign [mem size 0x00100000]",
        "NVRM: kceIsGenXorHigherSupported_GH100: Could not get root gen speed - check for GPU gen speed!",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024",
        "NVRM: GPU at PCI:0000:9b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d",
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia-nvswitch3: open (major=510)",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 507",
        "nvidia-uvm: Loaded the UVM driver, major device number 509.ACPI: aborted due to previous error",
        "mlx5_core 0000:1a:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
        "acpi PNP0A08:29: _OSC: platform does not support [SHPCHotplug AER DPC]",
        "pcieport 0000:00:01.0: AER: enabled with IRQ 30",
        "pcieport 0000:00:01.0: DPC: enabled with IRQ 30",
        "ata3: SATA link down (SStatus 0 SControl 300)",
        "IPv6: ADDRCONF(NETDEV_CHANGE): cali0: link becomes ready",
        "mlx5_core 0000:41:00.1: Port module event: module 1, Cable plugged",
        "EDAC MC7: Giving out device to module i10nm_edac controller Intel_10nm Socket#1",
        "MCE: In-kernel MCE decoding enabled.",
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
        "EXT4-fs (nvme0n1p2): re-mounted. Opts: (null). Quota mode: none.",
        "XFS (md0): Ending clean mount",
        "nvme nvme1: Shutdown timeout set to 11 seconds",
        "blk_update_request: I/O error, dev fd0, sector 0",
        "bash[12]: segfault at 0 ip 00 sp 00 error 4 in bash[55+1000]",
    ],
)
def test_noise_is_no_complaint(message: str) -> None:
    log = parse_kernel_log(f"[   12.345678] {message}")
    assert not log.unread
    assert not [event for event in log.events if event.is_complaint]


def test_a_log_shows_the_current_state_of_the_machine() -> None:
    log = parse_kernel_log(
        """\
[    9.100000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024
[    9.200000] mlx5_core 0000:1a:00.0: firmware version: 28.39.2048
[    9.300000] mlx5_core 0000:1a:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)
"""
    )
    assert [(event.kind, event.device) for event in log.events] == [
        ("driver-loaded", None),
        ("nic-firmware", "0000:1a:00"),
        ("pcie-link", "0000:1a:00"),
    ]


def test_a_file_server_that_answers_again_settles_its_own_complaint() -> None:
    silent, other = (
        f"[ 1.0] nfs: server {name} not responding, timed out" for name in ("store-1", "store-2")
    )
    events = complaints(f"{silent}\n{other}\n[ 9.0] nfs: server store-1 OK\n")
    assert [(event.device, event.settled) for event in events] == [("store-1", True), ("store-2", False)]


@pytest.mark.parametrize(
    "message",
    [
        "DMAR: [DMA Read NO_PASID] Request device [17:00.0] fault addr 0x12 [fault reason 0x06]",
        "AMD-Vi: Event logged [IO_PAGE_FAULT device=17:00.0 domain=0x000f address=0x0 flags=0x0020]",
    ],
)
def test_a_transfer_that_the_iommu_refused_is_an_event(message: str) -> None:
    assert event_counts(f"[ 1.0] {message}") == [("iommu-fault", "0000:17:00", 1)]


def test_an_event_that_several_drivers_report_counts_once() -> None:
    text = """\
[1.000] bond0: (slave enp83s0f0np0): link status definitely down, disabling slave
[2.000] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down
[3.000] mlx5_core 0000:53:00.0 enp83s0f0np0: Link up
[4.000] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down
[5.000] oom-kill:constraint=CONSTRAINT_NONE,task=python,pid=7
[5.100] Out of memory: Killed process 7 (python)
"""
    assert event_counts(text) == [
        ("link-down", "enp83s0f0np0", 2),
        ("link-up", "enp83s0f0np0", 1),
        ("out-of-memory", None, 1),
    ]


def test_of_other_programs_only_lines_about_links_count() -> None:
    text = f"""\
Aug 17 06:18:01 gpu-7 systemd-networkd[5398]: ib6: lost carrier
Aug 17 06:18:02 gpu-7 systemd-networkd[5398]: ib6: Gained carrier
Aug 17 06:18:03 gpu-7 systemd-networkd[5398]: veth12ab: Lost carrier
Aug 17 06:18:04 gpu-7 exporter[77]: found {XID}
Aug 17 06:18:05 gpu-7 kernel: {XID}
"""
    assert event_counts(text) == [("link-down", "ib6", 1), ("link-up", "ib6", 1), ("xid", "0000:17:00", 1)]


def test_a_storm_is_one_event_with_first_and_last() -> None:
    text = "".join(
        f"[{second}.000000] NVRM: Xid (PCI:0000:38:00): 13, Graphics Exception: ESR {second:#x}\n"
        for second in range(1, 5001)
    )
    event = single_event(text)
    assert (event.count, event.first_time, event.last_time, event.line, event.last_line) == (
        5000,
        "1.000000",
        "5000.000000",
        1,
        5000,
    )


def test_a_hostile_log_costs_no_more_events_than_the_bound() -> None:
    text = "".join(f"NVRM: Xid (PCI:{number:04x}:38:00): 13, x\n" for number in range(MOST_EVENTS + 100))
    assert len(parse_kernel_log(text).events) == MOST_EVENTS


def test_lines_at_the_end_of_a_window_count_once() -> None:
    filler = "[1.000000] nothing of interest in this line at all\n"
    log = parse_kernel_log(filler * 20970 + f"{XID}\n" * 3 + filler * 30000 + XID)
    assert [(event.count, event.line, event.last_line) for event in log.events] == [(4, 20971, 50974)]


def test_plain_texts_are_no_log() -> None:
    assert not recognise("")
    assert not recognise("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n")
    assert not recognise("GPU0\tGPU1\n X \tNV18\n")
    assert not recognise("host:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n")
    assert recognise("Aug 17 00:00:24 gpu-7 systemd[1]: Finished Rotate log files.\n")
    assert is_log_line("[    0.000000] Linux version 6.8.0")


@given(st.text(max_size=300))
def test_text_without_words_of_the_kernel_gives_no_events(text: str) -> None:
    recognise(text)
    take_apart(text)
    log = parse_kernel_log(text)
    assert log.events == () or any(
        word in text for word in ("Xid", "NVRM", "Link", "BUG", "md: ", "stall", "EDAC", "carrier")
    )


@given(
    st.sampled_from([line.message for line in LINES]),
    st.integers(0, 120),
    st.text(alphabet="0123456789abcdefx:.,()[]{} \t\x00é%", max_size=6),
    st.sampled_from(list(FORMS)),
)
def test_damaged_lines_never_raise_and_keep_their_kind(
    message: str, place: int, damage: str, form: str
) -> None:
    line = form.replace(XID, message[:place] + damage + message[place:])
    whole = parse_kernel_log(f"{line}\n{line}\n")
    half = parse_kernel_log(line[: place + 20])
    kind = parse_kernel_log(message).events[0].kind
    for event in (*whole.events, *half.events):
        assert event.kind in {kind, "nvrm", "crash", "lockup", "machine-check", "panic"}
        assert (event.count, event.line) in {(2, 1), (1, 1)}


def test_a_gpu_that_is_gone_at_the_drivers_load_spans_three_lines_and_stays_unsettled() -> None:
    text = "\n".join(
        (
            "[ 18.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
            "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
            "               NVRM: fallen off the bus and is not responding to commands.",
            "[ 18.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).",
            "[ 18.439669] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01",
        )
    )
    first, second = complaints(text)
    assert (first.kind, first.device, first.settled) == ("nvrm", "0000:b3:00", False)
    assert (second.kind, second.settled) == ("nvrm", False)


def test_a_later_boot_settles_what_an_earlier_load_complained_of() -> None:
    text = "NVRM: The NVIDIA probe routine failed for 1 device(s).\n[    0.000000] Linux version 6.8.0\n"
    assert single_event(text).settled


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("Killed process 77 (python3) total-vm:1kB", ("out-of-memory", None, 1)),
        ("python3 invoked oom-killer: gfp_mask=0xcc0", ("out-of-memory", None, 1)),
        (
            "python3 invoked oom-killer: gfp_mask=0xcc0\n"
            "Memory cgroup out of memory: Kill process 7 (python3) score 9\n"
            "Killed process 7 (python3) total-vm:1kB",
            ("out-of-memory", None, 1),
        ),
        ("bond0: link status down for interface eno4, disabling it in 200 ms", ("link-down", "eno4", 1)),
        ("bond0: now running without any active interface!", ("link-down", "bond0", 1)),
        ("VFS: file-max limit 1000000 reached", ("kernel-limit", None, 1)),
        ("nf_conntrack: nf_conntrack: table full, dropping packet", ("kernel-limit", None, 1)),
        ("neighbour: arp_cache: neighbor table overflow!", ("kernel-limit", None, 1)),
        ("cgroup: fork rejected by pids controller in /user.slice", ("kernel-limit", None, 1)),
        ("mlx5_core 0000:3b:00.0 ens1f0: TX timeout detected", ("nic-fault", "0000:3b:00", 1)),
        ("NETDEV WATCHDOG: ens1f0 (mlx5_core): transmit queue 6 timed out", ("nic-fault", "ens1f0", 1)),
        (
            "mlx5_core 0000:3b:00.0: poll_health:800:(pid 0): device's health compromised",
            ("nic-fault", "0000:3b:00", 1),
        ),
        ("mlx5_core: probe of 0000:01:00.0 failed with error -22", ("nic-fault", "0000:01:00", 1)),
        ("NVRM: GPU6 RPC event history (CPU <- GSP):", ("gsp-timeout", None, 1)),
    ],
)
def test_words_of_the_kernel_and_its_drivers(lines: str, expected: tuple[str, str | None, int]) -> None:
    assert event_counts("\n".join(f"[ 1.000000] {line}" for line in lines.split("\n"))) == [expected]


def test_a_driver_that_gives_up_its_card_differs_from_a_waiting_driver() -> None:
    assert (
        single_event("[ 1.0] mlx5_core 0000:3b:00.0: mlx5_load_one failed with error code -22").fatal is True
    )
    assert single_event("[ 1.0] mlx5_core 0000:3b:00.0 ens1f0: TX timeout on queue: 6").fatal is False


def test_a_healthy_start_of_a_card_is_no_event() -> None:
    lines = (
        "firmware version: 28.39.2048",
        "mlx5_5: Port: 1 Link INIT",
        "Rate limit: 127 rates are supported",
    )
    assert not event_counts("\n".join(f"[ 1.0] mlx5_core 0000:ab:00.0: {line}" for line in lines))


def test_a_syslog_is_known_by_few_lines_of_the_kernel_among_many_of_programs() -> None:
    programs = "\n".join(
        f"Apr  9 21:05:38.1 leaf1 NOTICE swss#orchagent: :- line {number}" for number in range(9)
    )
    assert recognise(
        f"{programs}\nApr  9 21:05:39.1 leaf1 INFO kernel: [ 1.5] igb 0000:00:14.0 eth0: igb: eth0 NIC Link "
        f"is Down"
    )
    assert not recognise(programs)


def test_the_teardown_of_a_program_keeps_its_reason() -> None:
    line = "NVRM: Xid (PCI:0000:dc:00): 45, pid=7, name=python3, Ch 00000001 caused by previous Xid {}"
    assert len(parse_kernel_log("\n".join(line.format(code) for code in (149, 145, 145))).events) == 2
