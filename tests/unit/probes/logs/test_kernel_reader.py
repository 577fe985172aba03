"""Test the kernel's lines in a log, alone or between other lines."""

from __future__ import annotations

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.event import LogLine
from probes.logs.readers.kernel_lines import SIGNS, Reader
from tests.support.recordings import MACHINES, index, needs_recordings


def _events(text):
    read = Reader().read
    return [
        event
        for number, line in enumerate(text.split("\n"), 1)
        if any(sign in line.encode() for sign in SIGNS)
        for event in read(LogLine(source="dmesg", number=number, text=line, raw=line))
    ]


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        (
            "[ 1234.567890] NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the "
            "bus.",
            "kernel.xid",
            {"xid": 79, "bus": "0000:9b:00", "xid_class": "hardware", "pid": 1234, "process": "python"},
        ),
        (
            "NVRM: Xid (PCI:0000:19:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1)",
            "kernel.xid",
            {"xid": 94, "xid_class": "application"},
        ),
        (
            "Jan  2 03:04:05 node-a kernel: NVRM: Xid (PCI:0000:07:00): 31, Ch 00000010, intr 00000000. "
            "MMU Fault",
            "kernel.xid",
            {"xid": 31, "bus": "0000:07:00"},
        ),
        (
            "[Mon Jan  5 03:04:05 2026] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 "
            "LTSSM Fault Up",
            "kernel.sxid",
            {"sxid": 20034, "fatal": 1, "link": 30, "bus": "0000:05:00"},
        ),
        (
            "[   10.123456] pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:9b:00.0",
            "kernel.aer",
            {"severity": "fatal", "bus": "0000:9b:00"},
        ),
        (
            "[   10.123456] Memory cgroup out of memory: Killed process 456 "
            "(python) total-vm:1kB, anon-rss:2kB",
            "kernel.oom-kill",
            {"process": "python", "victim": 456, "scope": "cgroup"},
        ),
        (
            "Out of memory: Killed process 456 (pt_main_thread) total-vm:1kB, anon-rss:2kB",
            "kernel.oom-kill",
            {"process": "pt_main_thread", "scope": "host"},
        ),
        (
            "[   10.123456] mlx5_core 0000:41:00.0: poll_health:825:(pid 0): Fatal error 1 detected",
            "kernel.mlx5",
            {"bus": "0000:41:00", "fatal": 1},
        ),
        (
            "[   10.123456] DMAR: [DMA Read NO_PASID] Request device [17:00.0] fault addr 0x12 "
            "[fault reason 0x06]",
            "kernel.iommu-fault",
            {"bus": "17:00.0"},
        ),
        (
            "[   10.123456] NVRM: API mismatch: the client has the version 580.178.01, but "
            "NVRM: this kernel module has the version 580.173.02.  Please",
            "kernel.nvrm",
            {"what": "API mismatch", "client": "580.178.01", "module": "580.173.02"},
        ),
        (
            "[   10.123456] pt_main_thread[99]: segfault at 0 ip 00007f sp 00007f error 4 in "
            "libnccl.so.2[7f+1]",
            "kernel.segfault",
            {"process": "pt_main_thread", "library": "libnccl.so.2"},
        ),
        (
            "[  +0.000316] pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
            "kernel.aer",
            {"severity": "corrected", "bus": "0000:00:03"},
        ),
        (
            "2026-01-02T03:04:05+00:00 node-a systemd-networkd[12]: ib6: Lost carrier",
            "kernel.link",
            {"device": "ib6", "state": "down"},
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.173.02  Release Build  (x)",
            "kernel.driver",
            {"version": "580.173.02"},
        ),
    ],
)
def test_a_line_gives_its_event(line, kind, fields):
    (event,) = _events(line)

    assert event.kind == kind
    assert {name: event.fields.get(name) for name in fields} == fields


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
        "I think the GPU has fallen off the bus and the Link is down",
        "cmd: installing libnvidia: done, link status ok",
        "[1,0]<stdout>: md: hello BUG: none",
    ],
)
def test_lines_of_programs_are_not_read_as_kernel_messages(line):
    assert _events(line) == []


@given(st.text(max_size=120), st.integers(0, 90), st.integers(0, 90))
def test_cut_and_mixed_lines_never_raise(garbage, start, end):
    line = (
        "[ 1.5] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python, Link 3 GPU has fallen off the bus, "
        "caused by previous Xid 31"
    )
    for text in (line[start:end], line[:end] + garbage + line[end:], garbage):
        Reader().read(LogLine(source="dmesg", number=1, text=text, raw=text))


_RECORDED = [
    ("kernel_log/bond-slave-flap-mlx5_3.log", "kernel.link", {"device": "mlx5_3", "state": "down"}),
    ("kernel_log/gsp-rpc-timeout-a100-sxm4.log", "kernel.gsp", {}),
    ("kernel_log/h100-xid119-gsp-rpc-timeout-xe9680.log", "kernel.xid", {"xid": 119, "bus": "0000:9b:00"}),
    ("kernel_log/nccl-segfault-libnccl.log", "kernel.segfault", {"library": "libnccl.so.2"}),
    ("kernel_log/nvidia-peermem-invalid-context.log", "kernel.peermem", {"what": "context"}),
    ("kernel_log/oom-and-xid13-mixed.log", "kernel.oom-kill", {"process": "node"}),
    ("kernel_log/pcie-bandwidth-limited-gen4-switch.log", "kernel.pcie-limited", {}),
    ("kernel_log/pstore-panic-mlx5-host.txt", "kernel.panic", {}),
    ("kernel_log/sxid-lines-corpus.txt", "kernel.sxid", {"sxid": 22013, "fatal": 0}),
    ("kernel_log/syslog-ib6-link-flapping-6x.log", "kernel.link", {"device": "ib6", "state": "down"}),
    (
        "kernel_log/xid13-43-app-fault-dmesg-decoded.log",
        "kernel.xid",
        {"xid": 43, "xid_class": "application"},
    ),
    ("kernel_log/xid144-149-nvlink5-samples.log", "kernel.xid", {"xid": 149, "sub_code": 38}),
    ("kernel_log/xid48-63-94-contained-ecc-and-peermem.log", "kernel.xid", {"xid": 48}),
    ("kernel_log/xid63-row-remap-pending.log", "kernel.xid", {"xid": 63}),
    ("kernel_log/xid79-recurring-a100-pcie.log", "kernel.xid", {"xid": 79, "xid_class": "hardware"}),
]


@needs_recordings
@pytest.mark.parametrize(("path", "kind", "fields"), _RECORDED)
def test_a_recording_reports_what_is_wrong(path, kind, fields):
    events = _events((MACHINES / path).read_text(encoding="utf-8", errors="replace"))

    assert any(event.kind == kind and fields.items() <= event.fields.items() for event in events)


@needs_recordings
def test_healthy_recordings_hold_no_fault():
    kinds = collections.Counter(
        event.kind
        for path, row in index().items()
        if row["kind"] == "kernel_log" and row["state"] == "healthy"
        for event in _events((MACHINES / path).read_text(encoding="utf-8", errors="replace"))
    )

    informs = {
        "kernel.driver",
        "kernel.unread",
        "kernel.nic-firmware",
        "kernel.pcie-link",
        "kernel.slot-power",
        "kernel.cable",
        "kernel.link",
        "kernel.pcie-limited",
    }
    assert set(kinds) <= informs
