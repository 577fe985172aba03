"""Check that all GPUs of the PCI bus are available.

A GPU on the bus that the driver does not list has failed to start; the job then runs with fewer ranks than
planned, or not at all. The same holds for a GPU that the driver counts and does not describe. Source:
awsome-distributed-training and Primus node checks.
"""

from __future__ import annotations

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

JUDGE = Judge(
    check_id="gpu-count",
    why="A job planned for all GPUs does not start, or runs smaller, when one is missing.",
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    on_bus, attached = evidence.facts.pci_gpus, evidence.facts.attached_gpus
    if isinstance(attached, int) and attached > len(gpus):
        return JUDGE.warned(
            HOST,
            "the driver counts more GPUs than it describes",
            expected=f"{attached} GPUs",
            observed=f"{len(gpus)} GPUs",
            remedy=Remedy(
                text="Truncated output looks like this: capture it again. If it stays so, a GPU is lost.",
                command="nvidia-smi -L",
            ),
        )
    if isinstance(on_bus, Unknown) and isinstance(attached, int):
        return JUDGE.passed(
            HOST, "every GPU that the driver counts is available", observed=f"{len(gpus)} GPUs"
        )
    if isinstance(on_bus, Unknown):
        return JUDGE.undetermined(HOST, on_bus, what="the GPUs on the PCI bus")
    if len(on_bus) <= len(gpus):
        return JUDGE.passed(HOST, "every GPU on the PCI bus is available", observed=f"{len(gpus)} GPUs")
    listed = {gpu.pci_bus_id for gpu in gpus}
    missing = [bus_id for bus_id in on_bus if bus_id not in listed]
    if isinstance(evidence.facts.container.runtime, str) or isinstance(evidence.facts.scheduler.kind, str):
        return JUDGE.warned(
            HOST,
            "this container or job sees fewer GPUs than the machine has",
            expected=f"{len(on_bus)} GPUs",
            observed=f"{len(gpus)} GPUs",
            remedy=Remedy(
                text="If training should use all GPUs, start the container or the job with all of them."
            ),
        )
    return JUDGE.failed(
        HOST,
        "the driver lists fewer GPUs than the PCI bus",
        expected=f"{len(on_bus)} GPUs",
        observed=f"{len(gpus)} GPUs; not listed: {', '.join(missing) or 'unknown'}",
        remedy=Remedy(
            text="Look for Xid 79 in the kernel log and restart the machine; if the GPU is still missing, "
            "its card or slot is faulty.",
            command="dmesg | grep -i xid",
            needs_root=True,
        ),
    )
