"""What the search for slow hosts found, as text."""

from __future__ import annotations

from collections.abc import Iterator

from assistant.render.lines import clean_lines
from assistant.usecases.bench.find_bad_nodes import HostFault, HostSearch, LinkFault, Rate
from probes.base.units import quantity

_MOST_LINKS = 4
_DIRECTIONS = {
    "sends": "is slow when it sends",
    "receives": "is slow when it receives",
    "both": "is slow in both directions",
}


def render_host_search(result: HostSearch) -> str:
    """One line for each bad host and link with its evidence below, then what the search cost."""
    return clean_lines("\n".join(_lines(result)))


def _lines(result: HostSearch) -> Iterator[str]:
    for fault in result.bad_hosts:
        yield from _host(fault)
    for link in result.bad_links:
        yield from _link(link)
    for group in result.unresolved:
        yield f"slow, and nobody in particular: {', '.join(group)}"
    if not result.complete:
        yield "the search was stopped"
    elif not (result.bad_hosts or result.bad_links or result.unresolved):
        yield f"all {len(result.hosts)} hosts and the links between them are alike"
    reference = quantity(result.reference_bytes_per_s, "byte/s")
    limit = f"slow is below {result.slow_below:.0%} of the best pair, {reference}"
    runs = f"{result.runs} run{'s' if result.runs != 1 else ''} in {result.rounds} round{'s' if result.rounds != 1 else ''}"
    saved = f" instead of {result.all_pairs} pairs" if result.runs < result.all_pairs else ""
    yield f"{runs}{saved}; {limit}"


def _host(fault: HostFault) -> Iterator[str]:
    if fault.kind != "slow":
        yield f"{fault.host}: {fault.kind}: {fault.message}"
        return
    yield f"{fault.host}: {_DIRECTIONS.get(fault.slow_direction, 'is slow')}"
    yield from _rates(fault.links)


def _link(fault: LinkFault) -> Iterator[str]:
    yield f"link between {fault.first} and {fault.second}: slow, though both hosts are fast with others"
    yield from _rates(fault.rates)


def _rates(rates: tuple[Rate, ...]) -> Iterator[str]:
    for rate in rates[:_MOST_LINKS]:
        yield f"  {rate.sender} -> {rate.receiver}  {quantity(rate.bytes_per_s, 'byte/s')}"
    if len(rates) > _MOST_LINKS:
        yield f"  and {len(rates) - _MOST_LINKS} more"
