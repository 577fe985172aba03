"""Test details of kernel logs: distances in time, bits of status registers, and prefixes of lines."""

from __future__ import annotations

import pytest

from probes.parsers.kernel.kernel_log import parse_kernel_log, recognise
from probes.parsers.kernel.log_lines import KERNEL, lines_with, take_apart

XID = "NVRM: Xid (PCI:0000:17:00): {code}, pid=4242, name=python3, x."


def xids(*lines: tuple[float, int]) -> list[tuple[int | None, int | None]]:
    text = "".join(f"[ {time_s:.6f}] {XID.format(code=code)}\n" for time_s, code in lines)
    return [(event.code, event.after) for event in parse_kernel_log(text).events if event.kind == "xid"]


def test_a_later_xid_belongs_to_the_first_only_within_its_time() -> None:
    near = xids((1000.0, 79), (1001.0, 154))
    assert near == [(79, None), (154, 79)]
    far = xids((1000.0, 79), (999_999.0, 154))
    assert far == [(79, None), (154, None)]
    # The difference decides, not the sum: long after the boot, two lines may still be near.
    late = xids((900_000.0, 79), (900_001.0, 154))
    assert late == [(79, None), (154, 79)]


@pytest.mark.parametrize(
    ("words", "fatal"),
    [
        ("CPU 0: Machine Check: 0 Bank 5: bc00000000000000", True),
        ("CPU 0: Machine Check: 0 Bank 5: 9c00000000000000", False),
        ("CPU 0: Machine Check: 0 Bank 5: 2000000000000000", True),
        ("CPU 0: Machine Check: 0 Bank 5: 4000000000000000", False),
        ("CPU:2 (19:1:1) MC17_STATUS[Over|UE|MiscV|AddrV]: 0xdc2040000000011b", True),
        ("CPU:2 (19:1:1) MC17_STATUS[Over|CE|MiscV|AddrV]: 0xdc2040000000011b", False),
    ],
)
def test_a_bank_shows_whether_its_error_was_corrected(words: str, fatal: bool) -> None:
    """Bit 61 of the status is set if the error was not corrected; AMD's driver writes UE or CE."""
    events = parse_kernel_log(f"[ 10.000000] mce: [Hardware Error]: {words}\n").events
    assert [event.fatal for event in events] == [fatal]


@pytest.mark.parametrize(
    ("message", "device"),
    [
        ("dd: attempt to access beyond end of device", "dd"),
        ("attempt to access beyond end of device", None),
        ("Kworker: attempt to access beyond end of device", None),
    ],
)
def test_an_access_beyond_the_end_names_its_program(message: str, device: str | None) -> None:
    (event,) = parse_kernel_log(f"[ 10.000000] {message}\n").events
    assert event.device == device


def test_lines_with_a_word_are_numbered_from_one() -> None:
    words = {"a": 1, "b": 2}
    assert list(lines_with("a b\nx\nb b\na", words)) == [(1, "a b", 3), (3, "b b", 2), (4, "a", 1)]
    assert list(lines_with("a\n", words)) == [(1, "a", 1)]
    assert list(lines_with("\na", words)) == [(2, "a", 1)]
    assert list(lines_with("", words)) == []


@pytest.mark.parametrize(
    ("line", "origin", "message"),
    [
        ("2025-01-21T04:41:44+0000 n1 kernel: x: y", KERNEL, "x: y"),
        ("2025-01-21T04:41:44+0000 n1 sshd[7]: y", "sshd", "y"),
        ("Jan 21 04:41:44 n1 kernel: [ 12.500000] y", KERNEL, "y"),
    ],
)
def test_the_program_that_wrote_a_line(line: str, origin: str, message: str) -> None:
    parts = take_apart(line)
    assert (parts.origin, parts.message) == (origin, message)


@pytest.mark.parametrize(
    ("kernel", "others", "is_log"),
    [(1, 1, True), (1, 2, False), (2, 2, True), (100, 100, True), (99, 101, False)],
)
def test_half_of_the_lines_of_a_kernel_log_have_its_prefix(kernel: int, others: int, is_log: bool) -> None:
    text = "[ 10.000000] usb 1-1: new device\n" * kernel + "step 7 loss 2.1\n" * others
    assert recognise(text) is is_log
    assert recognise("\n".join(reversed(text.splitlines()))) is is_log


def test_only_the_first_lines_of_a_text_decide() -> None:
    assert recognise("[ 10.000000] usb 1-1: new device\n" * 100 + "step 7 loss 2.1\n" * 300)
