"""Parse `dcgmi nvlink -s` (the state of every link as a letter) and `dcgmi nvlink -e` (error counters)."""

import re

import msgspec

from probes.base.record import NOT_RECORDED, line_ref
from probes.facts import Gpu, NvLink, Unread
from probes.parsers.nvidia_smi.nvlink_error_counts import Links, count_errors

_TITLE = re.compile(r"NvLink Link Status|NVLINK Error Counts|Key: Up=U, Down=D, Disabled=X")
_STATUS_GPU = re.compile(r"gpuId (\d{1,4}):?")
_SECTION = re.compile(r"(?:Nv[Ss]witches|NvSwitch|switchId|physicalId)\b.*")
_LETTERS = re.compile(r"[UDX_](?: [UDX_])*")
_ERROR_GPU = re.compile(r"\|?\s*GPU (?:ID:? )?(\d{1,4})\s*\|?")
_ERROR_LINK = re.compile(r"\|?\s*Link (\d{1,2})\s*\|[\s|]*")
_ERROR = re.compile(r"\|?\s*->\s*([A-Za-z][A-Za-z ]{2,40}?)\s*\|\s*(\S{1,40})\s*\|?")
_STATE = re.compile(r"^[ \t]*gpuId \d{1,4}:?[ \t]*\n\s*[UDX_](?: [UDX_])*[ \t]*$", re.MULTILINE)
_COUNTER = re.compile(r"->\s*(?:CRC FLIT|CRC Data|Replay|Recovery) Error")


def recognise(text: str) -> bool:
    return (
        _TITLE.search(text) is not None
        or _STATE.search(text) is not None
        or _COUNTER.search(text) is not None
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs with the state of their links, their counters, or both."""
    states: dict[int, tuple[NvLink, ...]] = {}
    counters: dict[int, Links] = {}
    lines: dict[int, int] = {}
    gpu: int | None = None
    link: int | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if (match := _STATUS_GPU.fullmatch(line) or _ERROR_GPU.fullmatch(line)) is not None:
            gpu, link = int(match[1]), None
            lines.setdefault(gpu, number)
        elif _SECTION.fullmatch(line):
            gpu = link = None
        elif gpu is None:
            continue
        elif _LETTERS.fullmatch(line) and gpu not in states:
            states[gpu] = _links(line)
        elif (match := _ERROR_LINK.fullmatch(line)) is not None:
            link = int(match[1])
        elif link is not None and (match := _ERROR.fullmatch(line)) is not None and match[2].isdecimal():
            count_errors(counters.setdefault(gpu, {}).setdefault(link, {}), match[1].lower(), int(match[2]))
    return tuple(
        Gpu(
            index=index,
            nvlinks=_joined_links(states.get(index, ()), counters.get(index, {})),
            evidence=(line_ref(lines[index]),),
        )
        for index in sorted({*states, *counters})
    )


def unread(text: str) -> tuple[Unread, ...]:
    """Return counters that are neither numbers nor DCGM's mark for an unreadable counter."""
    return tuple(
        Unread(source="", line=number, text=line[:80], why="no count of NVLink errors")
        for number, line in enumerate(map(str.strip, text.split("\n")), 1)
        if (match := _ERROR.fullmatch(line)) is not None
        and not match[2].isdecimal()
        and match[2] not in ("N/A", "Not")
    )


def _links(letters: str) -> tuple[NvLink, ...]:
    """Return a port for each letter, which is its state; `_` marks a port that the GPU does not have."""
    return tuple(
        NvLink(index=index, active=letter == "U", disabled=letter == "X")
        for index, letter in enumerate(letters.split())
        if letter != "_"
    )


def _joined_links(states: tuple[NvLink, ...], counters: Links) -> tuple[NvLink, ...]:
    by_index = {link.index: link for link in states}
    unknown = NvLink(index=0, active=NOT_RECORDED)
    return tuple(
        msgspec.structs.replace(by_index.get(index, unknown), index=index, **counters.get(index, {}))
        for index in sorted({*by_index, *counters})
    )
