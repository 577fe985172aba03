"""Test that kernel messages are read with their time and host, whatever tool forwards them."""

from __future__ import annotations

import pytest

from probes.logs.envelopes import Unwrapper
from tests.support.log_cases.reading import explained, ids

MESSAGE = "nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff"
UPTIME_S = 4100.25
MOMENT_S = 1_739_204_886.0
"""2025-02-10 16:28:06 UTC."""


@pytest.mark.parametrize(
    ("before", "time_s", "host"),
    [
        ("[ 4100.250000] ", UPTIME_S, None),
        ("[ 4100.250000][ T1234] ", UPTIME_S, None),
        ("[ 4100.250000 <    0.000012>] ", UPTIME_S, None),
        ("<3>[ 4100.250000] ", UPTIME_S, None),
        ("    [ 4100.250000] ", UPTIME_S, None),
        ("3,2048,4100250000,-;", UPTIME_S, None),
        ("3,2048,4100250000,-,caller=T123;", UPTIME_S, None),
        ("kern  :err   : [ 4100.250000] ", UPTIME_S, None),
        ("kern  :err   : 2025-02-10T16:28:06,000000+00:00 ", MOMENT_S, None),
        ("2025-02-10T16:28:06,000000+00:00 ", MOMENT_S, None),
        ("[Mon Feb 10 16:28:06 2025] ", MOMENT_S, None),
        ("[Feb10 16:28] ", None, None),
        ("[  +0.000012] ", None, None),
        ("Feb 10 16:28:06 kit-7 kernel: ", MOMENT_S, "kit-7"),
        ("Feb 10 16:28:06 kit-7 kernel: [ 4100.250000] ", MOMENT_S, "kit-7"),
        ("2025-02-10T16:28:06+0000 kit-7 kernel: ", MOMENT_S, "kit-7"),
        ("Mon 2025-02-10 16:28:06 UTC kit-7 kernel: ", MOMENT_S, "kit-7"),
        ("1739204886.000000 kit-7 kernel: ", None, "kit-7"),
        ("[ 4100.250000] kit-7 kernel: ", UPTIME_S, "kit-7"),
        ("<3>1 2025-02-10T16:28:06.000000+00:00 kit-7 kernel - - - ", MOMENT_S, "kit-7"),
        ("kit-7: [ 4100.250000] ", UPTIME_S, "kit-7"),
        ("kit-7: [Mon Feb 10 16:28:06 2025] ", MOMENT_S, "kit-7"),
        ("kit[07-09]: [ 4100.250000] ", UPTIME_S, "kit[07-09]"),
        ("10.0.0.7: kern:    err: [2025-02-10T16:28:06.000000Z]: ", MOMENT_S, "10.0.0.7"),
        ("/var/log/kern.log.1:Feb 10 16:28:06 kit-7 kernel: ", MOMENT_S, "kit-7"),
        ("/var/log/dmesg:88:[ 4100.250000] ", UPTIME_S, None),
        ("88:[ 4100.250000] ", UPTIME_S, None),
        ("> [ 4100.250000] ", UPTIME_S, None),
        ("2025-02-10T16:28:06.000000000Z stdout F [ 4100.250000] ", MOMENT_S, None),
    ],
)
def test_a_message_is_read_in_every_form(before: str, time_s: float | None, host: str | None) -> None:
    (line,) = Unwrapper("k", 2025).lines(1, (before + MESSAGE).encode())
    assert (line.text, line.time_s, line.host, line.is_kernel) == (MESSAGE, time_s, host, True)
    assert ids(explained(before + MESSAGE + "\n"))[0] == "host-hardware"


@pytest.mark.parametrize(
    "record",
    [
        '{"__REALTIME_TIMESTAMP": "1739204886000000", "_HOSTNAME": "kit-7", "_TRANSPORT": "kernel", '
        '"MESSAGE": "%s"}',
        '{"jsonPayload": {"message": "[ 4100.250000] %s"}, "timestamp": "2025-02-10T16:28:06Z"}',
        '{"log": "[ 4100.250000] %s\\n", "stream": "stdout", "time": "2025-02-10T16:28:06Z"}',
    ],
)
def test_a_message_is_read_in_records(record: str) -> None:
    (line,) = Unwrapper("k", 2025).lines(1, (record % MESSAGE).encode())
    assert (line.text, line.time_s, line.is_kernel) == (MESSAGE, MOMENT_S, True)


@pytest.mark.parametrize(
    "text", [MESSAGE, f"2025-02-10 16:28:06,000 {MESSAGE}", f"Feb 10 16:28:06 kit-7 trainer[44]: {MESSAGE}"]
)
def test_a_line_that_a_program_may_have_written_is_not_taken_for_a_kernel_message(text: str) -> None:
    (line,) = Unwrapper("k", 2025).lines(1, text.encode())
    assert not line.is_kernel
    assert "host-hardware" not in ids(explained(text + "\n"))
