"""Detect the surroundings of this process: a container, a virtual machine, a cloud, a batch job."""

from probes.base.record import (
    DEEP_ONLY,
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    environment_ref,
    file_ref,
    first_unknown,
    map_known,
    only_known,
    value_or,
    when_missing,
)
from probes.collect.collecting import CollectOptions
from probes.facts import Cloud, Container, Scheduler, State, states
from probes.parsers.host.procfs import parse_cpuinfo, parse_listening, parse_status
from probes.parsers.host.version_outputs import slurm_version
from probes.parsers.kernel.kernel_files import parse_capabilities
from probes.sources.base import Source, read_text

_ENVIRONMENT = (
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_CONTAINER", "apptainer"),
    ("SINGULARITY_CONTAINER", "singularity"),
)
"""Variables that identify a runtime.

Kubernetes sets the first variable in every pod, for its own API. Public programs detect Apptainer and
Singularity by the other variables (read 2026-11).
"""
_MARKER_FILES = (("/run/.containerenv", "podman"), ("/.dockerenv", "docker"))
_CGROUP_WORDS = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"))
_CGROUP = "/proc/self/cgroup"
_MOUNTINFO = "/proc/self/mountinfo"
_OSRELEASE = "/proc/sys/kernel/osrelease"
_SYSTEMD = "/run/systemd/container"
_STATUS = "/proc/self/status"
_XEN = "/sys/hypervisor/type"
_CPUINFO = "/proc/cpuinfo"
_HOSTNAME = "/proc/sys/kernel/hostname"
_DMI = "/sys/class/dmi/id"
_PRODUCT_NAME = f"{_DMI}/product_name"
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
_TCP = ("/proc/net/tcp", "/proc/net/tcp6")
_PROXY_PORTS = (("istio", (15001, 15006)), ("linkerd", (4140, 4143)))
"""Ports on which a sidecar intercepts a pod's outgoing and incoming connections.

Sources: Istio, "Ports used by Istio"; Linkerd, proxy configuration; read 2026-11.
"""


class _CloudMark(Record, kw_only=True):
    """A DMI value that identifies a provider."""

    field: str
    text: str
    """Prefix of the value."""
    provider: str
    names_machine_type: bool = False
    """True if `product_name` is the machine type."""


_CLOUD_MARKS = (
    _CloudMark(field="sys_vendor", text="Amazon EC2", provider="aws", names_machine_type=True),
    _CloudMark(field="product_name", text="Google Compute Engine", provider="gcp"),
    _CloudMark(field="chassis_asset_tag", text="7783-7084-3265-9085-8269-3286-77", provider="azure"),
    _CloudMark(field="chassis_asset_tag", text="OracleCloud.com", provider="oci"),
    _CloudMark(field="product_name", text="Alibaba Cloud ECS", provider="alibaba"),
    _CloudMark(field="chassis_vendor", text="IBM:Cloud Compute Server", provider="ibm"),
    _CloudMark(field="sys_vendor", text="DigitalOcean", provider="digitalocean"),
    _CloudMark(field="sys_vendor", text="Hetzner", provider="hetzner"),
    _CloudMark(field="sys_vendor", text="Scaleway", provider="scaleway", names_machine_type=True),
    _CloudMark(field="sys_vendor", text="Vultr", provider="vultr"),
    _CloudMark(field="sys_vendor", text="UpCloud", provider="upcloud"),
    _CloudMark(field="product_name", text="OpenStack", provider="openstack"),
)
"""Sources: cloud-init 0066a6b, tools/ds-identify; for Amazon, systemd's src/basic/virt.c; for IBM, the code
of public node agents. Read 2026-11.
"""
PLATFORM_FILES = (
    "/opt/amazon/ofi-nccl",
    "/opt/aws-ofi-nccl",
    "/usr/local/gib",
    "/var/lib/tcpxo",
    "/var/lib/tcpx",
    "/run/tcpx",
    "/opt/microsoft/ndv2-topo.xml",
    "/opt/microsoft/ndv4/topo.xml",
    "/opt/microsoft/ndv5/topo.xml",
    "/opt/microsoft/ncv4/topo.xml",
    "/opt/microsoft/ncv4/graph.xml",
)
"""Files and folders of NCCL plugins and topologies that images of clouds contain.

Sources: aws/aws-ofi-nccl 2daf7d30; GoogleCloudPlatform/cluster-toolkit 10470803; Azure/azhpc-images 8e9d055f;
read 2026-06.
"""
_NO_MACHINE_TYPE = Unknown(
    Reason.NOT_SUPPORTED, "only the provider's metadata service reports the machine type"
)


class _BatchSystem(Record, kw_only=True):
    kind: str
    job_id: str
    """Variable with the id of the job."""
    node_counts: tuple[str, ...] = ()
    """Variables that may contain the number of nodes, the most reliable first."""


_BATCH_SYSTEMS = (
    _BatchSystem(kind="slurm", job_id="SLURM_JOB_ID", node_counts=("SLURM_JOB_NUM_NODES", "SLURM_NNODES")),
    _BatchSystem(kind="pbs", job_id="PBS_JOBID", node_counts=("PBS_NUM_NODES",)),
    _BatchSystem(kind="lsf", job_id="LSB_JOBID"),
    _BatchSystem(kind="flux", job_id="FLUX_JOB_ID", node_counts=("FLUX_JOB_NNODES",)),
)
"""Variables of each batch system.

Sources: Slurm 22.05, sbatch(1); IBM's LSF reference, environment variables set for job execution; flux-core,
src/shell/task.c; the variables of PBS as in job scripts for Torque. Read 2026-11.
"""
_SLURM_FOLDERS = ("/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf")
_SLURM_SETTINGS = (
    "ProctrackType", "TaskPlugin", "PropagateResourceLimits", "PropagateResourceLimitsExcept",
    "SelectType", "SelectTypeParameters", "GresTypes", "HealthCheckProgram", "PrologFlags",
    "LaunchParameters", "TopologyPlugin",
)  # fmt: skip
_CGROUP_SETTINGS = ("ConstrainDevices", "ConstrainCores", "ConstrainRAMSpace", "CgroupPlugin")
_SLURMD = ("slurmd", "-V")
"""The node's daemon, which prints its version without a network request."""


def collect_container(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `container`."""
    runtime, runtime_ref = _runtime(source)
    virtualization, virtualization_ref = _virtualization(source)
    status = map_known(read_text(source, _STATUS), parse_status)
    fields = value_or(status, {})
    absent = (
        status
        if isinstance(status, Unknown)
        else Unknown(Reason.NOT_SUPPORTED, f"{_STATUS} does not state it")
    )
    return {
        "container": Container(
            runtime=runtime,
            virtualization=virtualization,
            capabilities=parse_capabilities(fields["CapEff"]) if "CapEff" in fields else absent,
            seccomp=fields["Seccomp"] != "0" if "Seccomp" in fields else absent,
            rdma_devices=_devices(source, "/dev/infiniband"),
            nvidia_devices=_devices(source, "/dev", "nvidia"),
            annotations=map_known(
                runtime, lambda runtime: _proxies(source) if runtime == "kubernetes" else ()
            ),
            evidence=(runtime_ref, virtualization_ref, file_ref(_STATUS)),
        )
    }


def _devices(source: Source, folder: str, prefix: str = "") -> tuple[str, ...] | Unknown:
    """Return the names of device files; empty if the folder does not exist."""
    names = when_missing(source.names(folder), ())
    return map_known(names, lambda names: tuple(name for name in names if name.startswith(prefix)))


def _proxies(source: Source) -> tuple[State, ...] | Unknown:
    """Return the sidecars all of whose ports are in use; a sidecar shares the pod's network."""
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
    if "microsoft" in value_or(read_text(source, _OSRELEASE), "").lower():
        return "wsl", file_ref(_OSRELEASE)
    mounts = value_or(read_text(source, _MOUNTINFO), "").splitlines()
    root = next((line for line in mounts if line.split(" ")[4:5] == ["/"]), "")
    if "/enroot/" in root or "/pyxis" in root:
        return "enroot", file_ref(_MOUNTINFO)
    runtime = value_or(read_text(source, _SYSTEMD), "")
    if runtime:
        return runtime, file_ref(_SYSTEMD)
    return map_known(read_text(source, _CGROUP), _runtime_of_cgroup), file_ref(_CGROUP)


def _runtime_of_cgroup(groups: str) -> str | None:
    return next((name for word, name in _CGROUP_WORDS if word in groups), None)


def _virtualization(source: Source) -> tuple[str | Unknown | None, EvidenceRef]:
    """Return the hypervisor according to Xen's file or the DMI names; None on a physical machine.

    On x86, the hypervisor bit of the CPU decides whether the machine is physical.
    """
    bit = map_known(map_known(read_text(source, _CPUINFO), parse_cpuinfo), lambda info: info.hypervisor)
    if bit is False:
        return None, file_ref(_CPUINFO)
    xen = value_or(read_text(source, _XEN), "")
    if xen:
        return xen, file_ref(_XEN)
    vendor = f"{_DMI}/sys_vendor"
    words = " ".join(only_known(read_text(source, path) for path in (vendor, _PRODUCT_NAME)))
    hypervisor = next((kind for word, kind in _HYPERVISORS if word in words), None)
    if hypervisor is not None and not words.endswith(".metal"):
        return hypervisor, file_ref(vendor)
    if bit is True:
        unnamed = Unknown(Reason.NOT_SUPPORTED, "a virtual machine that does not name its hypervisor")
        return unnamed, file_ref(_CPUINFO)
    return (None, file_ref(vendor)) if words else (bit, file_ref(_CPUINFO))


def collect_cloud(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `cloud` from the DMI table and the files of the cloud's image.

    Rigtune does not query metadata services over the network.
    """
    files = _platform_files(source)
    values = {mark.field: read_text(source, f"{_DMI}/{mark.field}") for mark in _CLOUD_MARKS}
    texts = {name: value for name, value in values.items() if not isinstance(value, Unknown)}
    evidence = tuple(file_ref(f"{_DMI}/{name}") for name in texts)
    for mark in _CLOUD_MARKS:
        if texts.get(mark.field, "").startswith(mark.text):
            machine_type = read_text(source, _PRODUCT_NAME) if mark.names_machine_type else _NO_MACHINE_TYPE
            cloud = Cloud(provider=mark.provider, machine_type=machine_type, files=files, evidence=evidence)
            return {"cloud": cloud}
    # If the vendor is known but is not a provider, there is no provider. If the vendor is unknown, the
    # provider is unknown.
    provider = map_known(values["sys_vendor"], lambda _: None)
    return {"cloud": Cloud(provider=provider, machine_type=provider, files=files, evidence=evidence)}


def _platform_files(source: Source) -> tuple[str, ...] | Unknown:
    """Return the paths of `PLATFORM_FILES` that exist."""
    answers = {path: when_missing(source.link(path), None) for path in PLATFORM_FILES}
    existing = tuple(path for path, answer in answers.items() if isinstance(answer, str))
    unknown = first_unknown(*answers.values())
    return existing if existing or unknown is None else unknown


class _Slurm(Record, kw_only=True):
    """The files of Slurm on this machine."""

    settings: tuple[State, ...] | Unknown
    gpus: int | Unknown | None
    exists: bool
    evidence: tuple[EvidenceRef, ...] = ()


def collect_scheduler(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `scheduler`: the batch job from the environment, the batch system from its files."""
    kind, job_id, count, evidence = _job(source)
    slurm = _slurm(source)
    version: str | Unknown | None = None
    if slurm.exists:
        version = map_known(source.run(_SLURMD).text(), slurm_version) if options.deep else DEEP_ONLY
    return {
        "scheduler": Scheduler(
            kind=kind,
            job_id=job_id,
            node_count=count,
            version=version,
            settings=slurm.settings,
            gpus_of_node=slurm.gpus,
            evidence=(*evidence, *slurm.evidence),
        )
    }


def _job(
    source: Source,
) -> tuple[str | Unknown | None, str | Unknown | None, int | Unknown | None, tuple[EvidenceRef, ...]]:
    """Return kind, id and number of nodes of the job, with evidence."""
    ids = [(row, source.env(row.job_id)) for row in _BATCH_SYSTEMS]
    for row, job_id in ids:
        if isinstance(job_id, str):
            count, evidence = _node_count(source, row)
            return row.kind, job_id, count, (environment_ref(row.job_id), *evidence)
    unknown = first_unknown(*(job_id for _, job_id in ids))
    refs = () if unknown else tuple(environment_ref(row.job_id) for row in _BATCH_SYSTEMS)
    return unknown, unknown, unknown, refs


def _node_count(source: Source, row: _BatchSystem) -> tuple[int | Unknown, tuple[EvidenceRef, ...]]:
    for name in row.node_counts:
        value = source.env(name)
        if isinstance(value, str) and value.isdecimal():
            return int(value), (environment_ref(name),)
    return Unknown(Reason.NOT_SUPPORTED, f"{row.kind} does not state the number of nodes"), ()


def _slurm(source: Source) -> _Slurm:
    """Return the settings of the first slurm.conf that exists; if there is none, `gpus` is None."""
    path = source.env("SLURM_CONF")
    named = (path.rpartition("/")[0],) if isinstance(path, str) and path.startswith("/") else ()
    unknown: Unknown | None = None
    for folder in (*named, *_SLURM_FOLDERS):
        text = read_text(source, f"{folder}/slurm.conf")
        if isinstance(text, Unknown):
            unknown = unknown or when_missing(text, None)
            continue
        from probes.parsers.host.slurm_conf import gpus_of_node, settings_of  # noqa: PLC0415 - rarely needed

        settings = settings_of(text, _SLURM_SETTINGS)
        evidence = [file_ref(f"{folder}/slurm.conf")]
        groups = read_text(source, f"{folder}/cgroup.conf")
        if not isinstance(groups, Unknown):
            settings |= settings_of(groups, _CGROUP_SETTINGS)
            evidence.append(file_ref(f"{folder}/cgroup.conf"))
        host = read_text(source, _HOSTNAME)
        gpus = map_known(host, lambda host: gpus_of_node(text, host.partition(".")[0]))  # noqa: B023
        return _Slurm(
            settings=states(settings),
            gpus=Unknown(Reason.NOT_RECORDED, "no line of slurm.conf is about this host")
            if gpus is None
            else gpus,
            exists=True,
            evidence=tuple(evidence),
        )
    return _Slurm(settings=unknown or (), gpus=unknown, exists=unknown is not None)
