"""Kubernetes manifests: memory, devices, networks and images of pods."""

import json
import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Entry, lines_of
from recipes.lint.finding import Edit
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import entries, is_set, mentions, number, value

_SMALLEST_SHM_MIB = 1024
"""Shared memory that the troubleshooting chapter of NCCL's guide recommends."""
_SHM = "/dev/shm"  # noqa: S108 - NCCL uses this path
_RDMA = r"rdma/|/rdma|/ib$|sriov|mlnx|mellanox|/roce|hca_shared|vpc\.amazonaws\.com/efa|infiniband"
_OTHER_DEVICES = re.compile(r"gpu|mig-|shared|fuse|kvm|tun|shm")
"""Kinds of devices that device plugins offer and that are not NICs."""
_VERBS = r"^rdma/|^nvidia\.com/(?:rdma|hostdev|mlnx|roce|ib)|mellanox|hca_shared"
"""Resources with an RDMA (verbs) device; applications lock memory to use the device."""
_RAY = ("RayCluster", "RayJob", "RayService")


def _gpus(document: Document) -> list[tuple[Entry, int]]:
    """Return the entries that request GPUs for a container, each with the number of GPUs."""
    requests = []
    for item in entries(document, r".*containers\[\d+\]\.resources\.limits\.nvidia\.com/gpu"):
        count = item.value if isinstance(item.value, int) else number(str(item.value))
        if count is not None:
            requests.append((item, count))
    return requests


def _kinds(document: Document) -> set[str]:
    return {str(item.value) for item in document.entries if re.fullmatch(r"(?:\[\d+\]\.)?kind", item.path)}


@per_document("kubernetes")
def memory(document: Document, context: Context) -> Findings:
    """Check shared and locked memory of pods."""
    by_ray = bool(_kinds(document) & set(_RAY))
    for item, count in _gpus(document):
        pod = re.sub(r"\.?(?:initC|c)ontainers\[\d+\].*$", "", item.path)
        below = [entry for entry in document.entries if entry.path.startswith(f"{pod}.")]
        container = item.path.partition(".resources.")[0]
        mount = next(
            (
                other
                for other in below
                if other.path.endswith("mountPath")
                and str(other.value).rstrip("/") == _SHM
                and container in other.path
            ),
            None,
        )
        host = any(other.path == f"{pod}.hostIPC" and other.value is True for other in below)
        if mount is not None:
            yield from _volume(document, below, mount)
        # the Ray operator itself mounts shared memory in the first container
        elif count > 1 and not host and not (by_ray and container.endswith("containers[0]")):
            yield make_finding(
                "kubernetes-shm",
                document,
                item.place,
                f"{count} GPUs share 64 MiB of /dev/shm, the default",
                fix="Mount an emptyDir with medium: Memory at /dev/shm.",
            )
    yield from _locked(document)


def _volume(document: Document, below: list[Entry], mount: Entry) -> Findings:
    """Check the volume that is mounted at /dev/shm."""
    beside = mount.path.removesuffix("mountPath")
    name = next((other.value for other in below if other.path == f"{beside}name"), None)
    label = next(
        (other for other in below if re.search(r"volumes\[\d+\]\.name$", other.path) and other.value == name),
        None,
    )
    if label is None:
        return
    volume = label.path.removesuffix("name")
    parts = {other.path.removeprefix(volume): other for other in below if other.path.startswith(volume)}
    size = parts.get("emptyDir.sizeLimit")
    is_empty = any(
        "emptyDir" in line for line in lines_of(document.text)[label.place.line - 2 : label.place.line + 2]
    )
    if is_empty and not parts.keys() - {"name", "emptyDir.sizeLimit"}:
        yield make_finding(
            "kubernetes-shm",
            document,
            label.place,
            f"the emptyDir {name} at /dev/shm is on the node's disk",
            fix="Give it medium: Memory.",
        )
    elif size is not None:
        amount = re.fullmatch(r"(\d+)(Ki|Mi|M|K)", str(size.value))
        if amount is not None and (amount[2] in ("Ki", "K") or int(amount[1]) < _SMALLEST_SHM_MIB):
            yield make_finding(
                "kubernetes-shm",
                document,
                size.place,
                f"shared memory of {size.value} is too little for NCCL and data loaders",
                fix="Give it 16Gi.",
            )


def _locked(document: Document) -> Findings:
    for item in entries(document, r".*resources\.limits\..*"):
        if not re.search(_VERBS, item.path.rpartition("limits.")[2]):
            continue
        container = item.path.partition(".resources.")[0]
        below = [entry for entry in document.entries if entry.path.startswith(container)]
        free = any(
            other.path.startswith(f"{container}.securityContext")
            and other.value in ("IPC_LOCK", "ALL", "CAP_IPC_LOCK")
            for other in below
        )
        privileged = any(
            other.path == f"{container}.securityContext.privileged" and other.value is True for other in below
        )
        if not free and not privileged:
            yield make_finding(
                "kubernetes-ipc-lock",
                document,
                item.place,
                f"{item.path.rpartition('limits.')[2]} without IPC_LOCK: registering memory fails on nodes "
                "that limit it",
                fix="Add IPC_LOCK to securityContext.capabilities.add.",
            )


@per_document("kubernetes")
def rdma(document: Document, context: Context) -> Findings:
    """Check for RDMA variables without devices, and networks without addresses."""
    if not _gpus(document):
        yield from _attachments(document)
        return
    variable = next(
        (
            item
            for item in document.settings
            if item.name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX") and item.value
        ),
        None,
    )
    devices = mentions(
        document,
        _RDMA.replace("$", r"\b")
        + r"|networking\.gke\.io|cncf\.io/networks|hostPath:.*infiniband|/dev/infiniband|resourceClaims|"
        r"ComputeDomain",
    ) or any(_is_device(item.path) for item in document.entries)
    if variable is not None and not devices and not mentions(document, r"privileged:\s*true"):
        yield make_finding(
            "kubernetes-no-rdma",
            document,
            variable.place,
            f"{variable.name} is set, but no RDMA resource is requested: NCCL uses TCP without an error",
            fix="Request the cluster's RDMA resource; with NCCL_NET=IB a missing resource is an error.",
        )
    if value(document, "NCCL_MNNVL_ENABLE") == "1" and not mentions(
        document, r"ComputeDomain|imex|resourceClaims"
    ):
        yield make_finding(
            "imex-channel-missing",
            document,
            next(item.place for item in document.settings if item.name == "NCCL_MNNVL_ENABLE"),
            "multi-node NVLink is requested, but the pod claims no IMEX channel",
            fix="Claim the channel of a ComputeDomain.",
        )
    yield from _attachments(document)


def _is_device(path: str) -> bool:
    """Return whether the resource is a device that is not a GPU and may be a NIC."""
    _, is_resource, name = path.rpartition("resources.limits.")
    domain, is_extended, kind = name.partition("/")
    return bool(is_resource and is_extended) and "." in domain and _OTHER_DEVICES.match(kind) is None


def _attachments(document: Document) -> Findings:
    for item in entries(document, r".*spec\.config"):
        try:
            config = json.loads(str(item.value))
        except (ValueError, RecursionError):
            continue
        plugins = config.get("plugins", [config]) if isinstance(config, dict) else []
        main = plugins[0] if plugins and isinstance(plugins[0], dict) else {}
        kind, ipam = main.get("type"), main.get("ipam")
        if kind in ("sriov", "host-device", "macvlan", "ipvlan") and not ipam:
            yield make_finding(
                "kubernetes-no-ipam",
                document,
                item.place,
                f"the {kind} network assigns no addresses: a RoCE device without an address has no GID",
                fix="Add address management (ipam), such as whereabouts.",
            )


@per_document("kubernetes")
def networks(document: Document, context: Context) -> Findings:
    """Check cluster DNS and service meshes."""
    for item in entries(document, r".*hostNetwork"):
        policy = [
            entry for entry in document.entries if entry.path == item.path.replace("hostNetwork", "dnsPolicy")
        ]
        if item.value is True and not policy and _gpus(document):
            yield make_finding(
                "kubernetes-host-dns",
                document,
                item.place,
                "with hostNetwork, service names do not resolve unless dnsPolicy is ClusterFirstWithHostNet",
                fix="Add dnsPolicy: ClusterFirstWithHostNet.",
            )
    for item in document.entries:
        injects = item.path.endswith("sidecar.istio.io/inject") and str(item.value).lower() == "true"
        covers_namespace = item.path.endswith("istio-injection") and item.value == "enabled"
        if injects or (
            covers_namespace and not mentions(document, r"sidecar\.istio\.io/inject[\"']?:\s*[\"']?false")
        ):
            yield make_finding(
                "kubernetes-mesh",
                document,
                item.place,
                "the mesh's sidecar intercepts the connections between ranks, so that workers hang",
                fix='Annotate the pods with sidecar.istio.io/inject: "false".',
            )


@per_document("kubernetes")
def shapes(document: Document, context: Context) -> Findings:
    """Check for values that the API or the operator refuses or misreads."""
    for item in entries(document, r".*containers\[\d+\]\.env\[\d+\]\.value"):
        if isinstance(item.value, int | float) and not isinstance(item.value, str):
            text = _written(document, item)
            yield make_finding(
                "kubernetes-env-number",
                document,
                item.place,
                f"the value {text} is not a string, so the API refuses it",
                fix="Put it in quotes.",
                edits=(Edit(place=item.place, text=f'"{text}"'),)
                if text and item.place.end_column is not None
                else (),
            )
    if "PyTorchJob" in _kinds(document):
        for item in entries(document, r".*pytorchReplicaSpecs\.\w+\.template\.spec\.containers\[0\]\.name"):
            beside = [
                entry.value
                for entry in entries(
                    document, re.escape(item.path[: item.path.rindex("[")]) + r"\[\d+\]\.name"
                )
            ]
            if "pytorch" not in beside:
                yield make_finding(
                    "kubernetes-container-name",
                    document,
                    item.place,
                    f"the operator needs a container called pytorch, but this one is called {item.value}",
                    fix="Call the container pytorch.",
                )
    yield from _images(document)
    yield from _slices(document)


def _written(document: Document, item: Entry) -> str:
    lines = lines_of(document.text)
    place = item.place
    if not 0 < place.line <= len(lines) or place.end_column is None:
        return str(item.value)
    return lines[place.line - 1][place.column - 1 : place.end_column - 1]


def _images(document: Document) -> Findings:
    by_replica: dict[str, Entry] = {}
    for item in entries(
        document, r".*ReplicaSpecs\.(?:Master|Worker)\.template\.spec\.containers\[0\]\.image"
    ):
        by_replica[item.path.split("ReplicaSpecs.")[1].partition(".")[0]] = item
    both = [by_replica.get("Master"), by_replica.get("Worker")]
    if both[0] is not None and both[1] is not None and both[0].value != both[1].value:
        yield make_finding(
            "images-differ",
            document,
            both[1].place,
            f"the master runs {both[0].value}, the workers {both[1].value}: their NCCL or plugins may differ",
            fix="Use the same image for both.",
        )
    for item in entries(document, r".*containers\[\d+\]\.imagePullPolicy"):
        image = next(
            (
                entry
                for entry in document.entries
                if entry.path == item.path.replace("imagePullPolicy", "image")
            ),
            None,
        )
        if (
            item.value == "IfNotPresent"
            and image is not None
            and str(image.value).endswith(":latest")
            and by_replica
        ):
            yield make_finding(
                "image-latest",
                document,
                image.place,
                f"{image.value} is not pulled on nodes that have an older copy, so images may differ",
                fix="State a version or a digest.",
            )


def _slices(document: Document) -> Findings:
    for item in entries(document, r".*resources\.limits\.nvidia\.com/mig-\S+"):
        count = item.value if isinstance(item.value, int) else number(str(item.value))
        if count is not None and count > 1 and not is_set(document, "NCCL_MULTI_RANK_GPU_ENABLE"):
            yield make_finding(
                "mig-several",
                document,
                item.place,
                f"{count} slices for one container, but a process sees only one MIG device",
                fix="Give each rank whole GPUs, or one slice each with NCCL 2.31 or newer.",
            )
