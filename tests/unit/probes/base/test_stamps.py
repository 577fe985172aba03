"""Test the time stamps of log lines against times that `date -u -d @N` confirms."""

from __future__ import annotations

import re

import pytest

from probes.base.stamps import ISO, SYSLOG, US, WEEKDAY, has_date, inner_seconds, seconds

MAY_DAY = 1714557600.0
"""2024-05-01 10:00:00 UTC."""


@pytest.mark.parametrize(
    ("form", "text", "time_s"),
    [
        (ISO, "2024-05-01T10:00:00Z", MAY_DAY),
        (ISO, "2024/05/01 10:00:00", MAY_DAY),
        (ISO, "2024-05-01 10:00:00,123", MAY_DAY + 0.123),
        (ISO, "2024-05-01 12:00:00 +0200", MAY_DAY),
        (ISO, "2024-05-01T04:30:00-05:30", MAY_DAY),
        (ISO, "2024-05-01 10:00:00 GMT", MAY_DAY),
        (ISO, "2024-12-31T23:59:60Z", 1735689600.0),
        (ISO, "2024-01-31T00:00:00Z", 1706659200.0),
        (ISO, "2024-00-01T10:00:00Z", None),
        (ISO, "2024-13-01T10:00:00Z", None),
        (ISO, "2024-05-00T10:00:00Z", None),
        (ISO, "2024-05-32T10:00:00Z", None),
        (ISO, "2024-05-01T24:00:00Z", None),
        (ISO, "2024-05-01T10:60:00Z", None),
        (ISO, "2024-05-01T10:00:61Z", None),
        (ISO, "0001-01-01T00:00:00Z", 0.0),
        (US, "05/01/2024 10:00:00", MAY_DAY),
        (WEEKDAY, "Wed May  1 10:00:00 2024", MAY_DAY),
        (SYSLOG, "May  1 10:00:00.5", MAY_DAY + 0.5),
        (SYSLOG, "Abc  1 10:00:00", None),
    ],
)
def test_a_stamp_is_read_or_is_no_date(form: str, text: str, time_s: float | None) -> None:
    match = re.match(form, text)
    assert match is not None
    assert seconds(match, 2024) == time_s


def test_a_stamp_without_a_year_needs_one() -> None:
    match = re.match(SYSLOG, "May  1 10:00:00")
    assert match is not None
    assert seconds(match, None) is None


@pytest.mark.parametrize(
    ("message", "time_s"),
    [
        ("[E501 10:00:00.25 ProcessGroupNCCL.cpp:616] watchdog", None),
        ("[E0501 10:00:00.250000 ProcessGroupNCCL.cpp:616] watchdog", MAY_DAY + 0.25),
        ("[May 01 2024 10:00:00] [INFO] [tid 1] started", MAY_DAY),
        ("watchdog", None),
    ],
)
def test_a_message_can_begin_with_a_stamp(message: str, time_s: float | None) -> None:
    assert inner_seconds(message, 2024) == time_s


def test_an_uptime_has_no_date() -> None:
    assert has_date(MAY_DAY)
    assert has_date(1e8)
    assert not has_date(1e8 - 1)
    assert not has_date(None)
