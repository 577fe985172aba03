"""Gloo, the CPU backend: of torch, Ray and DeepSpeed's barriers.

Source: facebookincubator/gloo, gloo/transport/tcp (pair.cc, device.cc, unbound_buffer.cc) (read 2026-11).
"""

from __future__ import annotations

from probes.logs.event import Event, LogLine
from probes.logs.events.framework_events import (
    GlooConnectFailed,
    GlooError,
    GlooInterfaceMissing,
    GlooLoopback,
    GlooMeshFailed,
    GlooRemoteClosed,
    GlooSizeMismatch,
    GlooTimeout,
)
from probes.logs.readers.row_readers import read_rows, row, signs

_PEER = r"\[?(?P<host>[0-9a-fA-F.:]{2,60}?)\]?:(?P<port>\d{1,5})\b"

_ROWS = (
    row(GlooLoopback, "Using the loopback address as fallback"),
    row(GlooLoopback, "sing loopback address as fallback"),
    row(GlooMeshFailed, "Gloo connectFullMesh failed", r"connectFullMesh failed with (?P<reason>.{0,200})"),
    row(
        GlooInterfaceMissing,
        "makeDeviceForHostname",
        r"makeDeviceFor(?:Hostname|Interface)\(\): (?P<reason>.{1,160})",
    ),
    row(GlooInterfaceMissing, "makeDeviceForInterface", r"makeDeviceForInterface\(\): (?P<reason>.{1,160})"),
    row(
        GlooInterfaceMissing,
        "Unable to find address for: ",
        r"(?P<reason>Unable to find address for: \S{1,40})",
    ),
    row(GlooRemoteClosed, "Connection closed by peer", rf"[Cc]onnection closed by peer \[?{_PEER}"),
    row(GlooRemoteClosed, "Read error [", rf"Read error {_PEER}\]?: (?P<reason>[\w ]{{1,60}})"),
    row(
        GlooConnectFailed,
        "gloo/transport/tcp",
        rf"connect(?:ing)? (?:to )?\[?{_PEER}\]?: (?P<reason>.{{1,120}})",
    ),
    row(
        GlooTimeout, "ms for send operation", r"Timed out waiting (?P<after_ms>\d{1,12})ms for (?P<what>send)"
    ),
    row(
        GlooTimeout, "ms for recv operation", r"Timed out waiting (?P<after_ms>\d{1,12})ms for (?P<what>recv)"
    ),
    row(GlooTimeout, "Application timeout caused pair closure", r"(?P<what>pair closure)"),
    row(
        GlooSizeMismatch,
        "op.preamble.length <= op.nbytes",
        r"op\.preamble\.length <= op\.nbytes\. (?P<preamble>\d{1,18}) vs (?P<bytes>\d{1,18})",
    ),
    row(
        GlooError,
        "gloo/transport/",
        r"gloo/transport/(?P<file>[\w/]{1,60}\.cc:\d{1,6})\] (?P<reason>.{1,200})",
    ),
)
SIGNS: tuple[bytes, ...] = signs(_ROWS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return read_rows(_ROWS, line)
