"""Parse `bandwidthTest` of the CUDA samples, and `gpu_copy` of SuperBench: copies between host and GPUs.

bandwidthTest prints one line per size (`--csv`, shmoo mode) or a table; its D2D copies stay within one GPU's
memory. If there are rates for several sizes, the highest rate is used. Units: GB/s are 1e9 bytes per second.
"""

import re
from collections.abc import Iterator

from probes.base.record import line_ref, value_or
from probes.base.units import GB
from probes.facts import Gpu, ToolResult
from probes.parsers.tools.tool_text import gpus_measured, number, status_result, untagged_lines

BANDWIDTH_TEST = "bandwidthTest"
GPU_COPY = "gpu_copy"

_CSV = re.compile(
    r"bandwidthTest-(H2D|D2H|D2D)(?:-(Pinned|Paged))?, Bandwidth = (\S{1,24}) ([GM])B/s, "
    r"Time = \S{1,24} s?,? ?Size = (\d{1,18}) bytes.{0,60}"
)
_HEADING = re.compile(
    r"\s{0,8}(Host to Device|Device to Host|Device to Device) Bandwidth, \d{1,4} Device\(s\).{0,40}"
)
_MEMORY = re.compile(r"\s{0,8}(PINNED|PAGEABLE) Memory Transfers.{0,40}")
_UNIT = re.compile(r"\s{0,8}Transfer Size \(Bytes\)\s+Bandwidth\(([GM])B/s\)\s*")
_ROW = re.compile(r"\s{0,8}(\d{1,18})\s+(\S{1,24})\s*")
_DEVICE = re.compile(r"\s{0,8}Device (\d{1,4}): (\S.{0,100}?)\s*")
_ERROR = re.compile(
    r"\s{0,8}Result = FAIL\s*|.{0,80}(?:CUDA error at|cudaGetDeviceCount returned|code=\d{1,6}\().*"
)
_COPY = re.compile(
    r"(cpu|gpu\d{1,3})_(to|and)_(cpu|gpu\d{1,3})(_read|_write)?_by_(sm|dma)"
    r"(?:_under_numa\d{1,3})?:? (\S{1,24})\s*"
)
_DIRECTIONS = {"Host to Device": "H2D", "Device to Host": "D2H", "Device to Device": "D2D"}
_FACTORS = {"G": float(GB), "M": 1e6}
"""Bytes per printed unit, with the prefix of the unit as the key."""
_TITLES = ("[CUDA Bandwidth Test]", "bandwidthTest-H2D", "bandwidthTest-D2H", "bandwidthTest-D2D")


def recognise(text: str) -> bool:
    return any(title in text for title in _TITLES) or any(
        _COPY.fullmatch(line) for line in text.split("\n") if "_by_" in line
    )


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return the best rate of each direction and kind of host memory, and each copy of gpu_copy."""
    best: dict[tuple[str, str, str], ToolResult] = {}
    others: list[ToolResult] = []
    for result in _results(text):
        key = (result.tool, result.test, result.subject)
        if result.metric != "bandwidth":
            others.append(result)
        elif key not in best or value_or(result.value, 0.0) > value_or(best[key].value, 0.0):
            best[key] = result
    return (*best.values(), *others)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs that were measured, with CUDA's numbers.

    These equal NVML's numbers if all GPUs are visible and of one kind.
    """
    gpus: dict[int, Gpu] = {index: Gpu(index=index) for index in gpus_measured(parse_results(text))}
    for line_number, line in enumerate(text.split("\n"), 1):
        if (match := _DEVICE.fullmatch(line)) is not None:
            gpus[int(match[1])] = Gpu(index=int(match[1]), name=match[2], evidence=(line_ref(line_number),))
    return tuple(gpus[index] for index in sorted(gpus))


def _results(text: str) -> Iterator[ToolResult]:
    table = _Table()
    for line_number, line in untagged_lines(text):
        if (match := _CSV.fullmatch(line)) is not None:
            kind = f"{match[1]}-{match[2]}" if match[2] else match[1]
            yield from _rate((kind, table.device), match[3], _FACTORS[match[4]], int(match[5]), line_number)
        elif (match := _COPY.fullmatch(line)) is not None:
            yield from _copy(match, line_number)
        elif _ERROR.fullmatch(line):
            yield status_result(BANDWIDTH_TEST, line, line_number)
        else:
            yield from table.read(line, line_number)


class _Table:
    """Parser of bandwidthTest's tables, whose rows depend on the headings above them."""

    def __init__(self) -> None:
        self.device, self.direction, self.memory, self.factor = "0", "", "", 0.0

    def read(self, line: str, line_number: int) -> Iterator[ToolResult]:
        if (match := _HEADING.fullmatch(line)) is not None:
            self.direction, self.memory, self.factor = _DIRECTIONS[match[1]], "", 0.0
        elif (match := _MEMORY.fullmatch(line)) is not None:
            self.memory = "Pinned" if match[1] == "PINNED" else "Paged"
        elif (match := _UNIT.fullmatch(line)) is not None:
            self.factor = _FACTORS[match[1]]
        elif self.factor and self.direction and (match := _ROW.fullmatch(line)) is not None:
            # The heading of copies within a GPU contains PINNED too, although they use no host memory.
            is_inside = self.direction == "D2D" or not self.memory
            kind = self.direction if is_inside else f"{self.direction}-{self.memory}"
            yield from _rate((kind, self.device), match[2], self.factor, int(match[1]), line_number)
        elif (match := _DEVICE.fullmatch(line)) is not None:
            self.device = match[1]


def _rate(
    copy: tuple[str, str], printed: str, factor: float, size_bytes: int, line: int
) -> Iterator[ToolResult]:
    """Return the result of one line; `copy` contains its direction and the number of the GPU."""
    value = number(printed)
    if value is not None:
        yield ToolResult(
            tool=BANDWIDTH_TEST,
            test=copy[0],
            subject=f"GPU{copy[1]}",
            metric="bandwidth",
            value=value * factor,
            size_bytes=size_bytes,
            evidence=(line_ref(line),),
        )


def _copy(match: re.Match[str], line: int) -> Iterator[ToolResult]:
    value = number(match[6])
    ends = dict.fromkeys((match[1], match[3]))  # only one GPU number if a GPU copies within its own memory
    kinds = [end.rstrip("0123456789") for end in ends]
    if value is not None:
        yield ToolResult(
            tool=GPU_COPY,
            test=f"{kinds[0]}_{match[2]}_{(*kinds, 'itself')[1]}{match[4] or ''}_by_{match[5]}",
            subject="-".join(end.upper() for end in ends if end != "cpu") or "host",
            metric="bandwidth",
            value=value * GB,
            evidence=(line_ref(line),),
        )
