"""Records of an operator's policy: checks, limits, expected hardware and versions, waivers.

Fields that are left out state no expectation.
"""

import datetime
import fnmatch
from typing import Annotated, Any, Literal

import msgspec

from probes.base.record import EvidenceRef, Record, StrictRecord, Unknown

SCHEMA_VERSION = 1

Amount = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Percent = Annotated[float, msgspec.Meta(ge=0.0, le=100.0)]
Text = Annotated[str, msgspec.Meta(min_length=1)]

Several = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]

Versions = Text | Several | None
"""The expected version, a list of accepted versions, or None.

A version is exact (`550.90.07`), a pattern (`550.90.*`) or a range (`>=550.90,<581`).
`probes/judging/policies/expected_versions.py` distinguishes the forms.
"""


class CheckPolicy(StrictRecord, kw_only=True):
    """Selection of checks by their ids."""

    required: tuple[Text, ...] = ()
    """Checks whose UNKNOWN result also counts against the machine."""
    not_required: tuple[Text, ...] = ()
    off: dict[str, Text] = {}
    """Checks that are not run: reason by check id."""


class GpuExpectation(StrictRecord, kw_only=True):
    """The GPUs of the machine."""

    model: Text | None = None
    """Id of `rigtune list gpus`, or the driver's name."""
    count: Amount | None = None
    memory_bytes: Positive | None = None
    """Memory of each GPU."""
    memory_tolerance_percent: Percent = 2.0
    """Tolerance, because drivers reserve different amounts."""
    vbios: Versions = None
    driver: Versions = None
    mig: bool | None = None
    ecc: bool | None = None
    power_limit_w: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Power limit in force, to the nearest watt."""
    sm_clock_max_mhz: Positive | None = None
    memory_clock_max_mhz: Positive | None = None
    application_sm_clock_mhz: Positive | None = None
    pcie_generation: Positive | None = None
    """Highest generation that GPU and slot reach together; an idle GPU lowers the current generation."""
    pcie_width: Positive | None = None
    """Number of PCIe lanes in use."""
    nvlinks: Amount | None = None
    """Number of NVLinks of each GPU that are up."""


class NicExpectation(StrictRecord, kw_only=True):
    """The RDMA ports for training, without those for storage and management (`judging/rails.py`)."""

    count: Amount | None = None
    """Number of training ports that are up at their usual rate (`Rails.active`)."""
    rate_gbps: Annotated[float, msgspec.Meta(gt=0)] | None = None
    link_layer: Literal["InfiniBand", "Ethernet"] | None = None
    pcie_generation: Positive | None = None
    pcie_width: Positive | None = None
    """Number of PCIe lanes in use."""
    firmware: dict[str, Text | Several] = {}
    """Expected firmware by device type: `MT4129 = "28.39.1002"`. It applies to all cards, not only to those
    for training.
    """
    places: dict[str, Text] = {}
    """PCI bus id by device name: `mlx5_0 = "0000:1a:00.0"`."""


class SoftwareExpectation(StrictRecord, kw_only=True):
    """Versions of installed software."""

    operating_system: Versions = None
    kernel: Versions = None
    cuda: Versions = None
    """The newest CUDA that the driver supports."""
    cuda_toolkit: Versions = None
    nccl: Versions = None
    """NCCL version of the training interpreter, or else of the system."""
    torch: Versions = None
    fabric_manager: Versions = None
    ofed: Versions = None


class HostExpectation(StrictRecord, kw_only=True):
    """The rest of the machine."""

    memory_bytes: Positive | None = None
    memory_tolerance_percent: Percent = 5.0
    """Tolerance, because firmware and crash kernels reserve memory."""
    cpus: Positive | None = None
    """Number of logical CPUs."""
    numa_nodes: Positive | None = None
    """Number of NUMA nodes, not counting nodes of GPU memory."""
    mounts: tuple[Text, ...] = ()
    services: tuple[Text, ...] = ()
    """Names of systemd units that must be active."""
    modules: tuple[Text, ...] = ()
    """Names of kernel modules that must be loaded."""
    bios: Versions = None
    bmc: Versions = None
    """Firmware of the management controller."""
    sysctl: dict[str, int | Text | Several] = {}
    """Kernel settings: a number, a text, or a range such as `>=4096`, by name as in sysctl(8)."""
    kernel_arguments: tuple[Text, ...] = ()
    """Arguments that the kernel's command line must contain, or patterns of them: `iommu=pt`."""
    kernel_arguments_absent: tuple[Text, ...] = ()


class SiteCheck(StrictRecord, kw_only=True):
    """A command of the site, with the exit code and the line that a good machine gives."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    """Subject of the finding: `scratch-mounted`."""
    command: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=256)]
    """Program and arguments; no shell reads them."""
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    line: Text | None = None
    """A pattern that one line of the output must match: `state: * ready`."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """Deadline, after which the command is killed and its result is UNKNOWN."""
    status: Literal["fail", "warn"] = "fail"
    """Status of a machine that gives another result."""
    why: str = "The site requires the result of this command."
    fix: str = "Find out why the command gives another result."


class SiteOutcome(Record, kw_only=True):
    """Result of a site check's command."""

    name: str
    exit_code: int | Unknown
    """Exit code, 128 + N after signal N; unknown if the command did not start or did not end in time."""
    lines: tuple[str, ...] = ()
    """The last lines of the output."""


class Waiver(StrictRecord, kw_only=True):
    """A known problem that does not count for a while."""

    check: Text
    subject: Text = "*"
    """A pattern: `GPU3`, `mlx5_*`."""
    reason: Text
    expires: datetime.date
    """The last day on which the waiver is valid."""

    def holds_on(self, today: datetime.date | None) -> bool:
        """Return whether the waiver is valid today. If the day is unknown, no waiver is valid."""
        return today is not None and today <= self.expires

    def covers(self, check_id: str, subject: str) -> bool:
        return check_id == self.check and fnmatch.fnmatchcase(subject, self.subject)


class Policy(StrictRecord, kw_only=True):
    """A policy file. An empty policy changes nothing: rigtune's defaults apply."""

    schema_version: int = SCHEMA_VERSION
    fail_on: Literal["fail", "warn"] | None = None
    """Least severe status that causes exit code 1; the command-line option takes precedence."""
    checks: CheckPolicy = CheckPolicy()
    thresholds: dict[str, float | str | tuple[str, ...]] = {}
    """Limits by their names in `probes/data/thresholds.toml`."""
    gpu: GpuExpectation = GpuExpectation()
    nic: NicExpectation = NicExpectation()
    software: SoftwareExpectation = SoftwareExpectation()
    host: HostExpectation = HostExpectation()
    waivers: tuple[Waiver, ...] = ()
    site_checks: Annotated[tuple[SiteCheck, ...], msgspec.Meta(max_length=64)] = ()
    hosts: tuple[dict[str, Any], ...] = ()
    """Sections for some hosts: `names`, and tables of a policy (`host_sections.py`)."""


def policy_ref(place: str) -> EvidenceRef:
    """Return the reference to a field of the policy such as `gpu.count`."""
    return EvidenceRef(source="policy", key=place)
