"""Values that hosts report. Hosts with the same value share an entry."""

_MOST_VALUES = 64
_MOST_HOSTS = 4096
_HOSTS_SHOWN = 4


class Spread:
    """Values and the hosts that report them."""

    def __init__(self) -> None:
        self._hosts: dict[str, dict[str, None]] = {}

    def add(self, value: str, host: str | None) -> None:
        """Add a host's value."""
        if value not in self._hosts and len(self._hosts) >= _MOST_VALUES:
            return
        hosts = self._hosts.setdefault(value, {})
        if host is not None and len(hosts) < _MOST_HOSTS:
            hosts[host] = None

    def words(self) -> object:
        """Return the value if all hosts agree, otherwise all values with their hosts.

        Return None if no host reported a value.
        """
        if len(self._hosts) <= 1:
            return next(iter(self._hosts), None)
        return [_with_hosts(value, [*hosts]) for value, hosts in self._hosts.items()]


def _with_hosts(value: str, hosts: list[str]) -> str:
    if not hosts:
        return value
    rest = f" and {len(hosts) - _HOSTS_SHOWN} more" if len(hosts) > _HOSTS_SHOWN else ""
    return f"{value} on {', '.join(hosts[:_HOSTS_SHOWN])}{rest}"
