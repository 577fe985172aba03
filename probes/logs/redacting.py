"""Redaction of names and secrets in events, with the rules of `rigtune capture`.

Events are redacted before they become text, so that all later text contains placeholders. The rules
miss some names: a person should check the result.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from probes.logs.event import Event
from probes.logs.events.log_record import Value, with_fields
from probes.logs.file_names import writer_of
from probes.logs.gather import LONGEST_TEXT
from probes.redaction.text import TextRedactor

_NAME = r"([A-Za-z][\w.-]{0,252}\w)"
_HOST_PLACES = tuple(
    map(
        re.compile,
        (
            rf"(?<![\w.-]){_NAME}(?=:\d{{1,10}}:\d{{1,10}} \[-?\d{{1,4}}\] )",
            rf"\b[Hh]ost\s{{0,20}}:\s{{0,20}}{_NAME}",
            rf"\b(?:[Nn]ode|[Hh]ost)s?:? (?=[\w.-]{{0,200}}\d){_NAME}",
            rf"\[{_NAME}(?=\]:\d{{2,5}}\b|:\d{{2,9}}\])",
            rf"\({_NAME}(?=, \d{{2,5}}\))",
        ),
    )
)
"""Patterns of the places at which NCCL, torchrun, MPI and torch's stores name a host.

The rules of `rigtune capture` lack these patterns, because outside logs they match too many other words.
"""
_HOST_FIELDS = frozenset({"host", "hosts", "peer", "node", "nodes"})
_HOST_TITLE = "host"
_LONG = 24
"""Minimum number of characters at which a text is searched in the line."""


class LogRedactor:
    """Replaces names in events by placeholders; the same name always gets the same placeholder.

    Without the `salt`, nobody can find the name of a placeholder by trying names.
    """

    def __init__(self, salt: bytes) -> None:
        self._names = TextRedactor(salt, trusts_labels=True)
        self._learnt: set[tuple[str, str]] = set()
        self._redacted: dict[tuple[str, str], str] = {}
        """Redacted texts; the key is the title (or line) and the original text."""

    def learn(self, events: Iterable[Event], sources: Iterable[str] = ()) -> None:
        """Learn the names in events, in their lines and in names of logs, before any event is redacted."""
        before = self._names.names_known
        for name in sources:
            if (host := writer_of(name).host) is not None:
                self._learn(_HOST_TITLE, host)
            self._learn("", name)
        for event in events:
            if event.host is not None:
                self._learn(_HOST_TITLE, event.host)
            for name, value in event.fields.items():
                if isinstance(value, str):
                    self._learn(_title(name, event.fields), value)
            self._learn("", event.text)
        if self._names.names_known != before:
            self._redacted.clear()

    def event(self, event: Event) -> Event:
        """Return the event with placeholders in all its texts."""
        text = self.text(event.text)
        return msgspec.structs.replace(
            event,
            source=self.text(event.source),
            host=None if event.host is None else self._text(_HOST_TITLE, event.host),
            what=with_fields(
                event.what, {name: self._field(name, value, event) for name, value in event.fields.items()}
            ),
            text=text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…",
        )

    def text(self, text: str) -> str:
        """Return any other text, such as the name of a log, with names replaced by placeholders."""
        return self._text("", text)

    def _learn(self, title: str, text: str) -> None:
        if (title, text) in self._learnt:
            return
        self._learnt.add((title, text))
        if title == _HOST_TITLE:
            self._names.learn_hosts(text)
            return
        for place in _HOST_PLACES:
            for match in place.finditer(text):
                self._names.learn_hosts(match[1])
        self._names.learn(text, title)

    def _field(self, name: str, value: Value, event: Event) -> Value:
        if not isinstance(value, str):
            return value
        title = _title(name, event.fields)
        if title or len(value) < _LONG or value == event.text:
            return self._text(title, value)
        return self._once((event.text, value), lambda: self._names.part(event.text, value))

    def _text(self, title: str, text: str) -> str:
        if title == _HOST_TITLE:
            return self._once((title, text), lambda: self._names.host(text))
        return self._once((title, text), lambda: self._names.text(text, title))

    def _once(self, key: tuple[str, str], redacted: Callable[[], str]) -> str:
        known = self._redacted.get(key)
        if known is None:
            known = self._redacted[key] = redacted()
        return known


def _title(name: str, fields: Mapping[str, Value]) -> str:
    """Return the title of a field: `host`, or the variable whose value the field contains.

    Empty for other fields.
    """
    if name in _HOST_FIELDS:
        return _HOST_TITLE
    variable = fields.get("name") if name == "value" else None
    return variable if isinstance(variable, str) else ""
