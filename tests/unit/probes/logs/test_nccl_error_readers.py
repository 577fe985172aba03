"""Test warnings and failures of NCCL, RCCL and their plugins, by version of the message."""

from __future__ import annotations

import pytest

from probes.logs.event import LogLine
from probes.logs.readers import nccl_errors, network_libraries, plugins, rccl
from tests.support.nccl_error_messages import ERROR_MESSAGES
from tests.support.nccl_plugin_messages import PLUGIN_MESSAGES

_MESSAGES = [*ERROR_MESSAGES, *PLUGIN_MESSAGES]


def _read(module, text):
    reader = module.Reader() if hasattr(module, "Reader") else module
    return reader.read(LogLine(source="log", number=7, text=text, raw=text))


@pytest.mark.parametrize(("module", "text", "kind", "fields"), _MESSAGES)
def test_a_message_gives_its_event(module, text, kind, fields):
    event = next(event for event in _read(module, text) if event.kind == kind)
    assert {name: event.fields.get(name) for name in fields} == fields


@pytest.mark.parametrize(("module", "text", "kind", "fields"), _MESSAGES)
def test_the_line_bears_a_sign_of_its_reader(module, text, kind, fields):
    assert any(sign in text.encode() for sign in module.SIGNS)


@pytest.mark.parametrize("text", [text for _, text, _, _ in _MESSAGES])
def test_cut_anywhere_nothing_is_raised(text):
    for module in (nccl_errors, network_libraries, plugins, rccl):
        for place in range(0, len(text), 3):
            _read(module, text[:place])
            _read(module, text[place:])
