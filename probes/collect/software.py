"""Collect versions of installed software."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from probes.base.record import (
    DEEP_ONLY,
    EvidenceRef,
    Reason,
    Unknown,
    command_ref,
    file_ref,
    first_unknown,
    items_of,
    known,
    map_known,
    nvml_ref,
    only_known,
    when_missing,
)
from probes.collect.collecting import CollectOptions
from probes.facts import Software
from probes.parsers.host.package_lists import parse_mentioned
from probes.parsers.host.version_outputs import (
    DriverModule,
    cuda_version,
    mpi_version,
    nccl_library_version,
    nvcc_version,
    os_name,
    parse_driver_module,
    slurm_version,
    toolkit_version,
)
from probes.parsers.tools.nccl_conf import parse_network
from probes.reading.installed_software import LIBRARY_FOLDERS, installed
from probes.reading.merging import fill_unknown
from probes.reading.nvidia import SMI_QUERY, SMI_TIMEOUT_S
from probes.reading.texts import outputs
from probes.sources.base import NvmlValue, Source, read_text

T = TypeVar("T")

_OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")
_KERNEL = "/proc/sys/kernel/osrelease"
_DRIVER = "/proc/driver/nvidia/version"
_SLURM_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
_FABRIC_UNITS = (
    "/lib/systemd/system/nvidia-fabricmanager.service",
    "/usr/lib/systemd/system/nvidia-fabricmanager.service",
    "/etc/systemd/system/nvidia-fabricmanager.service",
)
_PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem")
"""The driver's present module, and Mellanox's module before 2021."""
_MODULES = "/sys/module"
_NVCC = ("nvcc", "--version")
_MPIRUN = ("mpirun", "--version")
_SLURMD = ("slurmd", "-V")
_SINFO = ("sinfo", "--version")
_IS_ACTIVE = ("systemctl", "is-active", "nvidia-fabricmanager")


_MENTIONING = ("nvidia-smi-text", "nvidia-smi-table", "nvidia-smi-error", "kernel-log")
"""Kinds of text that also mention versions of software."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `software`."""
    module, module_ref = _driver_module(source)
    evidence: list[EvidenceRef] = []
    software = Software(
        operating_system=_operating_system(source, evidence),
        kernel=_cited(read_text(source, _KERNEL), file_ref(_KERNEL), evidence),
        driver_version=_driver_version(source, module, module_ref, evidence),
        driver_open_module=map_known(module, lambda module: module.is_open),
        cuda_driver_version=_cuda_driver_version(source, evidence),
        cuda_toolkit_version=_cuda_toolkit_version(
            source, evidence, may_start=options.deep or options.toolkit
        ),
        nccl_version=_nccl_version(source, evidence),
        mpi_version=_by_command(source, _MPIRUN, mpi_version, evidence) if options.deep else DEEP_ONLY,
        slurm_version=_slurm_version(source, evidence) if options.deep else DEEP_ONLY,
        fabric_manager=_fabric_manager(source, evidence),
        peermem_loaded=_peermem_loaded(source, evidence),
        **installed(source, evidence, deep=options.deep),  # type: ignore[arg-type]
    )
    software = software if source.is_live else _with_texts(source, software, evidence)
    return {"software": msgspec.structs.replace(software, evidence=tuple(dict.fromkeys(evidence)))}


def _with_texts(source: Source, software: Software, evidence: list[EvidenceRef]) -> Software:
    """Return the software with versions and modules that only pasted texts mention."""
    for kind in _MENTIONING:
        for output in items_of(outputs(source, kind)):
            mentioned = parse_mentioned(output.text)
            values = {
                "driver_version": mentioned.driver,
                "driver_open_module": mentioned.driver_open,
                "cuda_driver_version": mentioned.cuda,
                "driver_library_version": mentioned.library,
                "kernel": mentioned.kernel,
            }
            filled = fill_unknown(software, values)
            evidence += [] if filled is software else [output.evidence]
            software = filled
    for output in items_of(outputs(source, "nccl-log")):
        network = parse_network(output.text)
        if network is not None:
            software = msgspec.structs.replace(software, nccl_network=network)
            evidence.append(output.evidence)
    if known(software.modules) and not known(software.peermem_loaded):
        loaded = any(name in software.modules for name in _PEERMEM_MODULES)
        if loaded or _is_whole_list(source):
            software = msgspec.structs.replace(software, peermem_loaded=loaded)
    return software


def _is_whole_list(source: Source) -> bool:
    """Return False if only a part of the list of loaded modules is known."""
    from probes.parsers.host.package_lists import is_whole  # noqa: PLC0415 - sysfs tells on a live machine

    pasted = outputs(source, "lsmod")
    return isinstance(pasted, Unknown) or any(is_whole(output.text) for output in pasted)


def _cited(value: T, ref: EvidenceRef, evidence: list[EvidenceRef]) -> T:
    """Return `value`, and note its origin if it is known."""
    if not isinstance(value, Unknown):
        evidence.append(ref)
    return value


def _operating_system(source: Source, evidence: list[EvidenceRef]) -> str | Unknown:
    texts = {path: read_text(source, path) for path in _OS_RELEASE}
    for path, text in texts.items():
        if not isinstance(text, Unknown):
            return _cited(os_name(text), file_ref(path), evidence)
    return texts[_OS_RELEASE[-1]]


def _driver_module(source: Source) -> tuple[DriverModule | Unknown, EvidenceRef]:
    """Return the loaded kernel module, or else the module in a text of the input, and the origin."""
    text = read_text(source, _DRIVER)
    if isinstance(text, Unknown):
        for output in items_of(outputs(source, "driver-version")):
            return parse_driver_module(output.text), output.evidence
    return map_known(text, parse_driver_module), file_ref(_DRIVER)


def _driver_version(
    source: Source, module: DriverModule | Unknown, module_ref: EvidenceRef, evidence: list[EvidenceRef]
) -> str | Unknown | None:
    """Return the version from the kernel module, else NVML (WSL has no /proc/driver), else nvidia-smi."""
    if not isinstance(module, Unknown):
        return _cited(module.version, module_ref, evidence)
    by_nvml = source.nvml("nvmlSystemGetDriverVersion")
    if isinstance(by_nvml, str):
        return _cited(by_nvml, nvml_ref("nvmlSystemGetDriverVersion"), evidence)
    by_smi, _ = _smi_versions(source, by_nvml)
    if not isinstance(by_smi, Unknown):
        return _cited(by_smi, command_ref(SMI_QUERY), evidence)
    return first_unknown(*(when_missing(answer, None) for answer in (module, by_nvml, by_smi)))


def _cuda_driver_version(source: Source, evidence: list[EvidenceRef]) -> str | Unknown:
    number = source.nvml("nvmlSystemGetCudaDriverVersion")
    if isinstance(number, int) and not isinstance(number, bool):
        return _cited(cuda_version(number), nvml_ref("nvmlSystemGetCudaDriverVersion"), evidence)
    _, by_smi = _smi_versions(source, number)
    if not isinstance(by_smi, Unknown):
        return _cited(by_smi, command_ref(SMI_QUERY), evidence)
    return number if isinstance(number, Unknown) and number.reason is not Reason.NOT_RECORDED else by_smi


def _smi_versions(source: Source, by_nvml: NvmlValue | Unknown) -> tuple[str | Unknown, str | Unknown]:
    """Return driver and CUDA version from `nvidia-smi -q -x`; if NVML hangs, nvidia-smi is not started."""
    if source.is_live and isinstance(by_nvml, Unknown) and by_nvml.reason is Reason.TIMEOUT:
        return by_nvml, by_nvml
    text = source.run(SMI_QUERY, timeout_s=SMI_TIMEOUT_S).text()
    if isinstance(text, Unknown):
        return text, text
    # The XML parser takes longer to load than all other modules.
    from probes.parsers.nvidia_smi.nvsmi_xml import parse_smi_xml  # noqa: PLC0415

    log = parse_smi_xml(text)
    return (log, log) if isinstance(log, Unknown) else (log.driver_version, log.cuda_version)


def _cuda_toolkit_version(
    source: Source, evidence: list[EvidenceRef], *, may_start: bool
) -> str | Unknown | None:
    """Return the version in $CUDA_HOME, in /usr/local/cuda, or of the nvcc on the PATH."""
    home = source.env("CUDA_HOME")
    folders = [home] if isinstance(home, str) and home.startswith("/") else []
    for folder in (*folders, "/usr/local/cuda"):
        path = f"{folder}/version.json"
        text = read_text(source, path)
        if not isinstance(text, Unknown):
            return _cited(toolkit_version(text), file_ref(path), evidence)
    return _by_command(source, _NVCC, nvcc_version, evidence) if may_start else DEEP_ONLY


def _nccl_version(source: Source, evidence: list[EvidenceRef]) -> str | Unknown | None:
    unknown: Unknown | None = None
    for folder in LIBRARY_FOLDERS:
        path = f"{folder}/libnccl.so.2"
        target = source.link(path)
        if not isinstance(target, Unknown):
            return _cited(nccl_library_version(target), file_ref(path), evidence)
        unknown = when_missing(target, unknown)
    return unknown


def _by_command(
    source: Source, argv: tuple[str, ...], read: Callable[[str], str | Unknown], evidence: list[EvidenceRef]
) -> str | Unknown | None:
    """Return the version that `--version` prints; None if the command is not installed."""
    version = map_known(source.run(argv).text(), read)
    return when_missing(_cited(version, command_ref(argv), evidence), None)


def _slurm_version(source: Source, evidence: list[EvidenceRef]) -> str | Unknown | None:
    """Return the version of the node's daemon, or of the client if a configuration file exists here.

    If no configuration file exists, the client would search for the controller over the network.
    """
    version = _by_command(source, _SLURMD, slurm_version, evidence)
    if version is not None:
        return version
    named = source.env("SLURM_CONF")
    paths = (named, *_SLURM_CONFIGURATIONS) if isinstance(named, str) and named else _SLURM_CONFIGURATIONS
    if not only_known(source.link(path) for path in paths):
        return None
    return _by_command(source, _SINFO, slurm_version, evidence)


def _fabric_manager(source: Source, evidence: list[EvidenceRef]) -> str | Unknown | None:
    """Return the state of the service; None if no unit file is installed.

    is-active prints the state with any exit code.
    """
    links = [source.link(path) for path in _FABRIC_UNITS]
    if not only_known(links):
        return first_unknown(*(when_missing(link, None) for link in links))
    result = source.run(_IS_ACTIVE)
    if result.failure is not None:
        return result.failure
    state = result.stdout.decode("utf-8", "replace").strip()
    if not state.isalpha():
        message = result.stderr.decode("utf-8", "replace").strip()[:120]
        return Unknown(Reason.ERROR, message or "systemctl printed nothing")
    return _cited(state, command_ref(_IS_ACTIVE), evidence)


def _peermem_loaded(source: Source, evidence: list[EvidenceRef]) -> bool | Unknown:
    answers = [source.names(f"{_MODULES}/{module}") for module in _PEERMEM_MODULES]
    loaded = bool(only_known(answers))
    unknown = first_unknown(*(when_missing(answer, None) for answer in answers))
    return (
        unknown
        if unknown is not None and not loaded
        else _cited(loaded, file_ref(f"{_MODULES}/{_PEERMEM_MODULES[0]}"), evidence)
    )
