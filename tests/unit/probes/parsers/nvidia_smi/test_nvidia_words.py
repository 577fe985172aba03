"""Test words and numbers of the NVIDIA driver: masks, flags and actions."""

from __future__ import annotations

import pytest

from probes.base.record import Reason, Unknown
from probes.parsers.nvidia_smi import nvidia_words
from probes.parsers.nvidia_smi.nvlink_error_counts import unread


def reason_or_value(value: object) -> object:
    return value.reason if isinstance(value, Unknown) else value


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0, Reason.NOT_SUPPORTED),
        # Two bits for each flag: 1 is true, 2 is false, 0 is not supported.
        (0b01, ("degraded_bandwidth",)),
        (0b10, ()),
        (0b0100, ("route_recovery",)),
        (0b010000, ("route_unhealthy",)),
        (0b01000000, ("access_timeout",)),
        (0b01010101, ("degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout")),
        (0b10101010, ()),
        (0x100, ()),
        (0x200, ("incorrect_configuration",)),
        (0x1000, ()),
    ],
)
def test_the_health_of_the_fabric(mask: int, expected: object) -> None:
    assert reason_or_value(nvidia_words.fabric_health(mask)) == expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("0x0000000000000004", ("sw_power_cap",)),
        (0x5, ("gpu_idle", "sw_power_cap")),
        ("0", ()),
        (0, ()),
        ("x", Reason.UNPARSABLE),
        ("0" * 40 + "4", ()),
        ("0" * 39 + "4", ("sw_power_cap",)),
    ],
)
def test_reasons_for_reduced_clocks(mask: str | int, expected: object) -> None:
    assert reason_or_value(nvidia_words.event_reasons(mask)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("None", "none"),
        ("Reset", "gpu reset"),
        ("[Reboot]", "node reboot"),
        ("Drain and Reset Recommended", "drain and reset"),
        ("reset " + "x" * 200, "reset " + "x" * 114),
    ],
)
def test_the_action_that_the_driver_requests(text: str, expected: str) -> None:
    assert nvidia_words.recovery_action(text, "action") == expected


@pytest.mark.parametrize("text", ["N/A", "", None])
def test_an_action_that_is_not_printed_is_unknown(text: str | None) -> None:
    assert isinstance(nvidia_words.recovery_action(text, "action"), Unknown)


@pytest.mark.parametrize(
    ("text", "reset", "flag"),
    [
        ("Yes", True, True),
        ("No", False, False),
        ("1", None, True),
        ("0", None, False),
        (None, None, None),
        ("?", None, None),
    ],
)
def test_flags_are_words_or_numbers(text: str | None, reset: bool | None, flag: bool | None) -> None:
    for value, expected in (
        (nvidia_words.reset_flag(text, "x"), reset),
        (nvidia_words.flag(text, "x"), flag),
    ):
        assert value is expected or (expected is None and isinstance(value, Unknown))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("639 bank(s)", 639), ("0 bank(s)", 0), ("7", 7), (None, None), ("many bank(s)", None)],
)
def test_numbers_of_banks(text: str | None, expected: int | None) -> None:
    number = nvidia_words.banks(text, "banks")
    assert number == expected or (expected is None and isinstance(number, Unknown))


@pytest.mark.parametrize(("text", "expected"), [("1 MiB", True), ("0 MiB", False), ("N/A", None)])
def test_whether_a_memory_is_larger_than_nothing(text: str, expected: bool | None) -> None:
    value = nvidia_words.is_positive_memory(text, "memory")
    assert value is expected or (expected is None and isinstance(value, Unknown))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0x233010DE", "10de:2330"), ("233010de", "10de:2330"), ("0x000010DE", None), ("N/A", None)],
)
def test_a_device_id_begins_with_the_vendor(text: str, expected: str | None) -> None:
    value = nvidia_words.device_id(text, "id")
    assert value == expected or (expected is None and isinstance(value, Unknown))


def test_a_line_of_link_errors_without_a_number_is_cut_after_80_characters() -> None:
    line = "Link 0: Replay Errors: " + "x" * 80
    assert [(row.line, row.text) for row in unread(f"\n {line}\nLink 0: FEC Errors: y\nErrors: z\n")] == [
        (2, line[:80])
    ]
