"""Test what is reported of given texts of no known kind."""

from __future__ import annotations

import pytest

from probes.collect.collecting import CollectOptions
from probes.collect.given import collect_strangers
from probes.facts import Unread
from probes.sources.base import STRANGER, Given
from tests.support.fake_source import FakeSource


@pytest.mark.parametrize(
    ("text", "line", "title", "kind"),
    [
        ("", 0, "", "file"),
        ("12 show clock", 12, "show clock", "section"),
        ("7", 7, "", "section"),
        ("x 12", 0, "", "file"),
        ("123456789123 far", 123456789, "far", "section"),
        ("1 " + "t" * 121, 1, "t" * 120, "section"),
    ],
)
def test_an_unknown_file_or_part_is_reported_with_its_place(
    text: str, line: int, title: str, kind: str
) -> None:
    source = FakeSource(given={STRANGER: (Given(name="paste.txt", text=text),)})
    why = f"rigtune does not know this kind of {kind}"
    expected = Unread(source="paste.txt", line=line, text=title, why=why)
    assert collect_strangers(source, CollectOptions()) == {"unread": (expected,)}
