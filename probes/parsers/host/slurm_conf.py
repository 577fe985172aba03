"""Parse Slurm's configuration files: slurm.conf, cgroup.conf and gres.conf.

Names may have any case, `#` begins a comment, and a backslash at the end of a line continues it. Source of
the syntax: slurm.conf(5), gres.conf(5), cgroup.conf(5) of Slurm 24.05.
"""

import re

_PAIR = re.compile(r"(\w{1,60})\s*=\s*([^\s#]{1,2000})")
_PART = re.compile(r"([^\[\],]{0,200})(?:\[([0-9,-]{1,2000})\]([^\[\],]{0,200}))?(?:,|$)")
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]{1,60})?:(\d{1,4})(?=[,(]|$)", re.IGNORECASE)
_LONGEST = 400_000


def parse_lines(text: str) -> tuple[dict[str, str], ...]:
    """Return the `Name=value` pairs of every line, with names in lower case."""
    joined_text = text[:_LONGEST].replace("\\\n", " ")
    lines = (line.partition("#")[0] for line in joined_text.splitlines())
    rows = (
        {match[1].lower(): match[2] for match in _PAIR.finditer(line[:8000])} for line in lines if "=" in line
    )
    return tuple(row for row in rows if row)


def settings_of(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of a file that `names` lists, by their usual spelling."""
    settings: dict[str, str] = {}
    for row in parse_lines(text):
        first = next(iter(row))
        settings.update({name: row[first] for name in names if name.lower() == first})
    return settings


def gpus_of_node(text: str, host: str) -> int | None:
    """Return the number of GPUs of a node in slurm.conf; 0 if neither the node's line nor the defaults name
    a GPU, None if the node has no line.
    """
    default = ""
    for row in parse_lines(text):
        names = row.get("nodename", "")
        if names.upper() == "DEFAULT":  # The line sets the default values for the lines after it.
            default = row.get("gres", default)
        elif contains_host(names, host):
            return sum(int(count) for count in _GPUS.findall(row.get("gres", default)))
    return None


def contains_host(hostlist: str, host: str) -> bool:
    """Return whether a list such as `node[01-16,20],login` contains the host."""
    return any(_contains(match, host) for match in _PART.finditer(hostlist))


def _contains(part: re.Match[str], host: str) -> bool:
    prefix, ranges, suffix = part[1], part[2], part[3] or ""
    if ranges is None:
        return bool(prefix) and prefix == host
    number = host[len(prefix) : len(host) - len(suffix)]
    return host.startswith(prefix) and host.endswith(suffix) and _in_ranges(number, ranges)


def _in_ranges(digits: str, ranges: str) -> bool:
    """Return whether a number is in the ranges; the number must be padded with zeros to the width of the
    first number of its range.
    """
    if not digits.isdecimal() or len(digits) > 9:
        return False
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        last = last or first
        is_range = first.isdecimal() and last.isdecimal() and len(first) < 10 and len(last) < 10
        has_digits = len(digits) == max(len(first), len(str(int(digits))))
        if is_range and has_digits and int(first) <= int(digits) <= int(last):
            return True
    return False
