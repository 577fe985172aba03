"""Parse `nvidia-smi nvlink --status`, and `--capabilities`, which shows the ports that a GPU has."""

import re

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, items_of, line_ref
from probes.base.units import GB
from probes.facts import Gpu, NvLink
from probes.facts.gpu_facts import UNNUMBERED

_GPU = re.compile(r"GPU (\d{1,4}): (.+?)(?: \(UUID: ([^)\s]+)\)?)?")
_LINK = re.compile(r"\s*Link (\d{1,3}): (?:(\d+(?:\.\d+)?) GB/s|(<inactive>))\s*", re.IGNORECASE)
_CAPABILITY = re.compile(
    r"\s*Link (\d{1,3}), [A-Za-z0-9][A-Za-z0-9 ]{2,60}: (?:true|false)\s*", re.IGNORECASE
)
_P2P = re.compile(r"^[ \t]*Link \d{1,3}, P2P is supported: (?:true|false)", re.MULTILINE | re.IGNORECASE)
_BEGIN = re.compile(
    r"^[ \t]*GPU \d+: [^\n(]{1,120}(?:\(UUID: [^)\n]*\))?[ \t]*\n"
    r"\s*(?:Link \d+: (?:<inactive>|[\d.]+ [GM]B/s)"
    r"|NVML: Unable to retrieve NVLink information"
    r"|Device does not have or support Nvlink"
    r"|Nvlink queries are not supported)",
    re.MULTILINE | re.IGNORECASE,
)
"""First two lines of the output of `--status`."""


_ALL_INACTIVE = "all links are inactive"
_CUT = re.compile(
    r"(?:\[ ?)?(?:\.{2,10}|…)(?: ?\])?|\[?(?:snip|cut|truncated|output omitted)\]?", re.IGNORECASE
)
"""Marks that people write in place of removed lines."""


class NvlinkStatus(Record, kw_only=True):
    """The NVLink ports of one GPU. An empty tuple means that the GPU has no links."""

    index: int
    """Index of the GPU; `UNNUMBERED` if the text does not name the GPU."""
    name: str | Unknown
    uuid: str | Unknown = NOT_RECORDED
    nvlinks: tuple[NvLink, ...] | Unknown = NOT_RECORDED
    line: int = 0
    """Number of the first line of the GPU's block, from 1."""


def recognise(text: str) -> bool:
    return bool(_BEGIN.search(text) or _P2P.search(text))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the output.

    Links that the text mentions without a number share one record with the index `UNNUMBERED`: all links if
    the driver prints that all are inactive, or the remaining links if somebody cut the list.
    """
    return tuple(
        Gpu(
            index=gpu.index,
            name=gpu.name,
            uuid=gpu.uuid,
            nvlinks=_ports(gpu.nvlinks),
            evidence=(line_ref(gpu.line),),
        )
        for gpu in items_of(parse_nvlink_status(text))
    )


def _ports(links: tuple[NvLink, ...] | Unknown) -> tuple[NvLink, ...] | Unknown:
    if isinstance(links, Unknown) and _ALL_INACTIVE in links.detail.lower():
        return (NvLink(index=UNNUMBERED, active=False),)
    return links


def parse_nvlink_status(text: str) -> tuple[NvlinkStatus, ...] | Unknown:
    """Return the GPUs in the order of the output; Unknown if the output names none."""
    status_by_gpu: dict[tuple[int, str | Unknown], NvlinkStatus] = {}
    links: list[NvLink] = []
    verdict: tuple[NvLink, ...] | Unknown = NOT_RECORDED
    heading: re.Match[str] | None = None
    start = 0

    def finish_block() -> None:
        if heading is None and not links:
            return
        index, name = (int(heading[1]), heading[2]) if heading else (UNNUMBERED, NOT_RECORDED)
        uuid = heading[3] or NOT_RECORDED if heading else NOT_RECORDED
        block = NvlinkStatus(index=index, name=name, uuid=uuid, nvlinks=tuple(links) or verdict, line=start)
        # The output of --capabilities repeats the GPUs of --status and completes the data of their links.
        first = status_by_gpu.setdefault((index, uuid), block)
        nvlinks = first.nvlinks if first is block else _joined_links(first.nvlinks, block.nvlinks)
        status_by_gpu[index, uuid] = msgspec.structs.replace(first, nvlinks=nvlinks)

    for number, line in enumerate(text.split("\n"), 1):
        if (match := _GPU.fullmatch(line.strip())) is not None:
            finish_block()
            heading, links, verdict, start = match, [], NOT_RECORDED, number
        elif (match := _LINK.fullmatch(line)) is not None:
            start = start or number
            speed = float(match[2]) * GB if match[2] else NOT_RECORDED
            links.append(
                NvLink(index=int(match[1]), active=match[2] is not None, bandwidth_bytes_per_s=speed)
            )
        elif (match := _CAPABILITY.fullmatch(line)) is not None:
            start = start or number
            if not links or links[-1].index != int(match[1]):
                links.append(NvLink(index=int(match[1]), active=NOT_RECORDED))
        elif links and _CUT.fullmatch(line.strip()):
            links.append(
                NvLink(index=UNNUMBERED, active=Unknown(Reason.NOT_RECORDED, "the list of links was cut"))
            )
        else:
            verdict = _links_by_message(line, verdict)
    finish_block()
    return tuple(status_by_gpu.values()) or Unknown(
        Reason.UNPARSABLE, "no GPU in the output of nvidia-smi nvlink"
    )


def _joined_links(
    earlier: tuple[NvLink, ...] | Unknown, later: tuple[NvLink, ...] | Unknown
) -> tuple[NvLink, ...] | Unknown:
    """Return the links of two blocks about the same GPU.

    The first block shows the links, the second their capabilities. The mark of a cut in the second block is
    dropped.
    """
    if isinstance(earlier, Unknown) or isinstance(later, Unknown):
        return later if isinstance(earlier, Unknown) else earlier
    known = {link.index for link in earlier}
    return (*earlier, *(link for link in later if link.index not in known and link.index != UNNUMBERED))


def _links_by_message(line: str, so_far: tuple[NvLink, ...] | Unknown) -> tuple[NvLink, ...] | Unknown:
    """Return the links that a message in place of the list implies; for other lines return `so_far`."""
    words = line.strip().lower()
    if "does not have or support nvlink" in words:
        return ()
    is_unsupported = "not supported" in words and "nvlink" in words
    if is_unsupported or _ALL_INACTIVE in words or words.startswith("nvml:"):
        return Unknown(Reason.NOT_SUPPORTED if is_unsupported else Reason.ERROR, line.strip()[:120])
    return so_far
