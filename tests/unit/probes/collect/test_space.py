"""Test answers of df, failures, and an answer for local filesystems only."""

from __future__ import annotations

import pytest

from probes.base.record import Reason, Unknown
from probes.collect.resources import read_spaces
from tests.support.fake_source import FakeSource

DF = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 1000 400 600 40% /\n"


@pytest.mark.parametrize("reason", [Reason.PERMISSION, Reason.TOOL_MISSING])
def test_df_that_fails_gives_its_own_reason(reason: Reason) -> None:
    source = FakeSource(commands={"df -Pk": Unknown(reason, "df")})
    assert read_spaces(source) == Unknown(reason, "df")
    assert source.asked == ["df -Pk"]


def test_empty_output_of_df_is_unknown() -> None:
    spaces = read_spaces(FakeSource(commands={"df -Pk": ""}))
    assert isinstance(spaces, Unknown)
    assert spaces.reason is Reason.UNPARSABLE


def test_local_filesystems_are_asked_for_where_a_server_is_gone() -> None:
    late = Unknown(Reason.TIMEOUT, "df took longer than 10 s")
    spaces = read_spaces(FakeSource(commands={"df -Pk": late, "df -Pkl": DF}))
    assert not isinstance(spaces, Unknown)
    assert list(spaces) == ["/"]
    assert read_spaces(FakeSource(commands={"df -Pk": late, "df -Pkl": late})) == late
