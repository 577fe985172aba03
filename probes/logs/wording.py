"""Texts of rows: templates filled with the fields of events."""

import re
from collections.abc import Iterable, Mapping

from probes.base.units import GIB
from probes.logs.event import Event
from probes.logs.logged_events import number

_PART = re.compile(r"\[([^\[\]]*)\]")
_FIELD = re.compile(r"\{(\w+)(?::(\w+))?\}")
_LONGEST = 200
_NAMED_IN_COMMANDS = frozenset({"port", "hca", "device", "bus"})
_PLACE = re.compile(r"<(\w+)>")
_SEVERAL = re.compile(r"[,\s]|\d-\d")
"""Separators between numbers of several ranks."""
_PLAIN = re.compile(r"\w[\w.:-]{0,40}")


def filled(
    template: str, events: Iterable[Event], more: Mapping[str, object] | None = None, *, parts: bool = True
) -> str:
    """Return a template filled with fields of the first event.

    Missing fields come from the other events; fields in `more` take precedence over both. `{field}` inserts a
    field, `{field:GiB}` a number of bytes in GiB, `{field:CUDA}` the CUDA version of an API number (12040 is
    12.4), and `{field:rank}` becomes "rank 3" or "ranks 3, 6". A part in [brackets] is omitted if a field in
    it is unknown. If `parts` is False, brackets are plain text. If a field outside of omitted parts is
    unknown, every remaining field becomes `?`.
    """
    fields: dict[str, object] = {**(more or {})}
    for event in events:
        for name, value in event.fields.items():
            fields.setdefault(name, value)

    def put(text: str) -> str | None:
        if any(str(fields.get(name, "")) == "" for name, _ in _FIELD.findall(text)):
            return None
        return _FIELD.sub(lambda match: _shown(fields[match[1]], match[2]), text)

    whole = _PART.sub(lambda match: put(match[1]) or "", template) if parts else template
    return put(whole) or _FIELD.sub("?", whole)


def begun(words: str) -> str:
    """Return `words` with a capital letter; addresses and unusual names stay unchanged."""
    return f"{words[:1].upper()}{words[1:]}" if words.partition(" ")[0].isalpha() else words


def command_for(command: str | None, events: Iterable[Event]) -> str | None:
    """Return a command in which values of the events replace `<port>`, `<hca>`, `<device>` and `<bus>`.

    Other placeholders stay.
    """
    if command is None:
        return None
    known: dict[str, str] = {}
    for event in events:
        for name in _NAMED_IN_COMMANDS & event.fields.keys():
            value = str(event.fields[name])
            value = value.partition(":")[0] if name == "hca" else value  # without the port number
            if _PLAIN.fullmatch(value):
                known.setdefault(name, value)
    return _PLACE.sub(lambda match: known.get(match[1], match[0]), command)


def _shown(value: object, form: str | None) -> str:
    text = str(value).rstrip(": ")[:_LONGEST]
    if form is None:
        return text
    if form not in ("GiB", "CUDA"):
        return f"{form}{'s' if _SEVERAL.search(text) else ''} {text}"
    amount = number(text)
    if amount is None:
        return text
    if form == "GiB":
        return f"{amount / GIB:.2f} GiB"
    return f"{amount // 1000:.0f}.{amount % 1000 // 10:.0f}" if amount >= 1000 else text
