"""Facts that rules use in addition to the files: versions and the machine."""

import re

from probes.base.record import Record, items_of, known
from probes.base.versions import at_least
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.rails import training_ports

_WITHOUT_NVLINK = re.compile(
    r"RTX (?:40|50)[5-9]0|RTX \d+ Ada|RTX PRO|\b(?:L(?:2|4|20|40S?)|T4|A2|A10G?|A16)\b"
)
"""Boards without an NVLink connector. Source: NVIDIA's data sheet of each board, 2018 to 2025."""


def _has_link(gpu: Gpu) -> bool | None:
    if known(gpu.nvlinks) and gpu.nvlinks:
        return any(link.active is True for link in gpu.nvlinks)
    is_without = known(gpu.nvlinks) or (known(gpu.name) and _WITHOUT_NVLINK.search(gpu.name) is not None)
    return False if is_without else None


class Context(Record, kw_only=True):
    """Optional facts that make rules more precise.

    Without a fact, a rule may miss a mistake, or report a mistake that the fact would exclude.
    """

    nccl_version: str | None = None
    """Version such as `2.27.5`, from `--nccl-version`."""
    torch_version: str | None = None
    slurm_version: str | None = None
    """Version such as `23.02`, from `--slurm-version`."""
    machine: MachineFacts | None = None

    @property
    def slurm(self) -> str | None:
        """Version of Slurm; None if unknown."""
        if self.slurm_version or self.machine is None:
            return self.slurm_version
        version = self.machine.software.slurm_version
        return version if known(version) else None

    def slurm_is_within(self, first: str, after: str) -> bool | None:
        """Return whether Slurm is at least `first` and older than `after`; None if its version is unknown."""
        if self.slurm is None:
            return None
        return at_least(self.slurm, first) is True and at_least(self.slurm, after) is False

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """GPUs of the machine; empty if unknown."""
        return items_of(self.machine.gpus) if self.machine is not None else ()

    @property
    def training_ports(self) -> tuple[Nic, ...]:
        """Ports of the machine that carry training traffic; empty if unknown."""
        return items_of(training_ports(self.machine)) if self.machine is not None else ()

    @property
    def nccl(self) -> str | None:
        """Version of NCCL that the job will load; None if unknown."""
        if self.nccl_version:
            return self.nccl_version
        if self.machine is None:
            return None
        for version in (self.machine.training.nccl_version, self.machine.software.nccl_version):
            if known(version) and version is not None:
                return version
        return None

    @property
    def has_nvlink(self) -> bool | None:
        """Return whether a link between GPUs of the machine is up; None if unknown."""
        states = [_has_link(gpu) for gpu in self.gpus]
        if True in states:
            return True
        return False if states and None not in states else None

    @property
    def has_peer_access(self) -> bool | None:
        """False for GeForce boards without NVLink: the driver forbids access over PCIe. None for others."""
        is_geforce = bool(self.gpus) and all(known(gpu.name) and "GeForce" in gpu.name for gpu in self.gpus)
        return False if is_geforce and self.has_nvlink is False else None

    @property
    def torch(self) -> str | None:
        """Version of torch; None if unknown."""
        if self.torch_version or self.machine is None:
            return self.torch_version
        version = self.machine.training.torch_version
        return version if known(version) else None

    def nccl_is_at_least(self, version: str) -> bool | None:
        """Return whether NCCL has at least this version; None if its version is unknown."""
        return None if self.nccl is None else at_least(self.nccl, version) is True
