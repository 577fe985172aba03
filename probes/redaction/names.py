"""Learn names of hosts, domains, users and jobs from texts that label them, and replace them everywhere."""

import re
from collections.abc import Iterator

from probes.redaction.host_names import NO_HOSTS, HostNames, is_kernel_form
from probes.redaction.identifiers import serial_placeholder
from probes.redaction.placeholders import Book, Span

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_USER = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

_HOST_CONTEXTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # syslog (RFC 3164), the journal's ISO form, and messages of the kernel itself
        rf"^{_MONTH}[ \t]+\d{{1,2}}[ \t]+(?:\d{{4}}[ \t]+)?\d\d:\d\d:\d\d(?:\.\d+)?"
        rf"[ \t]+({_HOST})[ \t]+[\w./()\[\]-]+:",
        rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.:+Z-]{{0,16}}[ \t]+({_HOST})[ \t]+[\w./()\[\]-]+:",
        r"\bLinux[ \t]+(" + _HOST + r")[ \t]+\d+\.\d+",
        rf"Hostname set to <({_HOST})>",
        # NCCL, nccl-tests, MPI, Slurm
        rf"(?:^|[ \t\]])({_HOST}):\d+:\d+ \[\d+\] NCCL\b",
        rf"\bPid[ \t]+\d+[ \t]+on[ \t]+({_HOST})[ \t]+device\b",
        rf"^\[({_HOST}):\d+\]",
        rf"\b(?:srun|slurmstepd|slurmd|slurmctld): error: ({_HOST}):",
        rf"\bNode failure on ({_HOST})(?![\w\[])",
        rf"\bON ({_HOST}) CANCELLED\b",
        rf"\bwith PID \d{{1,9}} on node ({_HOST})[ \t]",
        rf"\b(?:NodeHostName|NodeAddr|BatchHost|AllocNode:Sid|SlurmctldHost(?:\[\d\])?)=({_HOST})",
        # descriptions of InfiniBand nodes
        rf"[\"']({_HOST})[ \t]+(?:HCA-\d+|mlx\d_\w+|ibp\w+|hfi1_\d+)[\"']",
        rf"[\"']MF0;({_HOST}):",
        rf"\bCA:[ \t]+({_HOST})[ \t]+(?:HCA-\d|mlx\d)",
        rf"#[ \t]*\"({_HOST})\"[ \t]+(?:enhanced|base) port",
        rf"^({_HOST})[ \t]+(?:HCA-\d+|mlx\d_\d+)[ \t]*$",
        # prompts
        rf"^[\[(]?{_USER}@({_HOST})[: \t][^\n]{{0,200}}?[$#]",
        rf"^({_HOST}):[~/][^\s]{{0,60}}[#$][ \t]",
        # settings and attributes
        r"(?i)(?<![A-Za-z0-9])(?:hostname|host_name|nodename|node_name|fqdn|master_addr|slurmd_nodename|"
        r"static hostname|"
        r"chassis hostname)"
        rf"[\"'\]]{{0,2}}[ \t]*(?:[:=]|[ \t]is[ \t])[ \t]*[\"']?({_HOST})",
        rf"^[0-9A-Fa-f.:]{{3,45}}[ \t]+(?:STREAM|DGRAM|RAW)[ \t]+({_HOST})",
        rf"name=\"HostName\"\s+value=\"({_HOST})\"",
        rf"(?i)(?:System Name|SysName|Chassis Name)[\"']?[ \t]*[:=][ \t]*[\"']?({_HOST})",
    )
)
_USER_CONTEXTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"/(?:home|homes|Users|user|users|nethome|export/home)/({_USER})",
        rf"^[\[(]?({_USER})@{_HOST}[: \t][^\n]{{0,200}}?[$#]",
        rf"^({_USER}):[^:\n]{{1,200}}:\d+:\d+:[^:\n]*:/",
        rf"\b(?:uid|gid|groups|UserId|GroupId)=(?:\d+)?\(?({_USER})\(?",
        rf"(?<=\),)\d+\(({_USER})\)",
        rf"\bAccepted \w+ for ({_USER}) from\b",
        rf"\b(?:of|for|by|invalid) user ({_USER})",
        r"(?i)(?<![A-Za-z0-9])(?:user|username|user_name|login|logname|owner|uid_name|sudo_user)"
        rf"[\"'\]]{{0,2}}[ \t]?[:=][ \t]*[\"']?({_USER})",
        rf"\bsudo:[ \t]+({_USER}) :",
    )
)
_FULL_NAME = re.compile(r"^[a-z_][\w.-]*:[^:\n]{1,200}:\d+:\d+:([^:\n]{3,200}):/", re.MULTILINE)
_JOB_CONTEXT = re.compile(
    r"(?i)(?<![A-Za-z0-9])(?:job_?name|job[ _]account|account|cluster_?name|"
    r"wandb_(?:project|entity|name|run_group)|pbs_jobname|lsb_jobname)"
    r"[\"'\]]{0,2}[ \t]*[:=][ \t]*[\"']?([\w.@-]{2,120})"
)
_CONTEXTS = {"hostname": _HOST_CONTEXTS, "user": (*_USER_CONTEXTS, _FULL_NAME), "job": (_JOB_CONTEXT,)}
_HOSTLIST = re.compile(
    r"(?<![\w.-])([A-Za-z][A-Za-z0-9._-]{0,63}?)\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]([A-Za-z0-9.-]*)"
)
_HOSTLIST_CONTEXT = re.compile(
    r"(?i)(?:node_?list|nodes|node_?names?|hosts|hostlist)[\"'\]]{0,2}[ \t]*[:=][ \t]*[\"'\[]?$|"
    r"(?:srun|slurmstepd|slurmd|slurmctld): error: $|\bNode failure on $"
)
_LIST_OF_NAMES = re.compile(
    r"(?i)\b(?:\w*nodelist|nodelist|hostlist|"
    r"nodename)[\"'\]]{0,2}[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9_.,\[\]-]{1,4000})"
)
_FQDN = re.compile(
    r"(?<![\w@.-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,6}(?:com|net|org|edu|gov|local|internal|lan|"
    r"corp|intranet|"
    r"(?:ac|co|gov|edu)\.[a-z]{2})(?![\w-]|\.\w)|"
    r"(?<![\w@.-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){2,6}(?:de|fr|uk|nl|se|fi|dk|es|pt|pl|cz|ch|jp|"
    r"cn|kr|tw|hk|sg|au|nz|br|"
    r"eu|gr|hu)(?![\w-]|\.\w)",
    re.IGNORECASE,
)
"""Full names under top-level domains that are not also file extensions.

Under the domain of a country, a name needs two or more further labels.
"""
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}([A-Za-z]{2,24})(?![\w-])")
_UNITS = {"service", "slice", "socket", "timer", "mount", "scope", "target", "path", "device", "swap"}
_WORD = re.compile(r"\S+")
_SEARCH = re.compile(r"^(?:search|domain)[ \t]+(\S[^\n#;]{0,1000})", re.MULTILINE)

_PUBLIC_DOMAINS = re.compile(
    r"(?:(?:www|docs|developer|download|wiki|bugs|bugzilla|help|lists|registry)\.)?(?:nvidia|mellanox|amd|"
    r"intel|redhat|ubuntu|"
    r"kernel|debian|github|pytorch|python|pypi|w3|open-mpi|openmpi|schedmd|freedesktop|isc|gnu|centos|"
    r"rockylinux|canonical|"
    r"supermicro|dell|microsoft|google|amazon|launchpad|vmware|qemu|linux-foundation|openfabrics|apache|"
    r"example)\.(?:com|org|net)"
)
"""Domains of hardware and software vendors; they occur in names of products (`nvidia.com/gpu`)."""
_COMMON_ACCOUNTS = """
root user users ubuntu debian centos fedora rocky admin administrator nobody daemon bin sys ec2-user
azureuser opc cloud-user slurm munge nvidia guest shared common public default none null unknown all
test work home data linuxbrew postgres www-data systemd messagebus sshd lost+found true false no yes
not name id process space mode wheel sudo docker adm video render kvm notice info warn warning err
error debug crit alert emerg session exception on in for with the at of to and or is was has can
from this that which group other self current
"""
_COMMON_USERS = frozenset(_COMMON_ACCOUNTS.split())
"""Accounts that come with a system, and words that follow the word user."""
_LOCAL = frozenset({
    "localhost", "localhost.localdomain", "localdomain", "localhost4", "localhost6", "ip6-localhost",
    "ip6-loopback", "ip6-allnodes", "ip6-allrouters", "ip6-localnet", "fe00", "cluster.local", "none",
    "linux", "kernel", "unknown", "null", "version", "info", "warn", "warning", "error", "debug",
    "notice", "fatal", "trace", "host",
})  # fmt: skip
_COMMON = re.compile(
    r"(?:gpu|nic|cpu|eth|ib|mlx\d?_?|nvme|sd[a-z]|bond|rail|host|node|rank|numa|dgx|hgx|gb|[abhlv]|t|rtx|"
    r"pod|rack|socket|slot|port)"
    r"[-_]?\d{0,3}s?|nvidia|mellanox|intel|linux|server|system|device|master|worker|main|train|trainer|"
    r"training|python|torch|login|"
    r"kernel|local|test|cluster|compute|machine|default|memory|network|driver|switch|docker|container|batch|"
    r"bash|interactive|storage|gateway|scratch|backup|"
    r"manager|controller|time|proxy|mail|head|service|monitoring|metadata|registry|loghost|router|firewall|"
    r"bridge|console|power|"
    r"(?:en|wl|ib|eth|bond|br|veth|docker|virbr)[a-z]?\d\w*|\d+",
    re.IGNORECASE,
)
"""Names that are also common words in reports: they are replaced only if a text labels them as names."""


def is_common(name: str) -> bool:
    return len(name) < 4 or _COMMON.fullmatch(name) is not None


class Names:
    """The names learnt so far."""

    def __init__(self, book: Book, *, trusts_labels: bool = False, hosts: HostNames = NO_HOSTS) -> None:
        self._book = book
        self._hosts = hosts
        self._trusts_labels = trusts_labels
        """True if every word that is labelled as a host is certainly a host."""
        self._known: dict[str, str] = {}
        """Kind of each name; names are in lower case."""
        self._spellings: set[str] = set()
        """Own spelling of hosts such as `gpu3`, because `GPU3` is a part."""
        self._pattern: re.Pattern[str] | None = None
        self._stems: set[tuple[str, int]] = set()

    @property
    def count(self) -> int:
        """Return the number of known names plus the number of known families of numbered hosts."""
        return len(self._known) + len(self._stems)

    def learn(self, kind: str, name: str, *, certain: bool = False) -> None:
        """Replace `name` from now on unless it is a common word, account or public domain.

        A host also adds its domain. With `certain`, common words with a number (`gpu07`, `n1`) are replaced
        too.
        """
        value = name.strip().strip(".").lower()
        if kind == "hostname":
            self._spellings.add(name.strip().partition(".")[0])
            if _is_no_host(value):
                return
            first, dot, rest = value.partition(".")
            if dot:
                self.learn("domain", rest)
                value = first
            if stem := re.fullmatch(r"(.*?[^\d])(\d+)", value):
                self._stems.add((stem[1], len(stem[2])))
            if self._hosts.replaces(value):
                return
        if not value or value in _LOCAL or (kind == "user" and value in _COMMON_USERS):
            return
        if kind == "domain" and _PUBLIC_DOMAINS.fullmatch(value):
            return
        if kind == "job" and not re.search(r"[\d_-]", value):
            return
        is_certain = certain or (self._trusts_labels and kind == "hostname")
        is_numbered = value[:1].isalpha() and any(character.isdigit() for character in value)
        if ((is_certain and is_numbered) or not is_common(value)) and value not in self._known:
            self._known[value] = kind
            self._pattern = None

    def learn_value(self, kind: str, value: str) -> None:
        """Learn a secret or serial number, unless the value is so short that ordinary text may contain it."""
        digits = sum(character.isdigit() for character in value)
        is_specific = (
            len(value) >= 8 if digits == len(value) else (len(value) >= 6 and digits) or len(value) >= 10
        )
        if is_specific and "\n" not in value and value.lower() not in self._known and not is_common(value):
            self._known[value.lower()] = kind
            self._pattern = None

    def learn_hosts(self, text: str) -> None:
        """Learn a host, or each host of a list such as `gpu[07-09]`, as certain."""
        for name in _expand(text):
            self.learn("hostname", name, certain=True)

    def spans(self, text: str) -> Iterator[Span]:
        """Yield names that the text labels, and learn them; then yield known names anywhere in the text."""
        yield from self._contexts(text)
        yield from self._hosts.spans(text)
        if not self._known:
            return
        if self._pattern is None:
            alternatives = "|".join(map(re.escape, sorted(self._known, key=lambda name: (-len(name), name))))
            self._pattern = re.compile(rf"(?<![0-9A-Za-z])(?:{alternatives})(?![0-9A-Za-z])", re.IGNORECASE)
        for match in self._pattern.finditer(text):
            kind = self._known[match[0].lower()]
            if kind == "hostname" and is_kernel_form(match[0]) and match[0] not in self._spellings:
                continue
            yield Span(*match.span(), kind, self.replacement(kind, match[0]))

    def replacement(self, kind: str, name: str) -> str:
        """Return the placeholder of `name`; a full host name gets two, for host and domain."""
        lower = name.lower()
        match kind:
            case "hostname":
                if (known := self._hosts.placeholder(lower)) is not None:
                    return known
                if _is_no_host(lower):
                    return name
                first, dot, rest = lower.partition(".")
                host = first if first in _LOCAL else self._book.word("hostname", first, "host")
                return f"{host}.{self.replacement('domain', rest)}" if dot else host
            case "domain":
                if lower in _LOCAL or _PUBLIC_DOMAINS.fullmatch(lower):
                    return name
                return self._book.word("domain", lower, "domain") + ".invalid"
            case "email":
                return self._book.word("email", lower, "person") + "@example.invalid"
            case "serial":
                return serial_placeholder(name, self._book)
            case "secret":
                return self._book.word("secret", lower, "redacted")
        if kind == "user" and lower in _COMMON_USERS:
            return name
        return self._book.word(kind, lower, kind)

    def host_table(self, text: str) -> Iterator[Span]:
        """Yield the names after each address in /etc/hosts."""
        for line in re.finditer(r"^[ \t]*([0-9A-Fa-f.:]+)[ \t]+([^\n#]+)", text, re.MULTILINE):
            for word in _WORD.finditer(text, *line.span(2)):
                yield Span(*word.span(), "hostname", self._learnt("hostname", word[0]))

    def guid_table(self, text: str) -> Iterator[Span]:
        """Yield the hosts in a list of hosts and GUIDs."""
        for line in re.finditer(
            rf"^[ \t]*({_HOST})(?=[ \t,:]+(?:0x)?[0-9A-Fa-f]{{16}}\b)", text, re.MULTILINE
        ):
            yield Span(*line.span(1), "hostname", self._learnt("hostname", line[1]))

    def hostlist(self, text: str) -> str:
        """Return `node[01-03],login1` as a comma-separated list of placeholders."""
        return ",".join(self._learnt("hostname", name) for name in _expand(text))

    def _learnt(self, kind: str, name: str) -> str:
        """Learn a name and return its placeholder."""
        self.learn(kind, name)
        return self.replacement(kind, name)

    def _contexts(self, text: str) -> Iterator[Span]:
        yield from self._emails(text)
        yield from self._hostlists(text)
        for kind, contexts in _CONTEXTS.items():
            for context in contexts:
                for match in context.finditer(text):
                    replacement = self._learnt(kind, match[1])
                    if replacement != match[1]:
                        yield Span(*match.span(1), kind, replacement)
        yield from self._search_list(text)
        yield from self._full_names(text)

    def _emails(self, text: str) -> Iterator[Span]:
        for match in _EMAIL.finditer(text) if "@" in text else ():
            if match[1].lower() not in _UNITS and not match[0].startswith("git@"):
                yield Span(*match.span(), "email", self.replacement("email", match[0]))

    def _hostlists(self, text: str) -> Iterator[Span]:
        for match in _LIST_OF_NAMES.finditer(text):
            if not match[1].startswith(("(", "None")):
                yield Span(*match.span(1), "hostname", self.hostlist(match[1]))
        for match in _HOSTLIST.finditer(text) if "[" in text else ():
            width = len(re.split(r"[-,]", match[2])[0])
            before = text[max(match.start() - 40, 0) : match.start()]
            if (match[1].lower(), width) in self._stems or _HOSTLIST_CONTEXT.search(before):
                yield Span(*match.span(), "hostname", self.hostlist(match[0]))

    def _search_list(self, text: str) -> Iterator[Span]:
        """Yield the search domains of /etc/resolv.conf."""
        for match in _SEARCH.finditer(text) if "nameserver" in text else ():
            for word in _WORD.finditer(text, *match.span(1)):
                yield Span(*word.span(), "domain", self._learnt("domain", word[0]))

    def _full_names(self, text: str) -> Iterator[Span]:
        for match in _FQDN.finditer(text) if "." in text else ():
            lower = match[0].lower()
            if lower in _LOCAL or lower == "rc.local" or _PUBLIC_DOMAINS.fullmatch(lower):
                continue
            kind = "hostname" if lower.count(".") > 1 else "domain"
            if kind == "domain" or self._known.get(lower.partition(".")[2]) == "domain":
                # Hosts of other domains are not learnt: a first name may be a common word (time, ntp).
                self.learn(kind, lower)
            yield Span(*match.span(), kind, self.replacement(kind, match[0]))


def _is_no_host(value: str) -> bool:
    """Return whether a word is an address, a number, or a name such as localhost."""
    return value in _LOCAL or re.fullmatch(r"[\d.:-]*|0x[0-9a-f]+|\(.*", value) is not None


_MOST_HOSTS = 65536


def _expand(text: str) -> list[str]:
    """Return the names in a Slurm host list; if the list is too long, only the first names."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        bracketed = re.fullmatch(r"([^\[]*)\[([\d,-]+)\]([^\[]*)", part)
        if bracketed is None:
            names.append(part)
            continue
        for piece in bracketed[2].split(","):
            first, _, last = piece.partition("-")
            if not first.isdecimal() or len(first) > 9 or (last and (not last.isdecimal() or len(last) > 9)):
                continue
            for number in range(int(first), int(last or first) + 1):
                names.append(f"{bracketed[1]}{number:0{len(first)}d}{bracketed[3]}")
                if len(names) >= _MOST_HOSTS:
                    return names
    return names
