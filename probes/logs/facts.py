"""What a run was, by its logs: a dict of plain values, in bounded memory whatever the number of ranks and
lines.

A fact that no line told of is not there. Names and values: nccl: versions, with the CUDA they were built for;
library: `RCCL` where it is not NCCL; hip, rocm; cuda_driver: `12.8`. hosts: how many told of themselves;
ranks, nodes, ranks_per_node: of the largest communicator; communicators. bootstrap_interfaces, networks,
socket_interfaces, hcas: a name, or a list of them with their hosts where hosts differ. hca_links: `IB`,
`RoCE`; hca_speed_gbps: gigabits per second. ofi_plugin, libfabric, ofi_provider, ofi_protocol, efa_nics,
platform; plugins: kind and name; plugins_missing: kinds. within_node, between_nodes: ways with their numbers
of channels (`P2P/CUMEM` 128, `NET/IB/GDRDMA` 64), where lines of one shape are many at least so many; pairs:
by way, the first ranks that it connects (`0>1`); gpudirect_rdma: true, false or `mixed`, by what is received;
p2p_refused: GPUs without peer-to-peer (`0-1`); dma_buf: GPU memory can be lent to adapters by the kernel;
gpu_to_nic: ways from GPUs to the nearest adapter, how often. channels, nvls_channels, p2p_channels, rings,
trees: the most that a rank has; nvls, mnnvl, sharp: whether it is used; clique_size; fabric_health: NVML's
mask as NCCL prints it; nvlink_gigabytes_per_s, pcie_gigabytes_per_s: of one GPU, in NCCL's model. tuned: by
collective, `RING/SIMPLE`; algorithms_forced; topology_file. environment: variables in force, a list of values
where processes differ; environment_by_plugin. init_started, init_completed: how many ranks of the largest
communicator; init_incomplete: those that began and were not done, init_incomplete_hosts: where; init_unseen:
those that never began by these logs (which may be those of some hosts alone); store_joined: processes at the
rendezvous (`6 of 8`); init_seconds, init_slowest_rank, init_slowest_step. gpus: models of a measurement with
their number; bandwidth: by collective, in GB/s: busbw_of_largest, busbw_best, busbw_average, with
largest_bytes and ranks; wrong_values: of results; measured: by test of other tools, with its unit. Those of
machines and diagnostics: `probes/logs/machine_facts.py`. first_failure: kind, host, rank, source, line,
after_s: seconds from the first line with a time; failed_ranks: in that order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from probes.logs.bench_facts import BenchFacts
from probes.logs.event import Event, Value
from probes.logs.failure_facts import FailureFacts
from probes.logs.init_facts import InitFacts
from probes.logs.machine_facts import MachineFacts
from probes.logs.spread import Spread

_SPREAD = {
    "nccl.bootstrap": ("bootstrap_interfaces", "interface"),
    "nccl.network": ("networks", "name"),
    "nccl.socket-interfaces": ("socket_interfaces", "names"),
    "nccl.hcas": ("hcas", "names"),
}
"""Kinds whose one field hosts may disagree on, and the fact that it becomes."""
_LAST = {
    "ofi.version": ("ofi_plugin", "version"),
    "ofi.libfabric": ("libfabric", "version"),
    "ofi.protocol": ("ofi_protocol", "name"),
    "ofi.platform": ("platform", "name"),
    "nccl.topology-loaded": ("topology_file", "path"),
    "nccl.ras": ("ras", "address"),
}
_MOST = {
    "nccl.channels": (("channels", "coll"), ("nvls_channels", "nvls"), ("p2p_channels", "p2p")),
    "nccl.rings": (("rings", "channels"),),
    "nccl.trees": (("trees", "channels"),),
    "ofi.provider": (("efa_nics", "nics"),),
}
_SEEN = {
    "nccl.nvls-buffers": "nvls",
    "nccl.sharp": "sharp",
    "nccl.matrix-forced": "algorithms_forced",
    "nccl.dma-buf": "dma_buf",
}
"""Kinds of which one event makes a fact true."""
_MOST_NAMES = 512
_MOST_VALUES = 8
_MOST_PAIRS = 64


class Facts:
    """Facts as events come in."""

    def __init__(self) -> None:
        self._hosts: dict[str, None] = {}
        self._versions: dict[str, None] = {}
        self._plain: dict[str, object] = {}
        self._spread = {name: Spread() for name, _ in _SPREAD.values()}
        self._most: dict[str, int] = {}
        self._least: dict[str, int] = {}
        self._environment: dict[str, dict[str, Value]] = {}
        self._by_plugin: dict[str, Value] = {}
        self._ways: Counter[str] = Counter()
        self._between: Counter[int] = Counter()
        self._decided: Counter[int] = Counter()
        self._by_channel: dict[str, None] = {}
        """Networks that channels name, for versions that do not say which one they use."""
        self._links: dict[str, None] = {}
        self._plugins: dict[str, None] = {}
        self._missing: dict[str, None] = {}
        self._algorithms: dict[str, dict[str, None]] = {}
        self._pairs: dict[str, dict[str, None]] = {}
        self._to_nic: Counter[str] = Counter()
        self._refused: dict[tuple[str, str], None] = {}
        self._init = InitFacts()
        self._bench = BenchFacts()
        self._machine = MachineFacts()
        self._failures = FailureFacts()
        self._handlers: dict[str, Callable[[Mapping[str, Value]], None]] = {
            "nccl.version": self._add_version,
            "nccl.driver": self._add_driver,
            "nccl.environment": self._add_variable,
            "nccl.plugin-loaded": self._add_plugin,
            "nccl.network-plugin": self._add_plugin,
            "nccl.plugin-missing": self._add_missing,
            "nccl.nvls": self._add_nvls,
            "nccl.mnnvl": self._add_mnnvl,
            "nccl.tuned": self._add_algorithm,
            "ofi.provider": self._add_provider,
            "rccl.version": self._add_rccl,
            "nccl.path": self._add_path,
            "nccl.gdr": self._add_decision,
            "torch.store-ranks-missing": self._add_joined,
            "nccl.p2p-unavailable": self._add_refusal,
            "nccl.p2p-disabled": self._add_refusal,
        }

    def add(self, event: Event) -> None:
        """One more event of any kind; those that tell nothing of the run are passed over."""
        if (
            event.host is not None
            and len(self._hosts) < 100_000
            and event.kind.startswith(("nccl", "torch", "ofi", "rccl"))
        ):
            self._hosts[event.host] = None
        self._init.add(event)
        self._bench.add(event)
        self._machine.add(event)
        self._failures.add(event)
        self._add_spread(event)
        self._add_numbers(event)
        self._add_words(event)

    def as_dict(self) -> dict[str, object]:
        """The facts, in the order of interest, without those that nothing tells of."""
        bench = self._bench.as_dict()
        if (nvls := self._most.get("nvls_channels")) is not None:
            self._plain["nvls"] = nvls > 0 and self._plain.get("nvls") is not False
        init = {**{name: bench.pop(name, None) for name in ("ranks", "nodes")}, **self._init.as_dict()}
        within = {
            way: count for way, count in self._ways.most_common() if not way.startswith(("NET/", "COLLNET/"))
        }
        between = {
            way: count for way, count in self._ways.most_common() if way.startswith(("NET/", "COLLNET/"))
        }
        spread = {name: told.words() for name, told in self._spread.items()}
        spread["networks"] = spread["networks"] or ", ".join(self._by_channel)
        facts: dict[str, object] = {
            "nccl": [*self._versions],
            **{name: self._plain.get(name) for name in ("library", "hip", "rocm", "cuda_driver")},
            "hosts": len(self._hosts) or None,
            **{name: init.pop(name, None) for name in ("ranks", "nodes", "ranks_per_node", "communicators")},
            **spread,
            "hca_links": [*self._links],
            **{
                name: value
                for name, value in self._plain.items()
                if name not in ("library", "hip", "rocm", "cuda_driver")
            },
            "within_node": within,
            "between_nodes": between,
            "pairs": {way: [*pairs] for way, pairs in self._pairs.items()},
            "p2p_refused": [f"{a}-{b}" for a, b in self._refused],
            "gpu_to_nic": dict(self._to_nic.most_common()),
            "gpudirect_rdma": self._gpudirect(),
            **self._most,
            "tuned": {name: [*values] for name, values in self._algorithms.items()},
            "plugins": [*self._plugins],
            "plugins_missing": [*self._missing],
            "environment": {name: _one_or_all(values) for name, values in sorted(self._environment.items())},
            "environment_by_plugin": dict(sorted(self._by_plugin.items())),
            **init,
            **bench,
            **self._machine.as_dict(),
            **self._failures.as_dict(),
        }
        return {name: value for name, value in facts.items() if value not in (None, "", [], {}, ())}

    def _add_spread(self, event: Event) -> None:
        if event.kind in _SPREAD:
            name, field = _SPREAD[event.kind]
            if (value := event.fields.get(field)) not in (None, ""):
                self._spread[name].add(str(value), event.host)
        if event.kind == "nccl.hcas":
            for link in str(event.fields.get("links", "")).split(",")[:_MOST_VALUES]:
                if link:
                    self._links[link] = None

    def _add_numbers(self, event: Event) -> None:
        for name, field in _MOST.get(event.kind, ()):
            value = _whole(event.fields.get(field))
            if value is not None:
                self._most[name] = max(value, self._most.get(name, 0))
        match event.kind:
            case "nccl.channel":
                self._add_channel(event)
            case "nccl.hca" | "nccl.hca-merged" if (
                speed := _whole(event.fields.get("speed_mbps"))
            ) is not None and speed > 0:
                self._plain["hca_speed_gbps"] = max(
                    speed / 1000, _number(self._plain.get("hca_speed_gbps")) or 0.0
                )
            case "nccl.topology" if (rate := _number(event.fields.get("gbps"))) is not None:
                link = {"NVL": "nvlink_gigabytes_per_s", "PCI": "pcie_gigabytes_per_s"}.get(
                    str(event.fields.get("link"))
                )
                if link is not None:
                    self._plain[link] = max(rate, _number(self._plain.get(link)) or 0.0)

    def _add_channel(self, event: Event) -> None:
        fields = event.fields
        words = f"{fields.get('transport')}/{fields.get('how')}"
        if fields.get("transport") in ("NET", "COLLNET"):
            _remember(self._by_channel, str(fields.get("network", "")))
            words += "/GDRDMA" if fields.get("gdr") == 1 else ""
            if fields.get("side") != "send" and fields.get("network") != "Socket":
                self._between[int(fields.get("gdr") == 1)] += event.count
        if words in self._ways or len(self._ways) < _MOST_NAMES:
            self._ways[words] += event.count
            self._add_pairs(words, fields)

    def _add_pairs(self, way: str, fields: Mapping[str, Value]) -> None:
        pairs = self._pairs.setdefault(way, {})
        named = str(fields.get("pairs", "")).split(",")
        if {"from_rank", "to_rank"} <= fields.keys():
            named.insert(0, f"{fields['from_rank']}>{fields['to_rank']}")
        for pair in named:
            if pair and len(pairs) < _MOST_PAIRS:
                pairs[pair] = None

    def _add_words(self, event: Event) -> None:
        fields = event.fields
        if event.kind in _LAST:
            name, field = _LAST[event.kind]
            self._plain.setdefault(name, fields.get(field))
        if event.kind in _SEEN:
            self._plain[_SEEN[event.kind]] = True
        if (handler := self._handlers.get(event.kind)) is not None:
            handler(fields)

    def _add_driver(self, fields: Mapping[str, Value]) -> None:
        if (api := _whole(fields.get("api"))) is not None:
            self._plain["cuda_driver"] = f"{api // 1000}.{api % 1000 // 10}"

    def _add_missing(self, fields: Mapping[str, Value]) -> None:
        _remember(self._missing, str(fields.get("kind", "")))

    def _add_nvls(self, fields: Mapping[str, Value]) -> None:
        self._plain["nvls"] = bool(self._plain.get("nvls")) or fields.get("available") == 1

    def _add_provider(self, fields: Mapping[str, Value]) -> None:
        self._plain.setdefault("ofi_provider", fields.get("fabric") or fields.get("name"))

    def _add_path(self, fields: Mapping[str, Value]) -> None:
        if (way := fields.get("to_nic")) is not None:
            self._to_nic[str(way)] += 1

    def _add_joined(self, fields: Mapping[str, Value]) -> None:
        if {"joined", "expected"} <= fields.keys():
            self._plain["store_joined"] = f"{fields['joined']} of {fields['expected']}"

    def _add_decision(self, fields: Mapping[str, Value]) -> None:
        self._decided[int(fields.get("enabled") == 1)] += 1

    def _add_refusal(self, fields: Mapping[str, Value]) -> None:
        a, b = sorted((str(fields.get("a", "")), str(fields.get("b", ""))))
        if len(self._refused) < _MOST_PAIRS:
            self._refused[a, b] = None

    def _add_algorithm(self, fields: Mapping[str, Value]) -> None:
        name = str(fields.get("coll", ""))
        if name in self._algorithms or len(self._algorithms) < _MOST_VALUES:
            _remember(
                self._algorithms.setdefault(name, {}), f"{fields.get('algorithm')}/{fields.get('protocol')}"
            )

    def _add_rccl(self, fields: Mapping[str, Value]) -> None:
        self._plain["library"] = "RCCL"
        for name in ("hip", "rocm"):
            if name in fields:
                self._plain[name] = str(fields[name])

    def _add_version(self, fields: Mapping[str, Value]) -> None:
        version = str(fields.get("version", ""))
        if not version:
            return
        build = f" (CUDA {fields['cuda']})" if "cuda" in fields else ""
        longer = [known for known in self._versions if known.split(" ")[0] == version]
        if longer and not build:
            return
        if build and version in self._versions:
            del self._versions[version]
        _remember(self._versions, version + build)
        if fields.get("flavour") == "RCCL":
            self._plain["library"] = "RCCL"

    def _add_variable(self, fields: Mapping[str, Value]) -> None:
        name, value = str(fields.get("name", "")), fields.get("value", "")
        if fields.get("by") == "plugin":
            if len(self._by_plugin) < _MOST_NAMES:
                self._by_plugin[name] = value
            return
        if name in self._environment or len(self._environment) < _MOST_NAMES:
            values = self._environment.setdefault(name, {})
            if len(values) < _MOST_VALUES:
                values[str(value)] = value

    def _add_plugin(self, fields: Mapping[str, Value]) -> None:
        name = str(fields.get("name") or str(fields.get("path", "")).rpartition("/")[2])
        version = str(fields.get("version", ""))
        kind = str(fields.get("kind", ""))
        words = " ".join(word for word in (kind, name, version) if word)
        if name:
            _remember(self._plugins, words)

    def _add_mnnvl(self, fields: Mapping[str, Value]) -> None:
        if "enabled" in fields:
            self._plain["mnnvl"] = bool(self._plain.get("mnnvl")) or fields["enabled"] == 1
            if (size := _whole(fields.get("clique_size"))) is not None:
                self._plain["clique_size"] = max(size, _whole(self._plain.get("clique_size")) or 0)
        if "health" in fields:
            self._plain["fabric_health"] = str(fields["health"])

    def _gpudirect(self) -> object:
        """Whether the network writes into GPU memory: by what is received, else by what NCCL found it can
        do.
        """
        told = self._between or self._decided
        if not told:
            return None
        return "mixed" if len(told) > 1 else bool(next(iter(told)))


def facts_of(events: Iterable[Event]) -> Facts:
    """The facts that some events tell."""
    facts = Facts()
    for event in events:
        facts.add(event)
    return facts


def _remember(names: dict[str, None], name: str) -> None:
    if name and len(names) < _MOST_VALUES * 4:
        names[name] = None


def _one_or_all(values: Mapping[str, Value]) -> object:
    return next(iter(values.values())) if len(values) == 1 else [*values.values()]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
