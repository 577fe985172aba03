"""Records of what the log of NVIDIA's Fabric Manager reports, and its service in the journal."""

from __future__ import annotations

from probes.logs.events.log_record import LogRecord


class FabricManagerRecord(LogRecord, kw_only=True):
    """The base of all records of the Fabric Manager."""


class FabricSwitchError(FabricManagerRecord, kw_only=True, tag="fabric_manager.switch-error"):
    """An error of an NVSwitch, by its SXid number."""

    error: int
    fatal: int
    """1 or 0."""
    bus: str | None = None
    port: int | None = None


class FabricMismatch(FabricManagerRecord, kw_only=True, tag="fabric_manager.mismatch"):
    """A version of the Fabric Manager that is not the driver's."""

    reason: str
    version: str | None = None
    driver: str | None = None


class FabricFailed(FabricManagerRecord, kw_only=True, tag="fabric_manager.failed"):
    """Any other trouble; `aborted` is 1 where it gave up."""

    reason: str
    aborted: int


class FabricMulticast(FabricManagerRecord, kw_only=True, tag="fabric_manager.multicast"):
    """A multicast team (NVLink SHARP) that could not be set up."""

    reason: str


class FabricTeam(FabricManagerRecord, kw_only=True, tag="fabric_manager.team"):
    """A multicast team that was set up."""


class FabricStarted(FabricManagerRecord, kw_only=True, tag="fabric_manager.started"):
    """A start of the Fabric Manager."""

    version: str


class FabricConfigured(FabricManagerRecord, kw_only=True, tag="fabric_manager.configured"):
    """All switches are set up."""


class FabricRunning(FabricManagerRecord, kw_only=True, tag="fabric_manager.running"):
    """The service runs, by systemd's words."""


class FabricDevice(FabricManagerRecord, kw_only=True, tag="fabric_manager.device"):
    """A `switch` or `gpu` of the inventory."""

    kind: str
    bus: str
