"""Check that training loads one NCCL, new enough and with the plugin of this platform.

Source: NCCL release notes; pytorch/pytorch#122571 and NVIDIA/nccl#354 (mixed versions); aws-ofi-nccl
documentation. Versions are data rows.
"""

from __future__ import annotations

from probes.base.record import Reason, Unknown, value_or
from probes.base.versions import at_least, numbers_of
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.environment_values import nccl_version as version_of_nccl
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each, on_gpus, on_nics

VERSION = Judge(
    check_id="nccl-version",
    why="An NCCL from before these GPUs does not start on them, or does not know their links.",
)
DUPLICATES = Judge(
    check_id="nccl-duplicates",
    why="A library on the search path replaces the one that torch was tested with; ranks of several "
    "versions refuse each other.",
)
PLUGIN = Judge(
    check_id="nccl-plugin",
    why="Without it NCCL cannot use these network cards and sends everything over TCP.",
)


@on_gpus(VERSION)
def nccl_version(gpus: tuple[Gpu, ...], evidence: Evidence) -> Findings:
    facts, limits = evidence.facts, evidence.thresholds
    refs = (*facts.training.evidence, *facts.software.evidence)
    version = version_of_nccl(facts)
    if version is None:
        return VERSION.skipped(HOST, "no NCCL was found")
    if isinstance(version, Unknown):
        return VERSION.undetermined(HOST, version, what="the NCCL version", evidence=refs)
    fault = next((row for row in limits.nccl_faults if _is_between(version, row.first, row.last)), None)
    if fault is not None:
        return VERSION.warned(
            HOST,
            f"NCCL {version} is known to fail: {fault.meaning}",
            expected=f"a version after {fault.last}",
            observed=version,
            remedy=Remedy(text="Update NCCL, or torch with it."),
            evidence=(*refs, fault.ref),
        )
    rows = {row.compute_capability: row for row in limits.nccl_architectures}

    def judge(gpu: Gpu) -> Judged:
        """Judge by the minimum for the GPU's architecture."""
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
            remedy=Remedy(text="Update torch, which brings NCCL, or the NCCL of the system."),
            evidence=(*refs, row.ref),
        )

    return judge_each(VERSION, gpus, judge, what="the compute capability", good="NCCL knows these GPUs")


def _is_between(version: str, first: str, last: str) -> bool:
    """Return whether a version is between two others, both included."""
    return numbers_of(first) <= numbers_of(version) <= numbers_of(last)


@on_gpus(DUPLICATES)
def nccl_duplicates(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    software, brought = evidence.facts.software, evidence.facts.training.nccl_version
    libraries = software.nccl_libraries
    if isinstance(libraries, Unknown):
        return DUPLICATES.undetermined(
            HOST, libraries, what="the NCCL libraries on the search path", evidence=software.evidence
        )
    first = [library for library in libraries if library.found_by != "system"]
    if not first:
        return DUPLICATES.passed(
            HOST, "no NCCL on a search path replaces torch's", evidence=software.evidence
        )
    unread = next((library.version for library in first if isinstance(library.version, Unknown)), None)
    if isinstance(brought, Unknown) or unread is not None:
        unknown = brought if isinstance(brought, Unknown) else unread or Unknown(Reason.ERROR)
        return DUPLICATES.undetermined(
            HOST, unknown, what="the version of an NCCL library", evidence=software.evidence
        )
    versions = {str(library.version) for library in first} | ({brought} if brought else set())
    observed = ", ".join(f"{library.path} {library.version} ({library.found_by})" for library in first)
    if len(versions) == 1:
        return DUPLICATES.passed(
            HOST, "all NCCL libraries are of one version", observed=observed, evidence=software.evidence
        )
    return DUPLICATES.warned(
        HOST,
        "several versions of NCCL are on the search path",
        expected=f"NCCL {brought}, which torch brings" if brought else "one version",
        observed=observed,
        remedy=Remedy(
            text="Take the folder out of LD_LIBRARY_PATH, and the library out of LD_PRELOAD, where training "
            "starts."
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
        return PLUGIN.passed(HOST, "NCCL drives these network cards by itself")
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
    "ld.so.conf.d. In a container the image brings it.",
    "gIB": "Mount /usr/local/gib and source its scripts/set_nccl_env.sh where training starts.",
}


def _needed(facts: MachineFacts, nics: tuple[Nic, ...]) -> str | Unknown | None:
    """Return the network that NCCL cannot drive without a plugin."""
    if any(nic.name.startswith("rdmap") or "efa" in value_or(nic.device_type, "").lower() for nic in nics):
        return "EFA"
    if facts.cloud.provider == "gcp":
        return "gIB"
    kinds = [nic.link_layer for nic in nics]
    unread = next((kind for kind in kinds if isinstance(kind, Unknown)), None)
    return unread if unread is not None and len(kinds) == 1 else None
