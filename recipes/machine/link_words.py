"""Parse descriptions of links that people write: `8x HDR InfiniBand 200 Gb/s` gives a node's bandwidth and
transport.

The parsers do not guess: if the text does not state a value, the result is None ("unknown" for a transport, 1
for a number of ports), and the caller uses the usual value for such machines.
"""

import functools
import math
import re

from recipes.machine.cluster_records import Fabric, Transport

_LONGEST = 500
_BETWEEN = re.compile(r"[,;+]|\s(?:and|&)\s", re.IGNORECASE)
_COUNT = re.compile(r"(\d{1,4})\s*[x×*]\s*(?=\S)", re.IGNORECASE)
_COUNT_AFTER = re.compile(
    r"(?:[\s-]*(?:IB|infini\s?band|[FEHNX]DR|RoCE|EFA|ether?net|NICs?|ports?|links?|rails?))*"
    r"\s*[x×*]\s*(\d{1,4})(?![\w.])",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(\d{1,6}(?:\.\d{1,3})?)\s*([GT]|M(?=[bB]))(?:(b|B)(?:i?t)?)?(?:\s?(?:/\s*s(?:ec)?|ps))?(E)?\b"
)
_RATE_IN_WORDS = re.compile(
    r"(?<![\w.])(\d{1,6}(?:\.\d{1,3})?)[\s-]*(?:(mega|giga|tera)-?|gig)(?:bit|(byte))?s?(?!\w)", re.IGNORECASE
)
_NAMED_RATE = (
    # Gb/s of one port by generation (InfiniBand Trade Association, roadmap): four lanes, but two lanes for
    # HDR100 and NDR200
    (re.compile(r"\bHDR-?100\b", re.IGNORECASE), 100),
    (re.compile(r"\bNDR-?200\b", re.IGNORECASE), 200),
    (re.compile(r"\bFDR\b", re.IGNORECASE), 56),
    (re.compile(r"\bEDR\b", re.IGNORECASE), 100),
    (re.compile(r"\bHDR\b", re.IGNORECASE), 200),
    (re.compile(r"\bNDR\b", re.IGNORECASE), 400),
    (re.compile(r"\bXDR\b", re.IGNORECASE), 800),
    # the two generations of HPE Slingshot
    (re.compile(r"\bslingshot[\s-]?11\b", re.IGNORECASE), 200),
    (re.compile(r"\bslingshot[\s-]?10\b", re.IGNORECASE), 100),
)
_GIGABIT_ETHERNET = re.compile(r"\bgig(?:a|abit)?\s*(?:e\b|ethernet)", re.IGNORECASE)
_OTHER_ROLE = re.compile(
    r"\b(?:storage|management|mgmt|front-?end|oob|out-of-band)\b|\bfor NS\b", re.IGNORECASE
)
_COMPUTE = re.compile(r"\b(?:compute|back-?end|east-?west)\b|\bfor EW\b", re.IGNORECASE)
_NOT_NETWORK = re.compile(r"PCIe-NIC|GPU-PCIe|\bPCIe\s+bandwidth", re.IGNORECASE)
_PER_GPU = re.compile(r"(?:\bper|/)\s*(?:gpu|gcd|rank|accelerator|device)\b", re.IGNORECASE)
_WHOLE_NODE = re.compile(
    r"(?:\bper|/|\ba)\s*(?:node|host|server|machine)\b|\b(?:one|single)\b", re.IGNORECASE
)
_WITHOUT_RDMA = re.compile(
    r"\b(?:no|non|not|without|w/o)[\s-]+RDMA\b|\bRDMA\s+(?:off|disabled)\b", re.IGNORECASE
)
_NEGATED = re.compile(r"\b(?:no|non|not|without|w/o)[\s-]+(?:ro?ce|infini\s?band|IB|EFA)\b", re.IGNORECASE)
_TRANSPORTS: tuple[tuple[re.Pattern[str], Transport], ...] = (
    (re.compile(r"\bEFA(?:v\d)?\b", re.IGNORECASE), "efa"),
    (re.compile(r"TCP-?XO?\b|\bTCP-?X\b", re.IGNORECASE), "tcpxo"),
    (re.compile(r"infini\s?band|\bIB\b|\b(?:FDR|EDR|HDR|NDR|XDR)(?:-?\d+)?\b", re.IGNORECASE), "infiniband"),
    (re.compile(r"ro?ce\s?v?2?\b|\bRDMA\b|slingshot|spectrum-?x", re.IGNORECASE), "roce"),
    (re.compile(r"ether?net|\d\s*GbE|\bTCP\b|\bWAN\b|\binternet\b", re.IGNORECASE), "ethernet"),
    (re.compile(r"ConnectX|BlueField|BF3\b|\bCX-?\d", re.IGNORECASE), "roce"),
)
_FABRICS: tuple[tuple[re.Pattern[str], Fabric], ...] = (
    (re.compile(r"nv\s?switch|\bNVL\d+", re.IGNORECASE), "nvswitch"),
    (re.compile(r"xgmi|infinity\s?fabric", re.IGNORECASE), "xgmi"),
    (re.compile(r"nv\s?link", re.IGNORECASE), "nvlink"),
    (re.compile(r"pci", re.IGNORECASE), "pcie"),
)
_DOMAIN = re.compile(r"\bNVL(\d{2,3})\b", re.IGNORECASE)
_PCIE_GENERATION = re.compile(r"pci[^0-9,;]{0,12}([3-6])\b", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def inter_bandwidth_of(text: str, gpus_per_node: int, ports: int = 1) -> float | None:
    """Return the line rate of a node's compute network, one direction, bytes/s; None if the text states none.

    Storage and management ports are excluded if the text distinguishes them. Only the parts that the text
    calls a compute network count, if there are any; else Ethernet ports count only if there are no others. A
    rate without a count and without `per GPU` is the rate of the whole node. If the text names a generation
    (`NDR`, `NDR 400 Gb/s`), and states no other rate than that of its port, this rate is multiplied by
    `ports`, the usual number for this node.
    """
    rates: dict[int, float] = {}
    for part, rank in _network_parts(text):
        gbps = _gigabits(part, ports)
        if gbps is not None:
            rates[rank] = rates.get(rank, 0.0) + gbps * (gpus_per_node if _PER_GPU.search(part) else 1)
    return rates[max(rates)] / 8 * 1e9 if rates else None


def ports_of(text: str) -> int:
    """Return the number of ports of a node's compute network: 8 for `8x400G IB`; 1 if no number is stated.

    Storage and management ports are excluded as in `inter_bandwidth_of`.
    """
    rated = [(rank, part) for part, rank in _network_parts(text) if _gigabits(part, 1) is not None]
    best = max(rated, default=(0, ""))[0]
    counts = [math.prod(map(int, _COUNT.findall(part))) for rank, part in rated if rank == best]
    return sum(counts) or 1


def _network_parts(text: str) -> list[tuple[str, int]]:
    """Return the parts of the text that may describe the compute network, each with its rank.

    The rank is 2 if the text calls the part a compute network; otherwise 0 for Ethernet and 1 for all others.
    """
    parts = []
    for part in _BETWEEN.split(text[:_LONGEST]):
        compute = bool(_COMPUTE.search(part))
        if not _NOT_NETWORK.search(part) and (compute or not _OTHER_ROLE.search(part)):
            plain_rank = 0 if _transport(part) == "ethernet" else 1
            parts.append((part, 2 if compute else plain_rank))
    return parts


def _gigabits(part: str, ports: int) -> float | None:
    """Return the number of ports times their rate, in Gb/s, from one part of the text."""
    rates = [
        (match.start(), match.end(), _rate(match[1], match[2], match[3] == "B"))
        for match in _RATE.finditer(part)
    ]
    rates += [
        (match.start(), match.end(), _rate(match[1], (match[2] or "g")[0].upper(), match[3] is not None))
        for match in _RATE_IN_WORDS.finditer(part)
    ]
    # `10Gb/25Gb` is one port that supports both rates
    start, end, rate = max(rates, key=lambda stated: stated[2], default=(0, 0, 0.0))
    usual = 1
    named = next(
        ((match, gbps, ports) for pattern, gbps in _NAMED_RATE if (match := pattern.search(part))), None
    )
    if named is not None and rate == named[1] and not _WHOLE_NODE.search(part):
        usual = ports
    if not rates:
        if named is None and (gigabit := _GIGABIT_ETHERNET.search(part)):
            named = gigabit, 1, 1
        if named is None:
            return None
        start, end, rate, usual = named[0].start(), named[0].end(), float(named[1]), named[2]
    counts = [int(match.group(1)) for match in _COUNT.finditer(part[: start + 1]) if match.start() < start]
    after = _COUNT_AFTER.match(part, end)
    if after is not None and not counts:
        counts = [int(after.group(1))]
    return math.prod(counts or [usual]) * rate or None


def _rate(number: str, unit: str, in_bytes: bool) -> float:
    """Return a rate in Gb/s."""
    value = float(number) * {"M": 1e-3, "G": 1.0, "T": 1e3}[unit]
    return value * 8 if in_bytes else value


@functools.lru_cache(maxsize=1024)
def transport_of(text: str) -> Transport:
    """Return the transport of the compute network in the text; of several, the first in `_TRANSPORTS`.

    A network of which the text states that it has no RDMA is Ethernet with TCP.
    """
    parts = _network_parts(text)
    if any(_WITHOUT_RDMA.search(part) for part, _ in parts):
        return "ethernet"
    surest = max((rank for part, rank in parts if _transport(part) != "unknown"), default=0)
    return _transport(" , ".join(part for part, rank in parts if rank == surest))


def _transport(part: str) -> Transport:
    if _WITHOUT_RDMA.search(part):
        return "ethernet"
    stated = _NEGATED.sub("", part)
    return next((kind for pattern, kind in _TRANSPORTS if pattern.search(stated)), "unknown")


@functools.lru_cache(maxsize=1024)
def fabric_of(text: str) -> Fabric | None:
    """Return the link between the GPUs of a node; None if the text names no known link.

    The result `nvlink` does not exclude a switch, because many texts do not mention the switch.
    """
    return next((kind for pattern, kind in _FABRICS if pattern.search(text[:_LONGEST])), None)


def domain_of(text: str) -> int | None:
    """Return the number of GPUs in an NVLink domain that spans nodes: 72 for `NVLink5 NVL72`; else None."""
    match = _DOMAIN.search(text[:_LONGEST])
    return int(match.group(1)) if match and int(match.group(1)) > 8 else None


def pcie_generation_of(text: str) -> int | None:
    """Return the PCIe generation that the text names: 4 for `PCIe Gen4 x16`; None if it names none."""
    match = _PCIE_GENERATION.search(text)
    return int(match.group(1)) if match else None
