"""Check the driver's kernel module, library, device files and flavour (open or proprietary).

Source: NVIDIA driver documentation (library and module must have one version); NVIDIA open GPU kernel modules
(needed from Blackwell on, with dma-buf from Turing on); CUDA release notes (first CUDA of each architecture).
"""

from collections.abc import Iterator

from probes.base.record import NOT_RECORDED, Reason, Unknown, known
from probes.base.units import plural
from probes.base.versions import at_least
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, each_gpu, gpus_of, judge_each, on_gpus, unknown_among

LIBRARY = Judge(
    check_id="driver-library",
    why="A library of another version than the loaded module cannot use it: no new program starts on "
    "any GPU.",
)
NODES = Judge(check_id="device-nodes", why="CUDA opens these files; without them it finds no device.")
FLAVOUR = Judge(
    check_id="driver-flavour",
    why="The open module gives NICs direct access to GPU memory by dma-buf; newer GPUs need this module.",
)
CUDA = Judge(
    check_id="driver-cuda",
    why="Programs with code for this GPU need a driver that supports the CUDA version they were built with.",
)

_RESTART = Remedy(
    text="The driver was upgraded under the running module: restart the machine, or end all GPU programs "
    "and reload the module.",
    command="cat /proc/driver/nvidia/version",
    needs_root=True,
)
_MISMATCH = "version mismatch"
_CONTROL, _MEMORY = "nvidiactl", "nvidia-uvm"


def driver_library(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    module, library = facts.software.driver_version, facts.software.driver_library_version
    refused = isinstance(facts.gpus, Unknown) and _MISMATCH in facts.gpus.detail.lower()
    if refused or (isinstance(library, str) and isinstance(module, str) and library != module):
        words = facts.gpus.detail if isinstance(facts.gpus, Unknown) else ""
        yield _library_failed(HOST, module, f"library {library}" if isinstance(library, str) else words)
        return
    gpus = yield from gpus_of(LIBRARY, evidence)
    yield from judge_each(
        LIBRARY,
        gpus,
        lambda gpu: _library_of(gpu, module, library),
        what="the versions of module and library",
        good="module and library have one version",
    )


def _library_of(gpu: Gpu, module: str | Unknown | None, library: str | Unknown | None) -> Judged:
    if not isinstance(module, str):
        return (
            module
            if isinstance(module, Unknown)
            else Unknown(Reason.NOT_RECORDED, "no version of the kernel module")
        )
    if isinstance(gpu.driver_version, str) and gpu.driver_version != module:
        return _library_failed(f"GPU{gpu.index}", module, f"library {gpu.driver_version}")
    if isinstance(gpu.driver_version, Unknown) and not isinstance(library, str):
        return gpu.driver_version
    return f"version {module}"


def _library_failed(subject: str, module: str | Unknown | None, observed: str) -> Finding:
    return LIBRARY.failed(
        subject,
        "kernel module and driver library have different versions",
        expected=f"module and library {module}" if isinstance(module, str) else "one version",
        observed=observed,
        remedy=_RESTART,
    )


@on_gpus(NODES)
def device_nodes(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    names = evidence.facts.container.nvidia_devices
    if isinstance(names, Unknown):
        return NODES.undetermined(HOST, names, what="the names in /dev")
    missing = [name for name in (_CONTROL, _MEMORY) if name not in names]
    cards = [name for name in names if name.removeprefix("nvidia").isdecimal()]
    if missing or len(cards) < len(gpus):
        return NODES.warned(
            HOST,
            "device files of the GPUs are missing",
            expected=f"{_CONTROL}, {_MEMORY} and {plural(len(gpus), 'GPU')} in /dev",
            observed=f"{plural(len(cards), 'GPU')}" + (f"; missing: {', '.join(missing)}" if missing else ""),
            remedy=Remedy(
                text="Create the files with nvidia-modprobe; in a container, the GPU container runtime "
                "provides them.",
                command="nvidia-modprobe -u -c 0",
                needs_root=True,
            ),
        )
    return NODES.passed(
        HOST, "the GPU device files exist", observed=f"{plural(len(cards), 'GPU')}, {_CONTROL}, {_MEMORY}"
    )


@each_gpu(FLAVOUR, what="the kernel module's flavour", good="the kernel module suits the GPUs")
def driver_flavour(gpu: Gpu, evidence: Evidence) -> Judged:
    is_open, limits = evidence.facts.software.driver_open_module, evidence.thresholds
    architecture = _architecture(gpu, evidence)
    if isinstance(is_open, Unknown) or isinstance(architecture, Unknown):
        return unknown_among(is_open, architecture)
    flavour = "open" if is_open else "proprietary"
    needed = limits.open_module_impossible if is_open else limits.open_module_needed
    wanted = "proprietary" if is_open else "open"
    if architecture in needed.value:
        return FLAVOUR.failed(
            f"GPU{gpu.index}",
            f"a {architecture} GPU needs the {wanted} kernel module",
            expected=wanted,
            observed=flavour,
            remedy=_switch(wanted),
        )
    if architecture in limits.open_module_better.value and not is_open:
        return FLAVOUR.warned(
            f"GPU{gpu.index}",
            "the proprietary kernel module has no dma-buf",
            expected="open",
            observed=flavour,
            remedy=_switch("open"),
        )
    return flavour


def _switch(wanted: str) -> Remedy:
    return Remedy(
        text=f"Install the {wanted} flavour of the same driver version and restart.",
        command="nvidia-smi -q",
        needs_root=True,
    )


@each_gpu(CUDA, what="the driver's CUDA version", good="the driver is new enough for these GPUs")
def driver_cuda(gpu: Gpu, evidence: Evidence) -> Judged:
    newest = evidence.facts.software.cuda_driver_version
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    capability = (
        row.compute_capability
        if row and isinstance(gpu.compute_capability, Unknown)
        else gpu.compute_capability
    )
    if isinstance(capability, Unknown) or isinstance(newest, Unknown):
        return unknown_among(capability, newest)
    needed = evidence.thresholds.cuda_architecture(capability)
    if needed is None:
        return Unknown(Reason.NOT_RECORDED, f"no row for compute capability {capability}")
    enough = at_least(newest, needed.cuda_first)
    if isinstance(enough, Unknown):
        return enough
    if enough:
        return f"CUDA {newest}"
    return CUDA.warned(
        f"GPU{gpu.index}",
        "the driver is older than the first CUDA with code for this GPU",
        expected=f"CUDA {needed.cuda_first} or newer",
        observed=f"CUDA {newest}",
        remedy=Remedy(text="Install a newer driver branch.", command="nvidia-smi", needs_root=True),
        evidence=(needed.ref,),
    )


def _architecture(gpu: Gpu, evidence: Evidence) -> str | Unknown:
    if isinstance(gpu.name, Unknown):
        return gpu.name
    row = evidence.catalogue.checked_gpu(gpu.name)
    if row is not None:
        return row.architecture
    return Unknown(NOT_RECORDED.reason, f"the catalogue has no checked figures of {gpu.name}")
