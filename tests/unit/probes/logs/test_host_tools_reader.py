"""Test the output of host tools in a log."""

from __future__ import annotations

import pytest

from probes.logs.event import LogLine
from probes.logs.readers.host_tools import SIGNS, read


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        (
            "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
            "pci.acs",
            {"redirect": 1},
        ),
        ("max locked memory           (kbytes, -l) 64", "host.memlock", {"unlimited": 0, "kib": 64}),
        ("max locked memory       (kbytes, -l) unlimited", "host.memlock", {"unlimited": 1}),
        (
            "shm              64M   60M  4.0M  94% /dev/shm",
            "host.shm",
            {"bytes": 64 << 20, "used_percent": 94},
        ),
        (
            "tmpfs          65536     0     65536   0% /dev/shm",
            "host.shm",
            {"bytes": 64 << 20, "used_percent": 0},
        ),
    ],
)
def test_a_line_gives_its_event(text, kind, fields):
    assert any(sign in text.encode() for sign in SIGNS)
    (event,) = read(LogLine(source="job.log", number=1, text=text, raw=text))

    assert (event.kind, event.fields) == (kind, fields)


def test_ports_that_redirect_nothing_are_no_event():
    text = "ACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"

    assert read(LogLine(source="job.log", number=1, text=text, raw=text)) == ()
