"""Detect what this process runs in: a container, a virtual machine, both or neither."""

from __future__ import annotations

from probes.base.evidence import environment_ref, file_ref
from probes.base.record import EvidenceRef, Reason, Unknown, map_known, only_known, value_or, when_missing
from probes.collect.collecting import CollectOptions
from probes.facts import Container, State
from probes.parsers.host.procfs import parse_cpuinfo, parse_listening, parse_status
from probes.parsers.kernel.kernel_files import parse_capabilities
from probes.sources.base import Source, read_text

_ENVIRONMENT = (
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_CONTAINER", "apptainer"),
    ("SINGULARITY_CONTAINER", "singularity"),
)
"""Variables that identify a runtime.

Kubernetes sets the first in every pod, for its own API. Public programs detect Apptainer and Singularity by
the others (read 2026-11).
"""
_MARKER_FILES = (("/run/.containerenv", "podman"), ("/.dockerenv", "docker"))
_CGROUP_WORDS = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"))
_CGROUP = "/proc/self/cgroup"
_MOUNTINFO = "/proc/self/mountinfo"
_OSRELEASE = "/proc/sys/kernel/osrelease"
_SYSTEMD = "/run/systemd/container"
_DMI = ("/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name")
_XEN = "/sys/hypervisor/type"
_CPUINFO = "/proc/cpuinfo"
_HYPERVISORS = (
    ("QEMU", "kvm"),
    ("KVM", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Google", "kvm"),
    ("OpenStack", "kvm"),
    ("VMware", "vmware"),
    ("Virtual Machine", "hyper-v"),
    ("VirtualBox", "virtualbox"),
    ("Xen", "xen"),
)
"""Words in the DMI vendor and product names.

Sources: the table of systemd, src/basic/virt.c, detect_vm_dmi_vendor; Google's from cloud-init's tools/ds-
identify; `Virtual Machine` is the product in kernel logs of Hyper-V guests. Read 2026-11.
"""


_STATUS = "/proc/self/status"
_TCP = ("/proc/net/tcp", "/proc/net/tcp6")
_PROXY_PORTS = (("istio", (15001, 15006)), ("linkerd", (4140, 4143)))
"""Ports on which a sidecar takes a pod's outgoing and incoming connections.

Sources: Istio, "Ports used by Istio"; Linkerd, proxy configuration; read 2026-11.
"""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `container`."""
    runtime, runtime_ref = _runtime(source)
    virtualization, virtualization_ref = _virtualization(source)
    status = read_text(source, _STATUS)
    fields = {} if isinstance(status, Unknown) else parse_status(status)
    not_stated = (
        status
        if isinstance(status, Unknown)
        else Unknown(Reason.NOT_SUPPORTED, f"{_STATUS} does not state it")
    )
    return {
        "container": Container(
            runtime=runtime,
            virtualization=virtualization,
            capabilities=parse_capabilities(fields["CapEff"]) if "CapEff" in fields else not_stated,
            seccomp=fields["Seccomp"] != "0" if "Seccomp" in fields else not_stated,
            rdma_devices=_devices(source, "/dev/infiniband"),
            nvidia_devices=_devices(source, "/dev", "nvidia"),
            annotations=_proxies(source)
            if runtime == "kubernetes"
            else runtime
            if isinstance(runtime, Unknown)
            else (),
            evidence=(runtime_ref, virtualization_ref, file_ref(_STATUS)),
        )
    }


def _devices(source: Source, folder: str, prefix: str = "") -> tuple[str, ...] | Unknown:
    """Return the names of device files; none if the folder does not exist."""
    names = when_missing(source.names(folder), ())
    return map_known(names, lambda names: tuple(name for name in names if name.startswith(prefix)))


def _proxies(source: Source) -> tuple[State, ...] | Unknown:
    """Return the sidecars whose ports are listening; they share the network of the pod."""
    texts = [read_text(source, path) for path in _TCP]
    if isinstance(texts[0], Unknown):
        return texts[0]
    ports = {port for text in only_known(texts) for port in parse_listening(text)}
    return tuple(
        State(name=name, value=f"listens on {' and '.join(map(str, wanted))}")
        for name, wanted in _PROXY_PORTS
        if ports.issuperset(wanted)
    )


def _runtime(source: Source) -> tuple[str | Unknown | None, EvidenceRef]:
    for variable, name in _ENVIRONMENT:
        if isinstance(source.env(variable), str):
            return name, environment_ref(variable)
    for path, name in _MARKER_FILES:
        if not isinstance(source.read(path), Unknown):
            return name, file_ref(path)
    if "microsoft" in _text(source, _OSRELEASE).lower():
        return "wsl", file_ref(_OSRELEASE)
    root = next(
        (line for line in _text(source, _MOUNTINFO).splitlines() if line.split(" ")[4:5] == ["/"]), ""
    )
    if "/enroot/" in root or "/pyxis" in root:
        return "enroot", file_ref(_MOUNTINFO)
    runtime = read_text(source, _SYSTEMD)
    if not isinstance(runtime, Unknown) and runtime:
        return runtime, file_ref(_SYSTEMD)
    groups = read_text(source, _CGROUP)
    if isinstance(groups, Unknown):
        return groups, file_ref(_CGROUP)
    return next((name for word, name in _CGROUP_WORDS if word in groups), None), file_ref(_CGROUP)


def _virtualization(source: Source) -> tuple[str | Unknown | None, EvidenceRef]:
    """Return the hypervisor. On x86 the CPU's hypervisor bit decides.

    Elsewhere only DMI names give a hint.
    """
    bit = map_known(map_known(read_text(source, _CPUINFO), parse_cpuinfo), lambda info: info.hypervisor)
    if bit is False:
        return None, file_ref(_CPUINFO)
    xen = read_text(source, _XEN)
    if not isinstance(xen, Unknown) and xen:
        return xen, file_ref(_XEN)
    names = [read_text(source, path) for path in _DMI]
    words = " ".join(name for name in only_known(names))
    hypervisor = next((kind for word, kind in _HYPERVISORS if word in words), None)
    if hypervisor is not None and not words.endswith(".metal"):
        return hypervisor, file_ref(_DMI[0])
    if bit is True:
        return Unknown(Reason.NOT_SUPPORTED, "a virtual machine that does not name its hypervisor"), file_ref(
            _CPUINFO
        )
    return (None, file_ref(_DMI[0])) if words else (bit, file_ref(_CPUINFO))


def _text(source: Source, path: str) -> str:
    return value_or(read_text(source, path), "")
