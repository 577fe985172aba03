"""How NCCL says that ranks reach each other, in a log with NCCL_DEBUG=INFO of any version.

One line per channel and peer: `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`, `via SHM/direct/direct`,
`[send] via NET/IB/3(5)/GDRDMA`, `via COLLNET/SHARP/0`. NVLink SHARP has none; `Connected NVLS tree` (2.17 and newer) tells of it.
Source: NCCL, src/transport/*.cc and src/transport/nvls.cc, versions 2.16 to 2.30.
"""

from __future__ import annotations

import re

_VIA = re.compile(r"\bvia (P2P|SHM|NET|COLLNET)/([\w .-]{1,40})((?:/[\w ().-]{1,40}){0,4})")
_NVLS = "Connected NVLS tree"


def transports(log: str) -> tuple[str, ...]:
    """What was used, each once, in order of names: `NET/IB/GDRDMA`, `NET/Socket`, `NVLS`, `P2P/CUMEM`, `SHM/direct`."""
    found = {"NVLS"} if _NVLS in log else set()
    for match in _VIA.finditer(log):
        direct = "/GDRDMA" if match[1] == "NET" and "GDRDMA" in match[3] else ""
        found.add(f"{match[1]}/{match[2].partition(' comm')[0].strip()}{direct}")
    return tuple(sorted(found))
