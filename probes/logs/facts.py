"""Facts of a run that its logs contain, as a dict of plain values.

The facts need a bounded amount of memory for any number of ranks and lines. A fact that no line reports is
absent. The facts are:

- nccl: versions, with the CUDA version that each was built for; library: `RCCL` if it is not NCCL; hip, rocm;
  cuda_driver: `12.8`.
- hosts (number of hosts with lines of NCCL, RCCL, nccl-tests, torch or the OFI plugin); ranks, nodes,
  ranks_per_node (of the largest communicator, or else of the largest run of nccl-tests); communicators (their
  number).
- bootstrap_interfaces, networks, socket_interfaces, hcas: a name, or a list of names with their hosts
  if hosts differ; hca_links: `IB`, `RoCE`; hca_speed_gbps: gigabits per second of the fastest adapter.
- ofi_plugin, libfabric, ofi_provider, ofi_protocol, efa_nics, platform; plugins: kind and name;
  plugins_missing: kinds.
- within_node, between_nodes: transports with their numbers of channels (`P2P/CUMEM` 128), which are lower
  bounds if very many lines differ only in numbers; pairs: for each transport, the first pairs (`0>1`) of
  ranks.
- gpudirect_rdma: true, false or `mixed`, by receiving channels or else by NCCL's decisions; p2p_refused:
  pairs of GPUs without peer-to-peer (`0-1`); dma_buf: whether the kernel can share GPU memory with adapters;
  gpu_to_nic: for each kind of path (`PIX`), the number of GPUs that reach their nearest adapter by it.
- channels, nvls_channels, p2p_channels, rings, trees: the largest number on any rank; nvls: whether
  available; mnnvl, sharp: whether used; clique_size; fabric_health: NVML's mask as NCCL prints it.
- nvlink_gigabytes_per_s, pcie_gigabytes_per_s: of the fastest link of a GPU, in NCCL's model; tuned: by
  collective, `RING/SIMPLE`; algorithms_forced; topology_file; ras: address of NCCL's RAS service.
- environment: variables in force, a list of values if processes differ; environment_by_plugin.
- init_started, init_completed: number of ranks of the largest communicator; init_incomplete: ranks that
  began and did not complete, init_incomplete_hosts: their hosts; init_unseen: ranks that never began
  according to these logs (logs of other hosts may be missing); store_joined: processes at the rendezvous
  (`6 of 8`); init_seconds, init_slowest_rank, init_slowest_step.
- gpus: models in a measurement with their number; bandwidth: by collective, in GB/s: busbw_of_largest,
  busbw_best, busbw_average, with largest_bytes and ranks; wrong_values: number of wrong values in results;
  measured: results of other tools by test, with their unit.
- training: step and loss (the last), steps (all), step_seconds, tflops_per_gpu (medians), finished.
- first_failure: kind, host, rank, source, line, after_s (seconds since the first event with a time);
  failed_ranks: ranks in the order in which they failed.
- The facts of machines and diagnostics: `probes/logs/machine_facts.py`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from probes.logs.bench_facts import BenchFacts
from probes.logs.event import Event
from probes.logs.events.log_record import LogRecord, Value, field_of
from probes.logs.events.measurement_events import NcclTestsResult
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclChannel,
    NcclChannels,
    NcclConnected,
    NcclDriver,
    NcclEnvironment,
    NcclMatrixForced,
    NcclMnnvl,
    NcclNvls,
    NcclNvlsBuffers,
    NcclP2pDisabled,
    NcclP2pUnavailable,
    NcclPath,
    NcclRankOfCommunicator,
    NcclRas,
    NcclRings,
    NcclTopology,
    NcclTopologyLoaded,
    NcclTrees,
    NcclTuned,
    NcclVersion,
    RcclVersion,
)
from probes.logs.events.nccl_failure_events import NcclError
from probes.logs.events.nccl_network_events import (
    NcclDmaBuf,
    NcclGdr,
    NcclHca,
    NcclHcaMerged,
    NcclHcas,
    NcclNetwork,
    NcclNetworkPlugin,
    NcclPluginLoaded,
    NcclPluginMissing,
    NcclSharp,
    NcclSocketInterfaces,
    OfiLibfabric,
    OfiPlatform,
    OfiProtocol,
    OfiProvider,
    OfiVersion,
)
from probes.logs.events.torch_events import TorchStoreRanksMissing
from probes.logs.failure_facts import FailureFacts
from probes.logs.init_facts import InitFacts
from probes.logs.machine_facts import MachineFacts
from probes.logs.spread import Spread

_SPREAD = ("bootstrap_interfaces", "networks", "socket_interfaces", "hcas")
"""Facts that may differ between hosts."""
_MOST_NAMES = 512
_MOST_VALUES = 8
_MOST_PAIRS = 64
_RUN_KINDS = ("nccl", "torch", "ofi", "rccl")
"""Prefixes of event kinds; a host with such an event takes part in the run."""
_IGNORED = (NcclTestsResult, NcclRankOfCommunicator, NcclConnected, NcclError)
"""Frequent records from which this module reads no fact."""
_FIRST: dict[type[LogRecord], tuple[str, str]] = {
    OfiVersion: ("ofi_plugin", "version"),
    OfiLibfabric: ("libfabric", "version"),
    OfiProtocol: ("ofi_protocol", "name"),
    OfiPlatform: ("platform", "name"),
    NcclTopologyLoaded: ("topology_file", "path"),
    NcclRas: ("ras", "address"),
}
"""The fact that the first record of each kind sets, and the field with the value."""
_TRUE: dict[type[LogRecord], str] = {
    NcclDmaBuf: "dma_buf",
    NcclSharp: "sharp",
    NcclNvlsBuffers: "nvls",
    NcclMatrixForced: "algorithms_forced",
}
"""Facts that are true if at least one record of the kind exists."""
_LARGEST: dict[type[LogRecord], dict[str, str]] = {
    NcclChannels: {"channels": "coll", "nvls_channels": "nvls", "p2p_channels": "p2p"},
    NcclRings: {"rings": "channels"},
    NcclTrees: {"trees": "channels"},
    OfiProvider: {"efa_nics": "nics"},
}
"""Facts that are the largest number in a field over all records of the kind."""


class Facts:
    """Facts, collected event by event."""

    def __init__(self) -> None:
        self._hosts: dict[str, None] = {}
        self._versions: dict[str, None] = {}
        self._plain: dict[str, object] = {}
        self._spread = {name: Spread() for name in _SPREAD}
        self._most: dict[str, int] = {}
        self._environment: dict[str, dict[str, Value]] = {}
        self._by_plugin: dict[str, Value] = {}
        self._ways: Counter[str] = Counter()
        self._between: Counter[int] = Counter()
        self._decided: Counter[int] = Counter()
        self._by_channel: dict[str, None] = {}
        """Networks that lines about channels name.

        Some versions of NCCL report their network only in these lines.
        """
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

    def add(self, event: Event) -> None:
        """Add an event of any kind; events that report nothing about the run have no effect."""
        host = event.host
        if (
            host is not None
            and host not in self._hosts
            and len(self._hosts) < 100_000
            and event.kind.startswith(_RUN_KINDS)
        ):
            self._hosts[host] = None
        self._init.add(event)
        self._bench.add(event)
        self._machine.add(event)
        self._failures.add(event)
        if not isinstance(event.what, _IGNORED):
            self._add_network(event)
            self._add_plugin(event.what)
            self._add_way(event)
            self._add_setup(event.what)
            self._add_field(event.what)

    def as_dict(self) -> dict[str, object]:
        """Return the reported facts, the most interesting first."""
        bench = self._bench.as_dict()
        if (nvls := self._most.get("nvls_channels")) is not None:
            self._plain["nvls"] = nvls > 0 and self._plain.get("nvls") is not False
        init = {**{name: bench.pop(name, None) for name in ("ranks", "nodes")}, **self._init.as_dict()}
        within: dict[str, int] = {}
        between: dict[str, int] = {}
        for way, count in self._ways.most_common():
            (between if way.startswith(("NET/", "COLLNET/")) else within)[way] = count
        spread = {name: values.words() for name, values in self._spread.items()}
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

    def _add_network(self, event: Event) -> None:
        """Note which networks, interfaces and adapters carry data."""
        match event.what:
            case NcclBootstrap(interface=interface):
                self._note("bootstrap_interfaces", interface, event)
            case NcclNetwork(name=name):
                self._note("networks", name, event)
            case NcclSocketInterfaces(names=names):
                self._note("socket_interfaces", names, event)
            case NcclHcas(names=names, links=links):
                self._note("hcas", names, event)
                self._links.update(dict.fromkeys(link for link in links.split(",")[:_MOST_VALUES] if link))
            case NcclHca(speed_mbps=speed) | NcclHcaMerged(speed_mbps=speed) if speed > 0:
                self._plain["hca_speed_gbps"] = max(
                    speed / 1000, _number(self._plain.get("hca_speed_gbps")) or 0.0
                )
            case NcclGdr(enabled=enabled):
                self._decided[int(enabled)] += 1
            case NcclPath(to_nic=str(way)):
                self._to_nic[way] += 1

    def _add_plugin(self, record: LogRecord) -> None:
        """Note which plugins were loaded and which are missing."""
        match record:
            case NcclPluginLoaded(kind=kind, name=plugin, version=version, path=path):
                self._add_loaded(kind, plugin or (path or "").rpartition("/")[2], version)
            case NcclNetworkPlugin(name=name, version=version):
                self._add_loaded("", name, version)
            case NcclPluginMissing(kind=kind):
                _remember(self._missing, kind)

    def _add_way(self, event: Event) -> None:
        """Note the transports and links between ranks."""
        match event.what:
            case NcclChannel() as channel:
                self._add_channel(channel, event.count)
            case NcclTopology(link="NVL" | "PCI" as link, gbps=float(rate)):
                name = "nvlink_gigabytes_per_s" if link == "NVL" else "pcie_gigabytes_per_s"
                self._plain[name] = max(rate, _number(self._plain.get(name)) or 0.0)
            case NcclNvls(available=available):
                self._plain["nvls"] = bool(self._plain.get("nvls")) or available
            case NcclMnnvl() as mnnvl:
                self._add_mnnvl(mnnvl)
            case NcclTuned(coll=name, algorithm=algorithm, protocol=protocol):
                if name in self._algorithms or len(self._algorithms) < _MOST_VALUES:
                    _remember(self._algorithms.setdefault(name, {}), f"{algorithm}/{protocol}")
            case NcclP2pUnavailable(a=a, b=b) | NcclP2pDisabled(a=a, b=b) if len(self._refused) < _MOST_PAIRS:
                first, second = sorted((str(a), str(b)))
                self._refused[first, second] = None

    def _add_setup(self, record: LogRecord) -> None:
        """Note versions, variables and the number of processes that joined."""
        match record:
            case NcclVersion() as version:
                self._add_version(version)
            case NcclDriver(api=api):
                self._plain["cuda_driver"] = f"{api // 1000}.{api % 1000 // 10}"
            case RcclVersion(hip=hip, rocm=rocm):
                self._plain |= {
                    "library": "RCCL",
                    **({"hip": hip} if hip else {}),
                    **({"rocm": rocm} if rocm else {}),
                }
            case NcclEnvironment() as variable:
                self._add_variable(variable)
            case OfiProvider(name=name, fabric=fabric):
                self._plain.setdefault("ofi_provider", fabric or name)
            case TorchStoreRanksMissing(joined=joined, expected=expected):
                self._plain["store_joined"] = f"{joined} of {expected}"

    def _note(self, fact: str, value: str, event: Event) -> None:
        if value:
            self._spread[fact].add(value, event.host)

    def _add_field(self, record: LogRecord) -> None:
        """Store the facts of `_FIRST`, `_TRUE` and `_LARGEST` that the record sets."""
        kind = type(record)
        if kind in _FIRST:
            fact, field = _FIRST[kind]
            self._plain.setdefault(fact, field_of(record, field))
        elif kind in _TRUE:
            self._plain[_TRUE[kind]] = True
        for fact, field in _LARGEST.get(kind, {}).items():
            value = getattr(record, field)
            if value is not None:
                self._most[fact] = max(value, self._most.get(fact, 0))

    def _add_channel(self, channel: NcclChannel, count: int) -> None:
        words = f"{channel.transport}/{channel.how}"
        if channel.transport in ("NET", "COLLNET"):
            _remember(self._by_channel, channel.network or "")
            words += "/GDRDMA" if channel.gdr else ""
            if channel.side != "send" and channel.network != "Socket":
                self._between[int(bool(channel.gdr))] += count
        if words in self._ways or len(self._ways) < _MOST_NAMES:
            self._ways[words] += count
            self._add_pairs(words, channel)

    def _add_pairs(self, way: str, channel: NcclChannel) -> None:
        pairs = self._pairs.setdefault(way, {})
        named = (channel.pairs or "").split(",")
        if channel.from_rank is not None and channel.to_rank is not None:
            named.insert(0, f"{channel.from_rank}>{channel.to_rank}")
        for pair in named:
            if pair and len(pairs) < _MOST_PAIRS:
                pairs[pair] = None

    def _add_version(self, loaded: NcclVersion) -> None:
        version = loaded.version
        if not version:
            return
        build = f" (CUDA {loaded.cuda})" if loaded.cuda is not None else ""
        longer = [known for known in self._versions if known.split(" ")[0] == version]
        if longer and not build:
            return
        if build and version in self._versions:
            del self._versions[version]
        _remember(self._versions, version + build)
        if loaded.flavour == "RCCL":
            self._plain["library"] = "RCCL"

    def _add_variable(self, variable: NcclEnvironment) -> None:
        name, value = variable.name, variable.value
        if variable.by == "plugin":
            if len(self._by_plugin) < _MOST_NAMES:
                self._by_plugin[name] = value
            return
        if name in self._environment or len(self._environment) < _MOST_NAMES:
            values = self._environment.setdefault(name, {})
            if len(values) < _MOST_VALUES:
                values[str(value)] = value

    def _add_loaded(self, kind: str, name: str, version: str | None) -> None:
        if name:
            _remember(self._plugins, " ".join(word for word in (kind, name, version) if word))

    def _add_mnnvl(self, mnnvl: NcclMnnvl) -> None:
        if mnnvl.enabled is not None:
            self._plain["mnnvl"] = bool(self._plain.get("mnnvl")) or mnnvl.enabled
            if mnnvl.clique_size is not None:
                self._plain["clique_size"] = max(
                    mnnvl.clique_size, _whole(self._plain.get("clique_size")) or 0
                )
        if mnnvl.health is not None:
            self._plain["fabric_health"] = mnnvl.health

    def _gpudirect(self) -> object:
        """Return whether the network writes into GPU memory: True, False, `mixed`, or None if unknown.

        The channels decide; without channels, NCCL's decisions about GPUDirect do.
        """
        counts = self._between or self._decided
        if not counts:
            return None
        return "mixed" if len(counts) > 1 else bool(next(iter(counts)))


def facts_of(events: Iterable[Event]) -> Facts:
    """Return the facts that some events report."""
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
