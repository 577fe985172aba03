"""Read the transports between ranks from a log with NCCL_DEBUG=INFO of any version.

NCCL prints a line per channel and peer: `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`,
`via SHM/direct/direct`, `[send] via NET/IB/3(5)/GDRDMA`, `via COLLNET/SHARP/0`, but none for NVLink SHARP.
`NVLS comm 0x... headRank 0 ...` reports its buffers, which are created if it will be used (2.18 and newer).
`Connected NVLS tree` occurs within one host in the first versions, later between hosts only. Source: NCCL,
src/transport/*.cc and src/transport/nvls.cc, versions 2.16 to 2.30.
"""

from __future__ import annotations

import re

_VIA = re.compile(r"\bvia (P2P|SHM|NET|COLLNET)/([\w .-]{1,40})((?:/[\w ().-]{1,40}){0,4})")
_NVLS = re.compile(r"Connected NVLS tree|NVLS comm \w+ headRank")


def transports(log: str) -> tuple[str, ...]:
    """Return the transports in use, each once and sorted, such as `NET/IB/GDRDMA`, `NVLS` or `P2P/CUMEM`."""
    names = {"NVLS"} if _NVLS.search(log) else set()
    for match in _VIA.finditer(log):
        direct = "/GDRDMA" if match[1] == "NET" and "GDRDMA" in match[3] else ""
        names.add(f"{match[1]}/{match[2].partition(' comm')[0].strip()}{direct}")
    return tuple(sorted(names))
