"""Check that every accelerator of this machine is one that rigtune can judge.

rigtune reads NVIDIA GPUs. AMD, Gaudi and Ascend devices that rigtune recognises are UNKNOWN: such
a machine is not "fit to train", and it is no machine without accelerators.
Source: the PCI ids and device files in `probes/data/accelerators.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import NOT_RECORDED, Reason, Unknown, known
from probes.facts import Accelerator
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="accelerators", why="A fault of a device that nobody has read is found by the training job only."
)


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield one finding for each model."""
    accelerators, gpus = evidence.facts.accelerators, evidence.facts.gpus
    if isinstance(accelerators, Unknown):
        if accelerators.reason is NOT_RECORDED.reason or (known(gpus) and gpus):
            yield JUDGE.skipped(HOST, "no listing of the PCI bus or of device files was read")
        else:
            yield JUDGE.undetermined(HOST, accelerators, what="the PCI bus")
        return
    by_name: dict[str, list[Accelerator]] = {}
    for accelerator in accelerators:
        by_name.setdefault(accelerator.name, []).append(accelerator)
    for name, devices in by_name.items():
        yield _judge(name, devices)
    if not accelerators and known(gpus) and gpus:
        yield JUDGE.passed(HOST, "all accelerators are NVIDIA GPUs", observed=f"{len(gpus)} GPUs")
    elif not accelerators:
        yield JUDGE.skipped(HOST, "there is no accelerator of another maker than NVIDIA")


def _judge(name: str, devices: list[Accelerator]) -> Finding:
    references = tuple(reference for device in devices for reference in device.evidence)
    without_driver = [device.bus_id for device in devices if device.driver is None]
    if without_driver:
        return JUDGE.failed(
            HOST,
            f"{name} without a driver",
            expected="a driver",
            observed=f"{len(without_driver)} of {len(devices)} devices: {', '.join(without_driver)}",
            remedy=Remedy(
                text="Install the maker's driver, or load it when it is installed.", command="lspci -k"
            ),
            evidence=references,
        )
    return JUDGE.undetermined(
        HOST,
        Unknown(Reason.NOT_SUPPORTED, "rigtune reads NVIDIA GPUs only"),
        what=f"the health of {len(devices)} {name}",
        remedy=Remedy(text="Judge these devices with the maker's own tools."),
        evidence=references,
    )
