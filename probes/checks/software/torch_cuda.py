"""Check that the interpreter has a torch whose CUDA this driver runs.

Source: NVIDIA CUDA Compatibility guide; the drivers are data rows.
"""

from __future__ import annotations

import shlex

from probes.base.record import Reason, Unknown, known
from probes.base.versions import at_least
from probes.catalogue.thresholds import Thresholds
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="torch-cuda",
    why="Training starts with `import torch`; without a build that this driver runs it fails, or runs on "
    "the CPU.",
)

INSTALL = Remedy(
    text="Install torch into the environment that training uses, and name its interpreter with --python.",
    command="python3 -m venv .venv && .venv/bin/pip install torch",
)


def check(evidence: Evidence) -> Finding:
    facts, training = evidence.facts, evidence.facts.training
    refs = training.evidence
    torch = training.torch_version
    if training.path is None or torch is None:
        return JUDGE.warned(
            HOST,
            "no Python interpreter with torch was found",
            expected="an interpreter with torch",
            observed=training.path if isinstance(training.path, str) else "none",
            remedy=INSTALL,
            evidence=refs,
        )
    if isinstance(torch, Unknown):
        return JUDGE.undetermined(HOST, torch, what="the torch version", evidence=refs)
    if isinstance(facts.gpus, Unknown):
        return JUDGE.undetermined(HOST, facts.gpus, what="the GPUs", evidence=refs)
    if not facts.gpus:
        return JUDGE.passed(HOST, "torch is installed", observed=f"torch {torch}", evidence=refs)
    return _with_gpus(facts, torch, evidence.thresholds)


def _with_gpus(facts: MachineFacts, torch: str, limits: Thresholds) -> Finding:
    cuda, driver, refs = (
        facts.training.torch_cuda_version,
        facts.software.driver_version,
        facts.training.evidence,
    )
    python = shlex.quote(facts.training.path) if isinstance(facts.training.path, str) else "python3"
    if isinstance(cuda, Unknown):
        return JUDGE.undetermined(HOST, cuda, what="the CUDA version that torch was built for", evidence=refs)
    if cuda is None:
        return JUDGE.failed(
            HOST,
            "torch is built without CUDA",
            expected="a CUDA build",
            observed=f"torch {torch}",
            remedy=Remedy(
                text="Install a CUDA build of torch that suits the driver.",
                command=f"{python} -m pip install --force-reinstall torch",
            ),
            evidence=refs,
        )
    row = limits.cuda_driver(cuda)
    if row is None:
        unknown = Unknown(Reason.NOT_RECORDED, f"no row for CUDA {cuda}")
        return JUDGE.undetermined(HOST, unknown, what="the driver that this CUDA needs", evidence=refs)
    if not known(driver) or driver is None:
        unknown = driver if isinstance(driver, Unknown) else Unknown(Reason.TOOL_MISSING, "no driver")
        return JUDGE.undetermined(HOST, unknown, what="the driver version", evidence=refs)
    enough = at_least(driver, row.driver)
    if isinstance(enough, Unknown):
        return JUDGE.undetermined(HOST, enough, what="the driver version", evidence=refs)
    supported = facts.software.cuda_driver_version
    # With a forward compatibility package an older driver supports a newer CUDA.
    if enough or (known(supported) and at_least(supported, str(row.cuda_major)) is True):
        return JUDGE.passed(
            HOST,
            "the driver runs torch's CUDA",
            observed=f"torch {torch}, CUDA {cuda}, driver {driver}",
            evidence=(*refs, row.ref),
        )
    for_this_driver = f"CUDA {supported} or older" if known(supported) else "the CUDA that nvidia-smi shows"
    return JUDGE.failed(
        HOST,
        f"the driver is too old for torch's CUDA {cuda}",
        expected=f"driver {row.driver} or newer",
        observed=f"driver {driver}",
        remedy=Remedy(
            text=f"Upgrade the driver, or install a torch build for {for_this_driver}.", needs_root=True
        ),
        evidence=(*refs, row.ref),
    )
