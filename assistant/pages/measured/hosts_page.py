"""Report the result of the search for slow hosts."""

from __future__ import annotations

from assistant.pages.blocks import Page, Row, Section
from assistant.usecases.bench.find_bad_nodes import HostFault, HostSearch, Rate
from probes.base.units import plural, quantity

_MOST_LINKS = 4
_DIRECTIONS = {
    "sends": "is slow when it sends",
    "receives": "is slow when it receives",
    "both": "is slow in both directions",
}


def hosts_page(result: HostSearch) -> Page:
    """Return one line for each bad host and link with its evidence below, then what the search cost."""
    lines = [line for fault in result.bad_hosts for line in _host(fault)]
    for link in result.bad_links:
        lines.append(
            f"link between {link.first} and {link.second}: slow, though both hosts are fast with others"
        )
        lines += _rates(link.rates)
    lines += [f"slow, and nobody in particular: {', '.join(group)}" for group in result.unresolved]
    if not result.complete:
        lines.append("the search was stopped")
    elif not (result.bad_hosts or result.bad_links or result.unresolved):
        lines.append(f"all {len(result.hosts)} hosts and the links between them are alike")
    reference = quantity(result.reference_bytes_per_s, "byte/s")
    saved = f" instead of {result.all_pairs} pairs" if result.runs < result.all_pairs else ""
    runs = f"{plural(result.runs, 'run')} in {plural(result.rounds, 'round')}{saved}"
    lines.append(f"{runs}; slow is below {result.slow_below:.0%} of the best pair, {reference}")
    return (Section("", tuple(Row(line, literal=True) for line in lines)),)


def _host(fault: HostFault) -> list[str]:
    if fault.kind != "slow":
        return [f"{fault.host}: {fault.kind}: {fault.message}"]
    return [f"{fault.host}: {_DIRECTIONS.get(fault.slow_direction, 'is slow')}", *_rates(fault.links)]


def _rates(rates: tuple[Rate, ...]) -> list[str]:
    lines = [
        f"  {rate.sender} -> {rate.receiver}  {quantity(rate.bytes_per_s, 'byte/s')}"
        for rate in rates[:_MOST_LINKS]
    ]
    return [*lines, *[f"  and {len(rates) - _MOST_LINKS} more"] * (len(rates) > _MOST_LINKS)]
