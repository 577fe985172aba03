"""Link each Xid event to the Xid that caused it, with the same chains of Xids that `check` uses."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from probes.base.units import plural
from probes.logs.event import Event, carries
from probes.logs.events.kernel_log_events import KernelDriver, KernelXid
from probes.parsers.kernel.xid_chains import XidChains

_MOST_NAMES = 8


def with_chains(events: Iterable[Event]) -> list[Event]:
    """Return the events; each effect names the Xid that caused it, and each root cause names its effects."""
    chained = list(events)
    chains: dict[tuple[str, str | None], XidChains] = defaultdict(XidChains)
    roots: dict[tuple[tuple[str, str | None], str | None, int], int] = {}
    effects: dict[int, Counter[int]] = defaultdict(Counter)
    for place, event in enumerate(chained):
        origin = (event.source, event.host)
        if carries(event, KernelDriver):
            chains[origin].end()
        if not carries(event, KernelXid):
            continue
        xid = event.what
        root = chains[origin].root_of(xid, xid.bus, event.time_s, place)
        if root is None:
            roots[origin, xid.bus, xid.xid] = place
        elif (first := roots.get((origin, xid.bus, root))) is not None:
            effects[first][xid.xid] += event.count
            chained[place] = msgspec.structs.replace(event, what=msgspec.structs.replace(xid, after=root))
    for place, counts in effects.items():
        names = [f"{code} ({count} lines)" if count > 1 else f"{code}" for code, count in counts.items()]
        if len(names) > _MOST_NAMES:
            names[_MOST_NAMES:] = [plural(len(names) - _MOST_NAMES, "further number")]
        what = msgspec.structs.replace(chained[place].what, followers=", ".join(names))
        chained[place] = msgspec.structs.replace(chained[place], what=what)
    return chained
