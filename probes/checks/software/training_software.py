"""Check that torch and NCCL run on these GPUs: versions, architectures, duplicates, plugins.

A torch build that is older than the GPU, or so new that it no longer supports the GPU, can be imported, but
the first kernel fails ("no kernel image is available"). Source: NVIDIA CUDA Compatibility guide; CUDA Toolkit
release notes; NCCL release notes; pytorch/pytorch#122571 and NVIDIA/nccl#354 (mixed versions); aws-ofi-nccl
documentation. The required versions are rows of data files.
"""

import shlex

from probes.base.record import Reason, Unknown, first_unknown, known, value_or
from probes.base.versions import at_least, numbers_of
from probes.catalogue.thresholds import Thresholds
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.environment_values import USERS_SOFTWARE, asks_for_training, judged_nccl_version
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each, on_gpus, on_nics

TORCH = Judge(
    check_id="torch-cuda",
    why="Training starts with `import torch`. If the driver cannot run the torch build, training fails or "
    "runs on the CPU.",
)

_INSTALL = Remedy(
    text="Install torch into the environment that training uses, and name its interpreter with --python.",
    command="python3 -m venv .venv && .venv/bin/pip install torch",
)
ARCHITECTURE = Judge(
    check_id="torch-architecture",
    why='The import of torch works, but the first kernel fails: "no kernel image is available for '
    "execution on the "
    'device".',
)
VERSION = Judge(
    check_id="nccl-version",
    why="A version of NCCL that is older than these GPUs does not start on them, or does not support their "
    "links.",
)
DUPLICATES = Judge(
    check_id="nccl-duplicates",
    why="A library on the search path replaces the library with which torch was tested; ranks with "
    "different NCCL versions cannot connect to each other.",
)
PLUGIN = Judge(
    check_id="nccl-plugin",
    why="Without a network plugin NCCL cannot use these network cards and sends everything over TCP.",
)


def torch_cuda(evidence: Evidence) -> Finding:
    facts, training = evidence.facts, evidence.facts.training
    refs = training.evidence
    torch = training.torch_version
    if not asks_for_training(evidence, TORCH.check_id):
        return TORCH.skipped(HOST, USERS_SOFTWARE, evidence=refs)
    if training.path is None or torch is None:
        return TORCH.warned(
            HOST,
            "no Python interpreter with torch was found",
            expected="an interpreter with torch",
            observed=training.path if isinstance(training.path, str) else "none",
            remedy=_INSTALL,
            evidence=refs,
        )
    if isinstance(torch, Unknown):
        return TORCH.undetermined(HOST, torch, what="the torch version", evidence=refs)
    if isinstance(facts.gpus, Unknown):
        return TORCH.undetermined(HOST, facts.gpus, what="the GPUs", evidence=refs)
    if not facts.gpus:
        return TORCH.passed(HOST, "torch is installed", observed=f"torch {torch}", evidence=refs)
    return _with_gpus(facts, torch, evidence.thresholds)


def _with_gpus(facts: MachineFacts, torch: str, limits: Thresholds) -> Finding:
    cuda, refs = facts.training.torch_cuda_version, facts.training.evidence
    python = shlex.quote(facts.training.path) if isinstance(facts.training.path, str) else "python3"
    if isinstance(cuda, Unknown):
        return TORCH.undetermined(HOST, cuda, what="the CUDA version that torch was built for", evidence=refs)
    if cuda is None:
        return TORCH.failed(
            HOST,
            "torch is built without CUDA",
            expected="a CUDA build",
            observed=f"torch {torch}",
            remedy=Remedy(
                text="Install a CUDA build of torch that the driver supports.",
                command=f"{python} -m pip install --force-reinstall torch",
            ),
            evidence=refs,
        )
    row = limits.cuda_driver(cuda)
    if row is None:
        unknown = Unknown(Reason.NOT_RECORDED, f"rigtune has no data on CUDA {cuda}")
        return TORCH.undetermined(HOST, unknown, what="the driver that this CUDA needs", evidence=refs)
    driver = facts.software.driver_version
    if driver is None:
        driver = Unknown(Reason.TOOL_MISSING, "no driver")
    enough = driver if isinstance(driver, Unknown) else at_least(driver, row.driver)
    if isinstance(enough, Unknown):
        return TORCH.undetermined(HOST, enough, what="the driver version", evidence=refs)
    supported = facts.software.cuda_driver_version
    # With a forward compatibility package, an older driver supports a newer CUDA.
    if enough or (known(supported) and at_least(supported, str(row.cuda_major)) is True):
        return TORCH.passed(
            HOST,
            "the driver supports torch's CUDA version",
            observed=f"torch {torch}, CUDA {cuda}, driver {driver}",
            evidence=(*refs, row.ref),
        )
    for_this_driver = f"CUDA {supported} or older" if known(supported) else "the CUDA that nvidia-smi shows"
    return TORCH.failed(
        HOST,
        f"the driver is too old for torch's CUDA {cuda}",
        expected=f"driver {row.driver} or newer",
        observed=f"driver {driver}",
        remedy=Remedy(
            text=f"Upgrade the driver, or install a torch build for {for_this_driver}.", needs_root=True
        ),
        evidence=(*refs, row.ref),
    )


@on_gpus(ARCHITECTURE)
def torch_architecture(gpus: tuple[Gpu, ...], evidence: Evidence) -> Findings:
    training = evidence.facts.training
    cuda = training.torch_cuda_version
    if not asks_for_training(evidence, ARCHITECTURE.check_id):
        return ARCHITECTURE.skipped(HOST, USERS_SOFTWARE, evidence=training.evidence)
    if isinstance(cuda, Unknown):
        if training.path is None or training.torch_version is None:
            return ARCHITECTURE.skipped(HOST, "there is no torch, see torch-cuda")
        return ARCHITECTURE.undetermined(
            HOST, cuda, what="the CUDA version that torch was built for", evidence=training.evidence
        )
    if cuda is None:
        return ARCHITECTURE.skipped(HOST, "there is no CUDA build of torch, see torch-cuda")
    return judge_each(
        ARCHITECTURE,
        gpus,
        lambda gpu: _judge_architecture(gpu, cuda, evidence.thresholds),
        what="the compute capability",
        good="torch's CUDA version supports these GPUs",
    )


def _judge_architecture(gpu: Gpu, cuda: str, limits: Thresholds) -> Judged:
    capability = gpu.compute_capability
    if isinstance(capability, Unknown):
        return capability
    row = limits.cuda_architecture(capability)
    if row is None:
        return Unknown(Reason.NOT_RECORDED, f"rigtune has no data on compute capability {capability}")
    new_enough = at_least(cuda, row.cuda_first)
    if isinstance(new_enough, Unknown):
        return new_enough
    too_new = row.cuda_last is not None and numbers_of(cuda)[0] > numbers_of(row.cuda_last)[0]
    if new_enough and not too_new:
        return f"CUDA {cuda} for compute capability {capability}"
    span = (
        f"CUDA {row.cuda_first} or newer"
        if row.cuda_last is None
        else f"CUDA {row.cuda_first} to {row.cuda_last}"
    )
    return ARCHITECTURE.failed(
        f"GPU{gpu.index}",
        f"torch's CUDA has no code for compute capability {capability}",
        expected=span,
        observed=f"CUDA {cuda}",
        remedy=Remedy(text=f"Install a torch build for {span}."),
        evidence=(row.ref,),
    )


@on_gpus(VERSION)
def nccl_version(gpus: tuple[Gpu, ...], evidence: Evidence) -> Findings:
    facts, limits = evidence.facts, evidence.thresholds
    refs = (*facts.training.evidence, *facts.software.evidence)
    version = judged_nccl_version(evidence, VERSION.check_id)
    if version is None:
        return VERSION.skipped(HOST, "no NCCL was found")
    if isinstance(version, Unknown):
        return VERSION.undetermined(HOST, version, what="the NCCL version", evidence=refs)
    own = numbers_of(version)
    faults = (row for row in limits.nccl_faults if numbers_of(row.first) <= own <= numbers_of(row.last))
    fault = next(faults, None)
    if fault is not None:
        return VERSION.warned(
            HOST,
            f"NCCL {version} is known to fail: {fault.meaning}",
            expected=f"a version after {fault.last}",
            observed=version,
            remedy=Remedy(text="Update NCCL, or update torch, whose package contains NCCL."),
            evidence=(*refs, fault.ref),
        )
    rows = {row.compute_capability: row for row in limits.nccl_architectures}

    def judge(gpu: Gpu) -> Judged:
        """Compare the NCCL version with the minimum for the GPU's architecture."""
        if isinstance(gpu.compute_capability, Unknown):
            return gpu.compute_capability
        row = rows.get(gpu.compute_capability.partition(".")[0])
        enough = at_least(version, row.nccl if row else "2")
        if isinstance(enough, Unknown):
            return enough
        if row is None or enough:
            return f"NCCL {version}"
        return VERSION.warned(
            f"GPU{gpu.index}",
            "NCCL is older than this GPU",
            expected=f"NCCL {row.nccl} or newer for compute capability {gpu.compute_capability}",
            observed=f"NCCL {version}",
            remedy=Remedy(text="Update torch, whose package contains NCCL, or update the system's NCCL."),
            evidence=(*refs, row.ref),
        )

    return judge_each(VERSION, gpus, judge, what="the compute capability", good="NCCL supports these GPUs")


@on_gpus(DUPLICATES)
def nccl_duplicates(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    software, brought = evidence.facts.software, evidence.facts.training.nccl_version
    if not asks_for_training(evidence, DUPLICATES.check_id):
        brought = None
    libraries = software.nccl_libraries
    if isinstance(libraries, Unknown):
        return DUPLICATES.undetermined(
            HOST, libraries, what="the NCCL libraries on the search path", evidence=software.evidence
        )
    first = [library for library in libraries if library.found_by != "system"]
    if not first:
        return DUPLICATES.passed(
            HOST, "no NCCL on a search path replaces the NCCL of torch", evidence=software.evidence
        )
    unread = first_unknown(brought, *(library.version for library in first))
    if unread is not None:
        return DUPLICATES.undetermined(
            HOST, unread, what="the version of an NCCL library", evidence=software.evidence
        )
    versions = {str(library.version) for library in first} | ({brought} if brought else set())
    observed = ", ".join(f"{library.path} {library.version} ({library.found_by})" for library in first)
    if len(versions) == 1:
        return DUPLICATES.passed(
            HOST, "all NCCL libraries have the same version", observed=observed, evidence=software.evidence
        )
    return DUPLICATES.warned(
        HOST,
        f"the NCCL libraries on the search path{' and of torch' if brought else ''} have different versions",
        expected=f"NCCL {brought}, which torch brings" if brought else "one version",
        observed=observed,
        remedy=Remedy(
            text="Remove the folder from LD_LIBRARY_PATH and the library from LD_PRELOAD in the environment "
            "that starts training."
        ),
        evidence=software.evidence,
    )


@on_nics(PLUGIN)
def nccl_plugin(nics: tuple[Nic, ...], evidence: Evidence) -> Finding:
    facts, plugins = evidence.facts, evidence.facts.software.nccl_plugins
    needed = _needed(facts, nics)
    if isinstance(needed, Unknown):
        return PLUGIN.undetermined(HOST, needed, what="the kind of the network cards")
    if not needed:
        return PLUGIN.passed(HOST, "NCCL supports these network cards without a plugin")
    if isinstance(plugins, Unknown):
        return PLUGIN.undetermined(HOST, plugins, what="NCCL's plugins", evidence=facts.software.evidence)
    if paths := [path for path in plugins if "libnccl-net" in path or "gib" in path]:
        return PLUGIN.passed(
            HOST,
            "NCCL finds a network plugin",
            observed=", ".join(paths[:3]),
            evidence=facts.software.evidence,
        )
    return PLUGIN.warned(
        HOST,
        f"NCCL finds no network plugin, and {needed} needs one",
        expected="libnccl-net*.so on the loader's search path",
        observed=", ".join(plugins[:3]) or "none",
        remedy=Remedy(text=_REMEDIES[needed]),
        evidence=facts.software.evidence,
    )


_REMEDIES = {
    "EFA": "Install aws-ofi-nccl with the EFA installer, and put its folder on LD_LIBRARY_PATH or in "
    "ld.so.conf.d. In a container the image must contain the plugin.",
    "gIB": "Mount /usr/local/gib and source its scripts/set_nccl_env.sh where training starts.",
}


def _needed(facts: MachineFacts, nics: tuple[Nic, ...]) -> str | Unknown | None:
    """Return the network that NCCL cannot use without a plugin; None if NCCL needs no plugin.

    Unknown if there is only one card and its link layer is unknown.
    """
    if any(nic.name.startswith("rdmap") or "efa" in value_or(nic.device_type, "").lower() for nic in nics):
        return "EFA"
    if facts.cloud.provider == "gcp":
        return "gIB"
    return first_unknown(nics[0].link_layer) if len(nics) == 1 else None
