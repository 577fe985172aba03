"""Facts of the machine from kernel logs and diagnostics, in bounded memory.

A fact that no line reports is absent. Names and values:

- driver, fabric_manager: versions.
- fabric: number of switches and gpus in the Fabric Manager's inventory; multicast_teams: set_up, the number
  of teams that were set up.
- nic_firmware: number of cards by version; pcie_links: number of network cards by rate and width.
- xids: by number (`79`, with the sub-code of NVLink 5 `149.38`): lines, gpus, and fatal (whether a line calls
  the error fatal), if lines state it.
- sxids: by number: lines, fatal, switches.
- pcie_errors: lines by severity; pcie_limited: by device: gbit_per_s, capable_of (Gbit/s), and at (the link
  that limits the device).
- links: by network interface that went down, the number of times it went down and up, and its last state.
- cables: messages of the driver about cables, each with its card.
- killed_for_memory: processes; peermem_complaints: lines.
- nvlinks: one entry per group of GPUs with the same link state; fields gpu (model), gpus, up, down, disabled,
  gigabytes_per_s_each (for one link and one direction).
- nvlinks_missing: number of GPUs without reported NVLinks, by model and reason (such as MIG).
- nvlink_errors: sum by counter, 0 if all printed counters are 0; nvlink_error_links: counters by GPU and
  link.
- dcgm: passed, failed, warned, skipped, failed_tests; dcgm_version; dcgm_gpus: number of tested GPUs.
- gpu_burn: tested, faulty; health_checks: passed, and failed (names).
- nvbandwidth_version, nvbandwidth_complaints; port_rates_gbit_per_s: of network ports, by device.
"""

from probes.logs.event import Event
from probes.logs.events.host_events import (
    DcgmFailure,
    DcgmMachine,
    DcgmRecord,
    DcgmSummary,
    GpuBurnFaulty,
    GpuBurnTested,
    HealthCheckFailed,
    HealthCheckPassed,
    HostOomKill,
    HostPortRate,
    HostRecord,
    NvlinkErrors,
    NvlinkGpu,
    NvlinkNoErrors,
    NvlinkNone,
    NvlinkRecord,
)
from probes.logs.events.kernel_log_events import (
    FabricDevice,
    FabricManagerRecord,
    FabricStarted,
    FabricSwitchError,
    FabricTeam,
    KernelAer,
    KernelCable,
    KernelDriver,
    KernelLink,
    KernelNicFirmware,
    KernelOomKill,
    KernelPcieLimited,
    KernelPcieLink,
    KernelPeermem,
    KernelRecord,
    KernelSxid,
    KernelXid,
)
from probes.logs.events.log_record import Value, fields_of
from probes.logs.events.measurement_events import NvbandwidthVersion, NvbandwidthWarning

_MOST = 256
"""Largest number of names kept in each table."""
_MOST_LISTED = 32


class MachineFacts:
    """Facts of machines, counted event by event."""

    def __init__(self) -> None:
        self._plain: dict[str, Value] = {}
        self._tables: dict[str, dict[str, dict[str, object]]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._nvlinks: dict[tuple[tuple[str, object], ...], int] = {}
        self._port_rates: dict[str, Value] = {}
        self._fabric: dict[tuple[str, str], None] = {}

    def add(self, event: Event) -> None:
        """Count an event; events that report nothing about a machine have no effect."""
        match event.what:
            case KernelRecord():
                self._add_kernel(event.what, event.count)
            case FabricManagerRecord():
                self._add_fabric_manager(event.what, event.count)
            case NvlinkRecord():
                self._add_nvlink(event.what)
            case DcgmRecord():
                self._add_dcgm(event.what)
            case HostRecord():
                self._add_host(event.what, event.count)
            case NvbandwidthVersion(version=version):
                self._plain["nvbandwidth_version"] = version
            case NvbandwidthWarning(reason=reason):
                self._name("nvbandwidth_complaints", reason)

    def as_dict(self) -> dict[str, object]:
        """Return the reported facts."""
        names = {name: [*values] for name, values in self._names.items()}
        facts: dict[str, object] = {
            **self._plain,
            **self._tables,
            **self._counts,
            "port_rates_gbit_per_s": self._port_rates,
        }
        kinds = [kind for kind, _ in self._fabric]
        facts["fabric"] = {
            name: kinds.count(kind)
            for kind, name in (("switch", "switches"), ("gpu", "gpus"))
            if kind in kinds
        }
        facts["nvlinks"] = [
            {**{name: value for name, value in group if value not in ("", None)}, "gpus": gpus}
            for group, gpus in self._nvlinks.items()
        ]  # fmt: skip
        if "nvlink_errors" in facts and not any(self._counts["nvlink_errors"].values()):
            facts["nvlink_errors"] = 0
        for counted, listed, name in (
            ("dcgm", "dcgm_failed", "failed_tests"),
            ("health_checks", "health_checks_failed", "failed"),
        ):
            if listed in names:
                facts[counted] = {**self._counts.get(counted, {}), name: names.pop(listed)}
        return {
            name: value
            for name, value in {**facts, **names}.items()
            if value not in (None, "", [], {}) and (name, value) != ("dcgm_gpus", 0)
        }

    def _count(self, table: str, name: Value | None, times: int) -> None:
        counts = self._counts.setdefault(table, {})
        if name is not None and (str(name) in counts or len(counts) < _MOST):
            counts[str(name)] = counts.get(str(name), 0) + times

    def _name(self, table: str, name: Value | None) -> None:
        names = self._names.setdefault(table, {})
        if name is not None and len(names) < _MOST_LISTED:
            names[str(name)] = None

    def _row(self, table: str, name: str) -> dict[str, object]:
        """Return the row of a name and create it if needed.

        If the table is full, return a row that is not stored.
        """
        rows = self._tables.setdefault(table, {})
        return rows.setdefault(name, {}) if name in rows or len(rows) < _MOST else {}

    def _add_kernel(self, what: KernelRecord, times: int) -> None:
        match what:
            case KernelXid():
                name = f"{what.xid}.{what.sub_code}" if what.sub_code else f"{what.xid}"
                self._add_error("xids", name, "gpus", what, times)
            case KernelSxid():
                self._add_error("sxids", f"{what.sxid}", "switches", what, times)
            case KernelAer():
                self._count("pcie_errors", what.severity, times)
            case KernelLink():
                self._add_link(what, times)
            case KernelOomKill():
                self._name("killed_for_memory", what.process)
            case KernelPeermem():
                self._count("peermem_complaints", "lines", times)
            case _:
                self._add_card(what)

    def _add_card(self, what: KernelRecord) -> None:
        match what:
            case KernelDriver():
                self._plain["driver"] = what.version
            case KernelNicFirmware():
                self._count("nic_firmware", what.version, 1)
            case KernelPcieLink():
                self._count("pcie_links", what.link, 1)
            case KernelPcieLimited(available_gbit_per_s=float(rate)):
                row = self._row("pcie_limited", f"{what.bus}")
                row |= {
                    "gbit_per_s": rate,
                    "capable_of": what.capable_gbit_per_s or "?",
                    "at": what.limited_by or "",
                }
            case KernelCable():
                self._name("cables", f"{what.bus}: {what.what}")

    def _add_fabric_manager(self, what: FabricManagerRecord, times: int) -> None:
        match what:
            case FabricStarted():
                self._plain["fabric_manager"] = what.version
            case FabricDevice() if len(self._fabric) < _MOST * 2:
                # Each start of the Fabric Manager writes the inventory again, so a device must count once.
                self._fabric[what.kind, what.bus] = None
            case FabricTeam():
                self._count("multicast_teams", "set_up", times)
            case FabricSwitchError():
                self._add_error("sxids", f"{what.error}", "switches", what, times)

    def _add_error(
        self, table: str, name: str, places: str, what: KernelXid | KernelSxid | FabricSwitchError, times: int
    ) -> None:
        row = self._row(table, name)
        _add_lines(row, places, what.bus, times)
        if what.fatal is not None:
            row["fatal"] = bool(row.get("fatal")) or what.fatal == 1

    def _add_link(self, link: KernelLink, times: int) -> None:
        if link.state == "up" and link.device not in self._tables.get("links", {}):
            return  # Every link comes up at least once.
        row = self._row("links", link.device)
        row[link.state] = _whole(row.get(link.state)) + times
        row["last"] = link.state

    def _add_nvlink(self, what: NvlinkRecord) -> None:
        match what:
            case NvlinkGpu():
                self._add_nvlinks(what)
            case NvlinkNone(name=name, reason=reason):
                self._count("nvlinks_missing", f"{name or 'GPU'}{f': {reason}' if reason else ''}", 1)
            case NvlinkErrors(gpu=gpu, link=link, counter=counter, count=count):
                self._count("nvlink_errors", counter, count)
                row = self._row("nvlink_error_links", f"GPU{gpu} link {'?' if link is None else link}")
                row[counter] = count
            case NvlinkNoErrors():
                self._count("nvlink_errors", "all", 0)

    def _add_nvlinks(self, links: NvlinkGpu) -> None:
        rate = round(links.gbps / links.up, 3) if links.up and links.gbps is not None else None
        group = {"gpu": links.name or "", "up": links.up, "down": links.down, "disabled": links.disabled}
        key = tuple({**group, "gigabytes_per_s_each": rate}.items())
        if key in self._nvlinks or len(self._nvlinks) < _MOST:
            self._nvlinks[key] = self._nvlinks.get(key, 0) + 1

    def _add_dcgm(self, what: DcgmRecord) -> None:
        match what:
            case DcgmSummary():
                for name, tests in fields_of(what).items():
                    self._count("dcgm", name, _whole(tests))
            case DcgmMachine(version=version, driver=driver, gpus=gpus):
                for name, value in (("dcgm_version", version), ("driver", driver)):
                    if value is not None:
                        self._plain.setdefault(name, value)
                self._plain["dcgm_gpus"] = max(gpus or 0, _whole(self._plain.get("dcgm_gpus")))
            case DcgmFailure(test=test):
                self._name("dcgm_failed", test)

    def _add_host(self, what: HostRecord, times: int) -> None:
        match what:
            case HostOomKill(process=process):
                self._name("killed_for_memory", process)
            case HostPortRate(device=device, gbit_per_s=rate) if len(self._port_rates) < _MOST:
                self._port_rates[device] = rate
            case GpuBurnTested(gpus=gpus):
                self._count("gpu_burn", "tested", gpus)
            case GpuBurnFaulty():
                self._count("gpu_burn", "faulty", 1)
            case HealthCheckPassed():
                self._count("health_checks", "passed", times)
            case HealthCheckFailed(check=check):
                self._name("health_checks_failed", check)


def _add_lines(row: dict[str, object], where: str, bus: Value | None, times: int) -> None:
    """Add to the number of lines, and add the device to the row's list if it is new."""
    row["lines"] = _whole(row.get("lines")) + times
    places = row.setdefault(where, [])
    if isinstance(places, list) and bus and bus not in places and len(places) < _MOST_LISTED:
        places.append(bus)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
