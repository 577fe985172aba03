"""Records of what the log of NVIDIA's Fabric Manager reports, and its service in the journal."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class FabricManagerRecord(LogRecord, kw_only=True):
    """The base of all records of the Fabric Manager."""


class FabricSwitchError(FabricManagerRecord, kw_only=True):
    """An error of an NVSwitch, by its SXid number."""

    KIND: ClassVar[str] = "fabric_manager.switch-error"
    error: int
    fatal: int
    """1 or 0."""
    bus: str | None = None
    port: int | None = None


class FabricMismatch(FabricManagerRecord, kw_only=True):
    """A version of the Fabric Manager that is not the driver's."""

    KIND: ClassVar[str] = "fabric_manager.mismatch"
    reason: str
    version: str | None = None
    driver: str | None = None


class FabricFailed(FabricManagerRecord, kw_only=True):
    """Any other trouble; `aborted` is 1 where it gave up."""

    KIND: ClassVar[str] = "fabric_manager.failed"
    reason: str
    aborted: int


class FabricMulticast(FabricManagerRecord, kw_only=True):
    """A multicast team (NVLink SHARP) that could not be set up."""

    KIND: ClassVar[str] = "fabric_manager.multicast"
    reason: str


class FabricTeam(FabricManagerRecord, kw_only=True):
    """A multicast team that was set up."""

    KIND: ClassVar[str] = "fabric_manager.team"


class FabricStarted(FabricManagerRecord, kw_only=True):
    """A start of the Fabric Manager."""

    KIND: ClassVar[str] = "fabric_manager.started"
    version: str


class FabricConfigured(FabricManagerRecord, kw_only=True):
    """All switches are set up."""

    KIND: ClassVar[str] = "fabric_manager.configured"


class FabricRunning(FabricManagerRecord, kw_only=True):
    """The service runs, by systemd's words."""

    KIND: ClassVar[str] = "fabric_manager.running"


class FabricDevice(FabricManagerRecord, kw_only=True):
    """A `switch` or `gpu` of the inventory."""

    KIND: ClassVar[str] = "fabric_manager.device"
    kind: str
    bus: str
