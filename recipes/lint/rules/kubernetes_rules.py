"""Manifests of Kubernetes: what pods get, and how they meet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Document, Entry, lines_of
from recipes.lint.finding import Edit, LintFinding
from recipes.lint.rule_table import make_finding
from recipes.lint.views import entries, is_set, number, of_kind, says, value

Documents = tuple[Document, ...]

_SMALLEST_SHM_MIB = 1024
"""What the troubleshooting chapter of NCCL's guide asks for."""
_SHM = "/dev/shm"  # noqa: S108 - where NCCL looks
_RDMA = r"rdma/|/rdma|/ib$|sriov|mlnx|mellanox|/roce|hca_shared|vpc\.amazonaws\.com/efa|infiniband"
_VERBS = r"^rdma/|^nvidia\.com/(?:rdma|hostdev|mlnx|roce|ib)|mellanox|hca_shared"
"""Resources that hand out a device of verbs, which locks memory."""
_RAY = ("RayCluster", "RayJob", "RayService")


def _gpus(document: Document) -> list[tuple[Entry, int]]:
    """Containers with GPUs, by the entry that asks for them."""
    asked = []
    for item in entries(document, r".*containers\[\d+\]\.resources\.limits\.nvidia\.com/gpu"):
        count = item.value if isinstance(item.value, int) else number(str(item.value))
        if count is not None:
            asked.append((item, count))
    return asked


def _kinds(document: Document) -> set[str]:
    return {str(item.value) for item in document.entries if re.fullmatch(r"(?:\[\d+\]\.)?kind", item.path)}


def _pod(path: str) -> str:
    """Where the pod of a container is described."""
    return re.sub(r"\.?(?:initC|c)ontainers\[\d+\].*$", "", path)


def memory(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Shared and locked memory of pods."""
    del context
    for document in of_kind(documents, "kubernetes"):
        by_ray = bool(_kinds(document) & set(_RAY))
        for item, count in _gpus(document):
            pod = _pod(item.path)
            below = [entry for entry in document.entries if entry.path.startswith(f"{pod}.")]
            container = item.path.partition(".resources.")[0]
            mount = next(
                (
                    one
                    for one in below
                    if one.path.endswith("mountPath") and _is_shm(one) and container in one.path
                ),
                None,
            )
            host = any(one.path == f"{pod}.hostIPC" and one.value is True for one in below)
            if mount is not None:
                yield from _volume(document, below, mount)
            elif count > 1 and not host and not (by_ray and container.endswith("containers[0]")):
                yield make_finding(
                    "kubernetes-shm",
                    document,
                    item.place,
                    f"{count} GPUs share 64 MiB of /dev/shm",
                    fix="Mount an emptyDir with medium: Memory at /dev/shm.",
                )
        yield from _locked(document)


def _is_shm(item: Entry) -> bool:
    return str(item.value).rstrip("/") == _SHM


def _volume(document: Document, below: list[Entry], mount: Entry) -> Iterator[LintFinding]:
    """What is mounted at /dev/shm."""
    beside = mount.path.removesuffix("mountPath")
    name = next((one.value for one in below if one.path == f"{beside}name"), None)
    label = next(
        (one for one in below if re.search(r"volumes\[\d+\]\.name$", one.path) and one.value == name), None
    )
    if label is None:
        return
    volume = label.path.removesuffix("name")
    parts = {one.path.removeprefix(volume): one for one in below if one.path.startswith(volume)}
    size = parts.get("emptyDir.sizeLimit")
    is_empty = any(
        "emptyDir" in line for line in lines_of(document.text)[label.place.line - 2 : label.place.line + 2]
    )
    if is_empty and not parts.keys() - {"name", "emptyDir.sizeLimit"}:
        yield make_finding(
            "kubernetes-shm",
            document,
            label.place,
            f"the emptyDir {name} at /dev/shm lies on the node's disk",
            fix="Give it medium: Memory.",
        )
    elif size is not None:
        amount = re.fullmatch(r"(\d+)(Ki|Mi|M|K)", str(size.value))
        if amount is not None and (amount[2] in ("Ki", "K") or int(amount[1]) < _SMALLEST_SHM_MIB):
            message = f"shared memory of {size.value} is too little for NCCL and data loaders"
            yield make_finding("kubernetes-shm", document, size.place, message, fix="Give it 16Gi.")


def _locked(document: Document) -> Iterator[LintFinding]:
    for item in entries(document, r".*resources\.limits\..*"):
        if not re.search(_VERBS, item.path.rpartition("limits.")[2]):
            continue
        container = item.path.partition(".resources.")[0]
        below = [entry for entry in document.entries if entry.path.startswith(container)]
        free = any(
            one.path.startswith(f"{container}.securityContext")
            and one.value in ("IPC_LOCK", "ALL", "CAP_IPC_LOCK")
            for one in below
        )
        privileged = any(
            one.path == f"{container}.securityContext.privileged" and one.value is True for one in below
        )
        if not free and not privileged:
            yield make_finding(
                "kubernetes-ipc-lock",
                document,
                item.place,
                f"{item.path.rpartition('limits.')[2]} without IPC_LOCK: registering memory fails where the "
                "node limits it",
                fix="Add IPC_LOCK to securityContext.capabilities.add.",
            )


def rdma(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """RDMA variables without devices, networks without addresses."""
    del context
    for document in of_kind(documents, "kubernetes"):
        if not _gpus(document):
            yield from _attachments(document)
            continue
        asks = next(
            (
                item
                for item in document.settings
                if item.name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX") and item.value
            ),
            None,
        )
        devices = says(
            document,
            _RDMA.replace("$", r"\b")
            + r"|networking\.gke\.io|hostPath:.*infiniband|/dev/infiniband|resourceClaims|ComputeDomain",
        )
        privileged = says(document, r"privileged:\s*true")
        if asks is not None and not devices and not privileged:
            yield make_finding(
                "kubernetes-no-rdma",
                document,
                asks.place,
                f"{asks.name} is set, and no RDMA resource is asked for: NCCL goes over TCP without an error",
                fix="Ask for the cluster's RDMA resource, and set NCCL_NET=IB so that it fails otherwise.",
            )
        if value(document, "NCCL_MNNVL_ENABLE") == "1" and not says(
            document, r"ComputeDomain|imex|resourceClaims"
        ):
            yield make_finding(
                "imex-channel-missing",
                document,
                next(item.place for item in document.settings if item.name == "NCCL_MNNVL_ENABLE"),
                "multi-node NVLink is asked for, and the pod claims no IMEX channel",
                fix="Claim the channel of a ComputeDomain.",
            )
        yield from _attachments(document)


def _attachments(document: Document) -> Iterator[LintFinding]:
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
                f"the {kind} network hands out no addresses: a RoCE device without one has no GID",
                fix="Give ipam, as whereabouts.",
            )


def networks(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Names, meshes and clusters' DNS."""
    del context
    for document in of_kind(documents, "kubernetes"):
        for item in entries(document, r".*hostNetwork"):
            policy = [
                entry
                for entry in document.entries
                if entry.path == item.path.replace("hostNetwork", "dnsPolicy")
            ]
            if item.value is True and not policy and _gpus(document):
                yield make_finding(
                    "kubernetes-host-dns",
                    document,
                    item.place,
                    "with hostNetwork names of services do not resolve unless dnsPolicy is "
                    "ClusterFirstWithHostNet",
                    fix="Add dnsPolicy: ClusterFirstWithHostNet.",
                )
        for item in document.entries:
            injects = item.path.endswith("sidecar.istio.io/inject") and str(item.value).lower() == "true"
            whole = item.path.endswith("istio-injection") and item.value == "enabled"
            if injects or (whole and not says(document, r"sidecar\.istio\.io/inject[\"']?:\s*[\"']?false")):
                yield make_finding(
                    "kubernetes-mesh",
                    document,
                    item.place,
                    "the mesh's sidecar takes the connections between ranks: workers hang",
                    fix='Annotate the pods with sidecar.istio.io/inject: "false".',
                )


def shapes(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """What the API or the operator refuses, or takes for something else."""
    del context
    for document in of_kind(documents, "kubernetes"):
        for item in entries(document, r".*containers\[\d+\]\.env\[\d+\]\.value"):
            if isinstance(item.value, int | float) and not isinstance(item.value, str):
                text = _written(document, item)
                yield make_finding(
                    "kubernetes-env-number",
                    document,
                    item.place,
                    f"value {text} is no string, and the API refuses it",
                    fix="Put it in quotes.",
                    edits=(Edit(place=item.place, text=f'"{text}"'),)
                    if text and item.place.end_column is not None
                    else (),
                )
        if "PyTorchJob" in _kinds(document):
            for item in entries(
                document, r".*pytorchReplicaSpecs\.\w+\.template\.spec\.containers\[0\]\.name"
            ):
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
                        f"the operator looks for a container called pytorch, and this is {item.value}",
                        fix="Call it pytorch.",
                    )
        yield from _images(document)
        yield from _slices(document)


def _written(document: Document, item: Entry) -> str:
    lines = lines_of(document.text)
    place = item.place
    if not 0 < place.line <= len(lines) or place.end_column is None:
        return str(item.value)
    return lines[place.line - 1][place.column - 1 : place.end_column - 1]


def _images(document: Document) -> Iterator[LintFinding]:
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
            fix="Use one image.",
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
                f"{image.value} is not pulled where a node has one: nodes may run different images",
                fix="Name a version or a digest.",
            )


def _slices(document: Document) -> Iterator[LintFinding]:
    for item in entries(document, r".*resources\.limits\.nvidia\.com/mig-\S+"):
        count = item.value if isinstance(item.value, int) else number(str(item.value))
        if count is not None and count > 1 and not is_set(document, "NCCL_MULTI_RANK_GPU_ENABLE"):
            yield make_finding(
                "mig-several",
                document,
                item.place,
                f"{count} slices for one container, and a process sees one MIG device",
                fix="Give each rank whole GPUs, or one slice each with NCCL 2.31 or newer.",
            )
