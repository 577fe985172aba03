"""`nvidia-smi nvlink -e`: the error counters of each NVLink since the driver was loaded.

Drivers up to Hopper print replays, recoveries and CRC errors; NVLink 5 has counters of its own, of which
those that report lost or repeated data are read as the same three. People run the command in a loop with
banners, cut its output, and fold links without errors into one line
(`Links 0-2, 4-5: Replay/Recovery/CRC Errors: 0`).
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
_ERROR_LINE = re.compile(
    r"^[ \t]*Links? [\d, -]{1,80}: (?:[A-Za-z /_-]{0,60}(?:Replay|Recovery|CRC)[A-Za-z /_-]{0,60}|"
    r"(?:Malformed packet|Buffer overrun|Rx|Local link integrity|Effective|Symbol|Link recovery"
    r"|Total link recovery)[A-Za-z /_-]{0,60})"
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
"""Part of a counter's name in lower case, and the field that the counter fills.

Raw symbol errors are left out because forward error correction repairs them in normal operation.
"""
_NOT_COUNTED = ("successful",)
"""Counters to skip: recoveries that succeeded are part of the total already."""
_MOST = 2**63
"""Largest count that is kept."""
_MOST_LINKS = 64
"""Upper bound of a link's number: twice as many links as any GPU has."""


class _Gpu:
    """Identity and counters of one GPU while its lines are read."""

    def __init__(self, index: int, name: str | None, uuid: str | None, line: int) -> None:
        self.index, self.name, self.uuid, self.line = index, name, uuid, line
        self.links: dict[int, dict[str, int]] = {}

    def gpu(self) -> Gpu:
        links = tuple(_nvlink(index, self.links[index]) for index in sorted(self.links))
        return Gpu(
            index=self.index,
            name=self.name or NOT_RECORDED,
            uuid=self.uuid or NOT_RECORDED,
            nvlinks=links or NOT_RECORDED,
            evidence=(line_ref(self.line),),
        )


def _nvlink(index: int, counters: dict[str, int]) -> NvLink:
    return NvLink(
        index=index,
        active=NOT_RECORDED,
        replay_errors=counters.get("replay_errors", NOT_RECORDED),
        recovery_errors=counters.get("recovery_errors", NOT_RECORDED),
        crc_errors=counters.get("crc_errors", NOT_RECORDED),
    )


def recognise(text: str) -> bool:
    return _ERROR_LINE.search(text) is not None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs with the error counters of their links, whose states the output does not contain."""
    gpus: dict[tuple[int, str | None], _Gpu] = {}
    current: _Gpu | None = None
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        heading = _GPU.fullmatch(words)
        if heading is not None:
            named_gpu = _Gpu(int(heading[1]), heading[2], heading[3], number)
            current = gpus.setdefault((named_gpu.index, named_gpu.uuid), named_gpu)
        elif (counter := _COUNTER.fullmatch(words)) is not None:
            if current is None:
                current = gpus.setdefault((UNNUMBERED, None), _Gpu(UNNUMBERED, None, None, number))
            _count(current, counter[1], counter[2].lower(), int(counter[3]))
    return tuple(gpu.gpu() for gpu in gpus.values() if gpu.links)


def unread(text: str) -> tuple[Unread, ...]:
    """Return lines that name errors of a link without a readable number.

    Lines about errors that forward error correction repaired (`FEC Errors`) are left out on purpose.
    """
    unread_lines: list[Unread] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        is_error = words.startswith(("Link ", "Links ")) and "Errors" in words and "FEC Errors" not in words
        if is_error and _COUNTER.fullmatch(words) is None:
            unread_lines.append(
                Unread(source="", line=number, text=words[:80], why="no count of NVLink errors")
            )
    return tuple(unread_lines)


def _count(gpu: _Gpu, links: str, name: str, value: int) -> None:
    indices = parse_cpu_list(links.replace(" ", ""))
    if isinstance(indices, Unknown) or any(word in name for word in _NOT_COUNTED):
        return
    fields = {field for part, field in _FIELDS if part in name}
    for index in indices:
        if index < _MOST_LINKS:
            counters = gpu.links.setdefault(index, {})
            for field in fields:
                # Several counters of one field report the same fault, so a sum would count it twice.
                counters[field] = min(max(value, counters.get(field, 0)), _MOST)
