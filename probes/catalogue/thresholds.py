"""The limits with which checks compare facts: data rows, each with its source and date."""

import functools

import msgspec

from probes.base.record import EvidenceRef, StrictRecord
from probes.base.rows import read_rows
from probes.base.versions import numbers_of
from probes.catalogue.check_rows import named_limits


class Cited(StrictRecord, kw_only=True):
    """A row with its source and the month of reading."""

    source: str
    date: str

    @property
    def ref(self) -> EvidenceRef:
        return EvidenceRef(source="rule", key=self.source, detail=self.date)


class Number(Cited, kw_only=True):
    """A limit; the name of the limit includes the unit."""

    value: float


class Version(Cited, kw_only=True):
    """The first or the last version with a property."""

    value: str


class Names(Cited, kw_only=True):
    """A list of names that a check treats in the same way."""

    value: tuple[str, ...]


class ThrottleReason(Cited, kw_only=True):
    """A clock event reason that costs training speed. Reasons without a row are normal operation."""

    name: str
    severe: bool
    """True if the hardware protects itself; False if the driver lowers the clocks in a controlled way."""
    meaning: str
    remedy: str


class ViolationLimit(Cited, kw_only=True):
    """Limit on the seconds for which a cause has reduced the clocks since the driver was loaded."""

    name: str
    """Name of the cause in `GpuLimits.violations_us`."""
    value: float
    meaning: str


class CudaDriver(Cited, kw_only=True):
    """The oldest driver that runs programs built for a CUDA major version."""

    cuda_major: int
    driver: str


class CudaArchitecture(Cited, kw_only=True):
    """The CUDA versions whose compilers support a GPU architecture."""

    compute_capability: str
    """`7.5`, or a major version (`7`) for all of its minor versions."""
    cuda_first: str
    cuda_last: str | None = None
    """The last major version of CUDA with support; None if the newest CUDA supports the architecture."""


class NcclArchitecture(Cited, kw_only=True):
    """The first NCCL with support for a GPU architecture."""

    compute_capability: str
    """The major version: `9`."""
    nccl: str


class NcclFault(Cited, kw_only=True):
    """The first and the last version of NCCL with a fault that ends or hangs jobs."""

    first: str
    last: str
    meaning: str


class Thresholds(StrictRecord, kw_only=True):
    """All limits, by name."""

    numbers: dict[str, Number]
    """Every limit that is a number; `thresholds.nofile_minimum` is `thresholds.numbers["nofile_minimum"]`."""
    arm_passthrough_kernel: Version
    geforce_peer_access_fixed: Version
    nccl_stack_fixed: Version
    nccl_mig_fixed: Version
    dma_buf_kernel: Version
    read_only_filesystems: Names
    close_link_kinds: Names
    open_module_needed: Names
    open_module_better: Names
    open_module_impossible: Names
    ecc_off_by_default: Names
    sxm_board_gpus: Names
    learned_sysctls: Names
    learned_kernel_arguments: Names
    throttle_reasons: tuple[ThrottleReason, ...]
    violation_limits: tuple[ViolationLimit, ...]
    cuda_drivers: tuple[CudaDriver, ...]
    cuda_architectures: tuple[CudaArchitecture, ...]
    nccl_architectures: tuple[NcclArchitecture, ...]
    nccl_faults: tuple[NcclFault, ...]
    cuda_connections_architecture: Version

    def __getattr__(self, name: str) -> Number:
        """Return the number of that name."""
        try:
            return self.numbers[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def settable(self) -> dict[str, Number | Version | Names]:
        """Return the limits that a policy can set, by name; tables of several rows are left out."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            **self.numbers,
            **{name: row for name, row in fields.items() if isinstance(row, (Version, Names))},
        }

    def cuda_driver(self, cuda_version: str) -> CudaDriver | None:
        """Return the driver row for a CUDA version such as `12.4`."""
        major = numbers_of(cuda_version)[:1]
        return next((row for row in self.cuda_drivers if (row.cuda_major,) == major), None)

    def cuda_architecture(self, compute_capability: str) -> CudaArchitecture | None:
        """Return the row for `9.0`: the exact row, or else the row for the major version."""
        major = compute_capability.partition(".")[0]
        rows = {row.compute_capability: row for row in self.cuda_architectures}
        return rows.get(compute_capability) or rows.get(major)


@functools.lru_cache(maxsize=1)
def load_thresholds() -> Thresholds:
    """Return the limits shipped with rigtune.

    They are in `probes/data/thresholds.toml` and in the rows of checks.
    """
    rows = read_rows("thresholds")
    fields = {name: row for name, row in rows.items() if name in Thresholds.__struct_fields__}
    numbers = {name: row for name, row in rows.items() if name not in fields}
    return msgspec.convert({**fields, "numbers": {**numbers, **named_limits()}}, Thresholds)
