"""`nvidia-smi nvlink -e`: the error counters of each NVLink since the driver was loaded.

Drivers up to Hopper print replays, recoveries and CRC errors; NVLink 5 has counters of its own, of which
those that tell of lost or repeated data are read as the same three. People run it in a loop with banners, cut
it, and fold zero links into one line (`Links 0-2, 4-5: Replay/Recovery/CRC Errors: 0`).
"""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Unknown
from probes.facts import Gpu, NvLink, Unread
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.host.cpulist import parse_cpu_list

_GPU = re.compile(r"GPU (\d{1,4})(?:: (.{1,100}?))?(?:\s*\(UUID: ([^)\s]{1,80})\)?)?:?")
_COUNTER = re.compile(
    r"Links? ([\d, -]{1,80}): ([A-Za-z][A-Za-z /_-]{2,60}?)(?:\s+\(?errors\)?)?\s*:\s*(\d{1,20})",
    re.IGNORECASE,
)
_SIGN = re.compile(
    r"^[ \t]*Links? [\d, -]{1,80}: (?:[A-Za-z /_-]{0,60}(?:Replay|Recovery|CRC)[A-Za-z /_-]{0,60}|"
    r"(?:Malformed packet|Buffer overrun|Rx|Local link integrity|Effective|Symbol|Link recovery|Total link recovery)"
    r"[A-Za-z /_-]{0,60})"
    r":\s*\d",
    re.MULTILINE | re.IGNORECASE,
)
_FIELDS: tuple[tuple[str, str], ...] = (
    ("replay", "replay_errors"),
    ("recovery", "recovery_errors"),
    ("crc", "crc_errors"),
    ("malformed packet", "crc_errors"),
    ("buffer overrun", "crc_errors"),
    ("local link integrity", "crc_errors"),
    ("rx errors", "crc_errors"),
    ("effective errors", "crc_errors"),
)
"""Part of a counter's name in lower case, and the field that it is. Raw symbol errors are left out: error
correction lives with them.
"""
_NOT_COUNTED = ("successful",)
"""Recoveries that succeeded come on top of the total."""
_MOST = 2**63
_MOST_LINKS = 64
"""Twice as many as any GPU has."""


class _Gpu:
    """What was read of one GPU so far."""

    def __init__(self, index: int, name: str | None, uuid: str | None, line: int) -> None:
        self.index, self.name, self.uuid, self.line = index, name, uuid, line
        self.links: dict[int, dict[str, int]] = {}

    def gpu(self) -> Gpu:
        links = tuple(_counted(index, self.links[index]) for index in sorted(self.links))
        return Gpu(
            index=self.index,
            name=self.name or NOT_RECORDED,
            uuid=self.uuid or NOT_RECORDED,
            nvlinks=links or NOT_RECORDED,
            evidence=(line_ref(self.line),),
        )


def _counted(index: int, counters: dict[str, int]) -> NvLink:
    return NvLink(
        index=index,
        active=NOT_RECORDED,
        replay_errors=counters.get("replay_errors", NOT_RECORDED),
        recovery_errors=counters.get("recovery_errors", NOT_RECORDED),
        crc_errors=counters.get("crc_errors", NOT_RECORDED),
    )


def recognise(text: str) -> bool:
    return _SIGN.search(text) is not None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs with the counters of their links. Whether a link is up is not told."""
    found: dict[tuple[int, str | None], _Gpu] = {}
    current: _Gpu | None = None
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        heading = _GPU.fullmatch(words)
        if heading is not None:
            new = _Gpu(int(heading[1]), heading[2], heading[3], number)
            current = found.setdefault((new.index, new.uuid), new)
        elif (counter := _COUNTER.fullmatch(words)) is not None:
            if current is None:
                current = found.setdefault((UNNUMBERED, None), _Gpu(UNNUMBERED, None, None, number))
            _count(current, counter[1], counter[2].lower(), int(counter[3]))
    return tuple(gpu.gpu() for gpu in found.values() if gpu.links)


def unread(text: str) -> tuple[Unread, ...]:
    """Lines that name a link's errors without a number that can be read. What error correction mends is
    none.
    """
    found: list[Unread] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        is_error = words.startswith(("Link ", "Links ")) and "Errors" in words and "FEC Errors" not in words
        if is_error and _COUNTER.fullmatch(words) is None:
            found.append(Unread(source="", line=number, text=words[:80], why="no count of NVLink errors"))
    return tuple(found)


def _count(gpu: _Gpu, links: str, name: str, value: int) -> None:
    indices = parse_cpu_list(links.replace(" ", ""))
    if isinstance(indices, Unknown) or any(word in name for word in _NOT_COUNTED):
        return
    fields = {field for part, field in _FIELDS if part in name}
    for index in indices:
        if index < _MOST_LINKS:
            counters = gpu.links.setdefault(index, {})
            for field in fields:
                # Several counters of one field tell of the same trouble: the largest counts.
                counters[field] = min(max(value, counters.get(field, 0)), _MOST)
