"""Parse `nvidia-smi nvlink -e`: the error counters of each NVLink since the driver was loaded.

For GPUs up to Hopper, drivers print replays, recoveries and CRC errors. NVLink 5 has other counters; those of
lost or repeated data fill the same three fields. People run the command in a loop with banners, cut its
output, and join links without errors in one line (`Links 0-2, 4-5: Replay/Recovery/CRC Errors: 0`).
"""

import re

import msgspec

from probes.base.record import NOT_RECORDED, items_of, line_ref
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
_NOT_COUNTED = "successful"
"""Word in the names of counters to skip: the total of recoveries includes successful recoveries."""
_MOST = 2**63
"""Maximum of a count; larger counts are stored as this value."""
_MOST_LINKS = 64
"""Upper bound for link numbers, above the number of links of any GPU."""


Links = dict[int, dict[str, int]]
"""Fields of error counters by the number of the link."""


def recognise(text: str) -> bool:
    return _ERROR_LINE.search(text) is not None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs with the error counters of their links.

    The output does not contain the links' states.
    """
    gpus: dict[tuple[int, str | None], tuple[Gpu, Links]] = {}
    links: Links | None = None
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        heading, counter = _GPU.fullmatch(words), _COUNTER.fullmatch(words)
        if heading is not None or (counter is not None and links is None):
            index, name, uuid = heading.groups() if heading is not None else (UNNUMBERED, None, None)
            gpu = Gpu(
                index=int(index),
                name=name or NOT_RECORDED,
                uuid=uuid or NOT_RECORDED,
                evidence=(line_ref(number),),
            )
            _, links = gpus.setdefault((gpu.index, uuid), (gpu, {}))
        if counter is not None and links is not None:
            _count(links, counter[1], counter[2].lower(), int(counter[3]))
    return tuple(
        msgspec.structs.replace(
            gpu, nvlinks=tuple(link_with_errors(index, links[index]) for index in sorted(links))
        )
        for gpu, links in gpus.values()
        if links
    )


def unread(text: str) -> tuple[Unread, ...]:
    """Return lines that name errors of a link without a readable number.

    Lines about errors that forward error correction repaired (`FEC Errors`) are left out on purpose.
    """
    return tuple(
        Unread(source="", line=number, text=words[:80], why="no count of NVLink errors")
        for number, words in enumerate(map(str.strip, text.split("\n")), 1)
        if words.startswith(("Link ", "Links "))
        and "Errors" in words
        and "FEC Errors" not in words
        and _COUNTER.fullmatch(words) is None
    )


def _count(links: Links, numbers: str, name: str, value: int) -> None:
    for index in items_of(parse_cpu_list(numbers.replace(" ", ""))):
        if index < _MOST_LINKS and _NOT_COUNTED not in name:
            count_errors(links.setdefault(index, {}), name, value)


def count_errors(counters: dict[str, int], name: str, value: int) -> None:
    """Add a counter, whose name is in lower case, to the fields of a link.

    Several counters of one field report the same fault, so the largest counter is used instead of the sum.
    """
    for part, field in _FIELDS:
        if part in name:
            counters[field] = min(max(value, counters.get(field, 0)), _MOST)


def link_with_errors(index: int, counters: dict[str, int]) -> NvLink:
    """Return the link with its counters; missing counters are unknown."""
    return msgspec.structs.replace(NvLink(index=index, active=NOT_RECORDED), **counters)
