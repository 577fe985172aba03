"""Check that the NVIDIA driver reports the GPUs that are installed.

A GPU on the PCI bus without a driver and a driver that does not answer both end in a CUDA error at start.
Source: NVIDIA driver documentation; the exit codes of nvidia-smi.
"""

from __future__ import annotations

from probes.base.record import Reason, Unknown, known
from probes.facts import Gpu, MachineFacts
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, NO_GPU, Judged, has_no_gpu, judge_each

JUDGE = Judge(
    check_id="gpu-driver", why="Without a driver that answers, no CUDA program starts on these GPUs."
)

BROKEN = (Reason.ERROR, Reason.TIMEOUT)
"""Reasons that mean "asked, and it did not answer", as opposed to "nobody could ask"."""

_SMI = "nvidia-smi: "
"""Begins the words of nvidia-smi itself, which no machine without a driver has."""

INSTALL = Remedy(
    text="Install the NVIDIA driver of this distribution, or load it when it is installed.",
    command="modprobe nvidia && nvidia-smi",
    needs_root=True,
)
LIBRARY = Remedy(
    text="Install the driver's tools and libraries (nvidia-smi, libnvidia-ml), or start the container with "
    "the NVIDIA runtime.",
    command="rigtune advise install",
)
REBOOT = Remedy(
    text="Look for Xid lines in the kernel log, then restart the machine.",
    command="dmesg | grep -i xid",
    needs_root=True,
)


def check(evidence: Evidence) -> Findings:
    facts = evidence.facts
    gpus, on_bus, driver = facts.gpus, facts.pci_gpus, facts.software.driver_version
    if isinstance(gpus, Unknown):
        return _no_answer(facts, gpus)
    if not gpus and known(on_bus) and on_bus:
        return JUDGE.failed(
            HOST,
            "the PCI bus shows GPUs, and the driver shows none",
            expected=f"{len(on_bus)} GPUs",
            observed="no driver" if driver is None else "0 GPUs",
            remedy=INSTALL if driver is None else REBOOT,
        )
    if not gpus:
        return JUDGE.skipped(HOST, NO_GPU)
    if silent := _all_silent(gpus):
        return JUDGE.failed(
            HOST, "no GPU answers the driver", expected="an answer", observed=silent.words, remedy=REBOOT
        )
    if isinstance(driver, Unknown) and all(isinstance(gpu.driver_version, Unknown) for gpu in gpus):
        return JUDGE.undetermined(HOST, driver, what="the driver version")
    return judge_each(
        JUDGE, gpus, lambda gpu: _judge(gpu, driver), what="the GPU", good="the driver answers for every GPU"
    )


def _all_silent(gpus: tuple[Gpu, ...]) -> Unknown | None:
    """Return the first GPU's error if no GPU has a name or a memory size because of an error."""
    words = [value for gpu in gpus for value in (gpu.name, gpu.memory_bytes) if isinstance(value, Unknown)]
    is_silent = len(words) == 2 * len(gpus) and all(value.reason in BROKEN for value in words)
    return words[0] if is_silent else None


def _no_answer(facts: MachineFacts, unknown: Unknown) -> Finding:
    on_bus, driver = facts.pci_gpus, facts.software.driver_version
    if driver is None and known(on_bus) and on_bus:
        return JUDGE.failed(
            HOST,
            "GPUs without a driver",
            expected="a driver",
            observed=f"{len(on_bus)} GPUs on the PCI bus",
            remedy=INSTALL,
        )
    if has_no_gpu(facts):
        return JUDGE.skipped(HOST, NO_GPU)
    if unknown.reason in BROKEN and (isinstance(driver, str) or unknown.detail.startswith(_SMI)):
        return JUDGE.failed(
            HOST,
            "the driver is loaded and does not answer",
            expected="an answer",
            observed=unknown.words,
            remedy=REBOOT,
        )
    return JUDGE.undetermined(
        HOST, unknown, what="the GPUs", remedy=LIBRARY if known(driver) and driver is not None else None
    )


def _judge(gpu: Gpu, driver: str | Unknown | None) -> Judged:
    """Judge one GPU.

    `gpu-lost` reports lost GPUs, and `driver-library` versions that differ.
    """
    version = driver if isinstance(driver, str) else gpu.driver_version
    return version if isinstance(version, Unknown) else f"driver {version}"
