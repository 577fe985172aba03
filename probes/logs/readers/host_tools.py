"""Reader of host tools: health checks, gpu-burn, `lspci`, `ulimit`, `df`, systemd and `ibstat`.

Node Health Check, gpu-burn, `lspci -vvv`, `ulimit -a`, `df /dev/shm` and kills for lack of memory are read
line by line. The output of `ibstat` and `ibstatus`, which often accompanies a network test, is read as a
whole file.

Source: mej/nhc, nhc; Azure/azurehpc-health-checks, README; wilicc/gpu-burn, gpu_burn-drv.cpp; pciutils,
ls-caps.c; bash `ulimit`; coreutils `df`; linux-rdma/rdma-core, infiniband-diags/ibstat.c and
scripts/ibstatus (read 2026-11).
"""

import itertools
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.host_events import (
    GpuBurnFaulty,
    GpuBurnTested,
    HealthCheckFailed,
    HealthCheckPassed,
    HostMemlock,
    HostOomKill,
    HostPortRate,
    HostShm,
    PciAcs,
)
from probes.logs.readers.whole_files import Document

SIGNS: tuple[bytes, ...] = (
    b"ACSCtl:",
    b"max locked memory",
    b"% /dev/shm",
    b"killed by the OOM killer",
    b"systemd-oomd",
    b"Health check failed:",
    b"Health check passed:",
    b": FAULTY",
    b": NO RESULTS",
    b"Tested ",
)
DOCUMENT_SIGNS: tuple[bytes, ...] = (b"CA type: ", b"Infiniband device '")
_CHECK = pattern(
    r"\bHealth check (?P<state>failed|passed): {1,4}(?P<check>[\w.-]{1,80}): {1,4}(?P<reason>.{1,600})"
)
_CODE = pattern(r"\.? ?FaultCode: ?(\w{1,12})")
_TESTED = pattern(r"^Tested (\d{1,4}) GPUs:\s{0,4}$")
_FAULTY = pattern(r"^\s{0,8}GPU (\d{1,4}): (FAULTY|NO RESULTS)\s{0,4}$")
_LONGEST_REASON = 200
_REDIRECT = pattern(r"ACSCtl:.{0,120}?(?:ReqRedir|CmpltRedir)\+")
_MEMLOCK = pattern(r"max locked memory\s{1,20}\((kbytes|bytes), -l\) (\d{1,18}|unlimited)")
_SHM = pattern(
    r"^(?:shm|tmpfs|none)\s{1,30}(\d{1,15}(?:\.\d)?)([KMGT]?)\s{1,20}\S{1,15}\s{1,20}\S{1,15}\s{1,20}"
    r"(\d{1,3})% /dev/shm\s{0,4}$"
)
_UNITS = {"": 1024, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""Bytes per unit; `df` prints KiB if it names no unit."""
_OOM = pattern(
    r"^systemd(?:\[\d{1,9}\])?: (?P<unit>\S{1,120}): A process of this unit has been killed by the OOM "
    r"killer|"
    r"^systemd-oomd(?:\[\d{1,9}\])?: Killed (?P<scope>\S{1,200}) due to memory "
)
_CARD = pattern(
    r"^\s{0,8}(?:CA '(?P<card>[\w.-]{1,40})'|Infiniband device '(?P<device>[\w.-]{1,40})' port "
    r"(?P<port>\d{1,3}) status:)"
)
_PORT = pattern(r"^\s{0,16}Port (\d{1,3}):\s{0,4}$")
_STATE = pattern(r"^\s{0,24}(?:State: |state:\s{1,8}(?:\d: )?)([A-Za-z]{2,16})\s{0,4}$")
_RATE = pattern(
    r"^\s{0,24}(?:Rate: (\d{1,5}(?:\.\d)?)|rate:\s{1,8}(\d{1,5}(?:\.\d)?) Gb/sec \(.{1,20}\))\s{0,4}$"
)
_MOST_PORTS = 1024


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of one line: first the events of health checks, then the events of other tools."""
    return (*_health(line), *_host(line))


def _health(line: LogLine) -> tuple[Event, ...]:
    if (check := _CHECK.search(line.text)) is not None:
        if check["state"] == "passed":
            return (event_of(HealthCheckPassed(check=check["check"]), line),)
        code = _CODE.search(check["reason"])
        reason = check["reason"][: code.start()] if code else check["reason"]
        failed = HealthCheckFailed(
            check=check["check"], reason=reason.strip()[:_LONGEST_REASON], code=code[1] if code else None
        )
        return (event_of(failed, line),)
    if (faulty := _FAULTY.match(line.text)) is not None:
        return (event_of(GpuBurnFaulty(gpu=int(faulty[1]), state=faulty[2]), line),)
    if (tested := _TESTED.match(line.text)) is not None:
        return (event_of(GpuBurnTested(gpus=int(tested[1])), line),)
    return ()


def _host(line: LogLine) -> tuple[Event, ...]:
    text = line.text
    if _REDIRECT.search(text):
        return (event_of(PciAcs(redirect=True), line),)
    if (match := _OOM.match(text)) is not None:
        # The event shows the raw line, because `line.text` lacks the host and the process id of systemd.
        return (event_of(HostOomKill(process=match["unit"] or match["scope"]), line._replace(text=line.raw)),)
    if (match := _MEMLOCK.search(text)) is not None:
        if match[2] == "unlimited":
            return (event_of(HostMemlock(unlimited=True), line),)
        kib = int(match[2]) if match[1] == "kbytes" else int(match[2]) >> 10
        return (event_of(HostMemlock(unlimited=False, kib=kib), line),)
    if (match := _SHM.match(text)) is not None:
        size = int(float(match[1]) * _UNITS[match[2]])
        return (event_of(HostShm(bytes=size, used_percent=int(match[3])), line),)
    return ()


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the rate of each active port; its card and state precede the rate in the file."""
    return tuple(itertools.islice(_rates(Document(name, data)), _MOST_PORTS))


def _rates(document: Document) -> Iterator[Event]:
    device, port, is_active = "", 0, False
    for number, text in enumerate(document.text.split("\n"), 1):
        if (card := _CARD.match(text)) is not None:
            device, port, is_active = card["card"] or card["device"], int(card["port"] or 0), False
        elif (numbered := _PORT.match(text)) is not None:
            port, is_active = int(numbered[1]), False
        elif (state := _STATE.match(text)) is not None:
            is_active = state[1].lower() == "active"
        elif device and is_active and (rate := _RATE.match(text)) is not None:
            port_rate = HostPortRate(device=device, port=port, gbit_per_s=float(rate[1] or rate[2]))
            yield event_of(port_rate, document.line(number))
