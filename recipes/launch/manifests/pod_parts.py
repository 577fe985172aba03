"""The parts of Kubernetes manifests that all kinds of jobs share.

Fields are those of the Kubernetes API reference, core/v1 and batch/v1 (kubernetes.io, read 2026-11). The
reasons for shared memory, locked memory, devices and the grace period are those of NCCL's troubleshooting
guide and of the device plugins' pages (read 2026-11).
"""

import re
import shlex
from typing import Any

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.manifests.config_map import FILES, config_name, items, object_name
from recipes.launch.manifests.container_words import (
    FOLDER,
    MASTER_PORT,
    Meeting,
    folder,
    grace_s,
    is_gpu,
    mig_profile,
    node_command,
    refuse_arguments,
    require_mounts,
    require_user,
    shared_memory,
    variables,
)
from recipes.launch.manifests.yaml_text import Remark
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Recipe
from recipes.launch.references import spelled
from recipes.launch.script_parts import job_port, prediction, remarks, summary
from recipes.launch.slots import slot_value, time_limit_s

_RESOURCE = re.compile(r"([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:=(\w+))?", re.ASCII)
_CLAIM = re.compile(r"([a-z0-9][a-z0-9.-]*)(?::(/[\w./@+-]*))?", re.ASCII)
_HOST = "host"

Tree = dict[Any, Any]


def literal(text: str) -> str:
    """Return text that Kubernetes does not expand: in commands and variables `$$` is a dollar sign.

    A reference to a secret becomes `$(NAME)`, a variable of the container.
    """
    return spelled(text.replace("$", "$$"), lambda name: f"$({name})")


def head(recipe: Recipe, files: ProgramFiles, start: tuple[str, ...], needs: str) -> tuple[str, ...]:
    """Return the comments above a manifest: the plan, the start command, and what the cluster needs."""
    (_, left_out) = container_variables(recipe, files)
    return (
        recipe.title,
        summary(recipe),
        prediction(recipe),
        f"Start: {shlex.join(start)}",
        f"Stop, and before another start: kubectl delete -f {start[-1]}",
        needs,
        "Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every "
        "setting.",
        *remarks(recipe, files),
        *left_out,
        *_network_remark(recipe),
    )


def _network_remark(recipe: Recipe) -> tuple[str, ...]:
    transport = recipe.machine.transport if recipe.machine is not None else ""
    if recipe.parallelism.nodes == 1 or has_rdma(recipe) or transport not in ("infiniband", "roce", "efa"):
        return ()
    return (
        f"Warning: the plan counts on RDMA ({transport}), but no RDMA device is requested, so that NCCL uses "
        "TCP. `kubectl describe node` names the resource: export with --slot network_resource=rdma/ib=1",
    )


def has_rdma(recipe: Recipe) -> bool:
    """Return whether the site named the resource of its RDMA devices."""
    return bool(slot_value(recipe, "network_resource"))


def has_host_network(recipe: Recipe) -> bool:
    return slot_value(recipe, "pod_networks") == _HOST


def metadata(recipe: Recipe, *, queue: bool = False) -> Tree:
    """Return the metadata of an object; with `queue`, also the label of Kueue's queue."""
    namespace, name = slot_value(recipe, "namespace"), object_name(recipe)
    local_queue = slot_value(recipe, "queue") if queue else ""
    waits = Remark("Kueue starts the job when all of its pods fit")
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {
            "app.kubernetes.io/name": name,
            **({waits: None, "kueue.x-k8s.io/queue-name": local_queue} if local_queue else {}),
        },
    }


def pod_metadata(recipe: Recipe) -> Tree:
    """Return labels and annotations of the pods."""
    networks = slot_value(recipe, "pod_networks")
    attached = {"k8s.v1.cni.cncf.io/networks": networks} if networks and networks != _HOST else {}
    return {
        "labels": {"app.kubernetes.io/name": object_name(recipe)},
        "annotations": {
            Remark("A proxy of a service mesh would break the connections between ranks"): None,
            "sidecar.istio.io/inject": "false",
            **attached,
        },
    }


def pod_spec(recipe: Recipe, files: ProgramFiles, container: Tree, *, restart_policy: str = "") -> Tree:
    """Return the pod of one node."""
    return {
        **({"restartPolicy": restart_policy} if restart_policy else {}),
        Remark("Time for a last checkpoint after SIGTERM"): None,
        "terminationGracePeriodSeconds": grace_s(recipe),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **host_network(recipe),
        "securityContext": pod_security(recipe),
        **tolerations(recipe),
        "containers": [container],
        "volumes": volumes(recipe, files),
    }


def port(recipe: Recipe) -> int:
    """Return the port of the rendezvous; on the host network, other jobs may use the default port."""
    if not has_host_network(recipe):
        return MASTER_PORT
    return job_port(recipe)


def meeting(recipe: Recipe, node_rank: str, hosts: tuple[str, ...]) -> Meeting:
    """Return the rendezvous of the pods; a single pod uses the loopback."""
    if recipe.parallelism.nodes == 1:
        return Meeting(node_rank="0", master="127.0.0.1", port=str(port(recipe)))
    return Meeting(node_rank=node_rank, master=hosts[0], port=str(port(recipe)), hosts=",".join(hosts))


def host_network(recipe: Recipe) -> Tree:
    if not has_host_network(recipe):
        return {}
    return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}


def pod_security(recipe: Recipe) -> Tree:
    """Return the security context of the pod.

    It has the user and the group of the containers; the group also owns new files on volumes.
    """
    user, group = require_user(recipe)
    return {
        "runAsNonRoot": bool(user),
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": group,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(recipe: Recipe) -> Tree:
    """Return a security context without privileges; only RDMA needs the right to lock memory."""
    locks = Remark("RDMA locks memory; a user other than root also needs a runtime without a memlock limit")
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {
            "drop": ["ALL"],
            **({locks: None, "add": ["IPC_LOCK"]} if has_rdma(recipe) else {}),
        },
    }


def tolerations(recipe: Recipe) -> Tree:
    """Return the toleration of the taint that keeps other pods off GPU nodes."""
    if not is_gpu(recipe):
        return {}
    return {
        "tolerations": [
            {
                "key": gpu_resource(recipe).partition("/")[0] + "/gpu",
                "operator": "Exists",
                "effect": "NoSchedule",
            }
        ]
    }


def container(
    recipe: Recipe, files: ProgramFiles, name: str, place: Meeting, *, ports: tuple[int, ...] = ()
) -> Tree:
    """Return the container of one node's ranks."""
    command, arguments = node_command(recipe, files, place, literal)
    return {
        "name": name,
        "image": slot_value(recipe, "container_image"),
        **working_folder(recipe, files),
        "command": command,
        "args": arguments,
        "env": environment(recipe, files),
        **secrets(recipe),
        **({"ports": [{"containerPort": port} for port in ports]} if ports else {}),
        "resources": resources(recipe),
        "securityContext": container_security(recipe),
        "volumeMounts": mounts(recipe),
    }


def working_folder(recipe: Recipe, files: ProgramFiles) -> Tree:
    work = folder(recipe, files)
    return {"workingDir": work} if work else {}


def container_variables(recipe: Recipe, files: ProgramFiles) -> tuple[Any, tuple[str, ...]]:
    """Return the variables of a pod, and remarks on those that it cannot have."""
    return variables(recipe, files, has_host_network=has_host_network(recipe), has_rdma=has_rdma(recipe))


def environment(recipe: Recipe, files: ProgramFiles) -> list[Any]:
    """Return the variables as Kubernetes lists them, each below its reason."""
    rows: list[Any] = []
    for variable in container_variables(recipe, files)[0]:
        rows += [Remark(variable.why)] if variable.why else []
        rows.append({"name": variable.name, "value": literal(variable.value)})
    return rows


def secrets(recipe: Recipe) -> Tree:
    """Return the reference to the secret with tokens; the manifest does not contain the tokens."""
    secret = slot_value(recipe, "token_secret")
    return {"envFrom": [{"secretRef": {"name": secret}}]} if secret else {}


def gpu_resource(recipe: Recipe) -> str:
    """Return the name of the resource of a GPU or of a MIG slice."""
    if named := slot_value(recipe, "gpu_resource"):
        return named
    if profile := mig_profile(recipe):
        return f"nvidia.com/mig-{profile}"
    is_amd = re.search(r"\b(?:AMD|Instinct)\b", recipe.resources.device_name) is not None
    return "amd.com/gpu" if is_amd else "nvidia.com/gpu"


def resources(recipe: Recipe) -> Tree:
    """Return the resources of a node's container. Raises UsageError for a slot of a wrong form.

    With a memory limit and a known number of cores, the requests equal the limits: the pod has the class
    Guaranteed, for which the kubelet can reserve cores. Without a memory limit the cores are only requested,
    because a limit of the cores could throttle threads of NCCL.
    """
    limits: Tree = {gpu_resource(recipe): recipe.parallelism.ranks_per_node} if is_gpu(recipe) else {}
    for part in filter(None, slot_value(recipe, "network_resource").split(",")):
        match = _RESOURCE.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"slot network_resource: {quoted(part.strip())} is not NAME=NUMBER", "write such as rdma/ib=1"
            )
        count = match[2] or "1"
        limits[match[1]] = int(count) if count.isdigit() else count
    memory, cores = slot_value(recipe, "memory"), recipe.resources.cpus_per_node
    # the node's own services need the rest
    cpu = {} if cores is None else {"cpu": max(1, cores - max(1, cores // 10))}
    if memory:
        return {"limits": {**limits, **cpu, "memory": memory}}
    return {**({"limits": limits} if limits else {}), **({"requests": cpu} if cpu else {})}


def volumes(recipe: Recipe, files: ProgramFiles) -> list[Any]:
    """Return the volumes: shared memory, the program's files, the claim, and folders of the node.

    Raises UsageError for a slot of a wrong form.
    """
    rows: list[Any] = [
        Remark("NCCL and data loaders share memory here; the default is 64 MiB"),
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory(recipe)}},
        {"name": "rigtune", "configMap": {"name": config_name(recipe), **items(recipe, files)}},
    ]
    if claim := _claim(recipe):
        rows.append({"name": "data", "persistentVolumeClaim": {"claimName": claim[0]}})
    for number, (host, _) in enumerate(require_mounts(recipe)):
        rows.append({"name": f"host-{number}", "hostPath": {"path": host, "type": "Directory"}})
    return rows


def mounts(recipe: Recipe) -> list[Tree]:
    """Return the places at which the container sees the volumes."""
    rows: list[Tree] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - NCCL uses this path
        {"name": "rigtune", "mountPath": FOLDER, "readOnly": True},
    ]
    if claim := _claim(recipe):
        rows.append({"name": "data", "mountPath": claim[1]})
    for number, (_, inside) in enumerate(require_mounts(recipe)):
        rows.append({"name": f"host-{number}", "mountPath": inside})
    return rows


def _claim(recipe: Recipe) -> tuple[str, str] | None:
    """Return the claim and the folder at which it is mounted."""
    text = slot_value(recipe, "volume_claim")
    match = _CLAIM.fullmatch(text)
    if text and match is None:
        raise UsageError(
            f"slot volume_claim: {quoted(text)} is not CLAIM:PATH", "write such as train-data:/data"
        )
    return (match[1], match[2] or "/data") if match else None


def deadline(recipe: Recipe) -> Tree:
    seconds = time_limit_s(recipe)
    return {} if seconds is None else {"activeDeadlineSeconds": seconds}


def apply_command(
    recipe: Recipe, folder: str, manifest: str, arguments: tuple[str, ...], files: str = FILES
) -> tuple[str, ...]:
    """Return the command that creates the job and its files.

    A server-side apply allows a ConfigMap above 256 KiB, the limit of the annotation that kubectl otherwise
    writes. Raises UsageError for extra arguments, because only the manifest can state them.
    """
    refuse_arguments(manifest, arguments)
    namespace = slot_value(recipe, "namespace")
    return (
        *("kubectl", "apply", "--server-side"),
        *(("--namespace", namespace) if namespace else ()),
        *("-f", f"{folder}/{files}", "-f", f"{folder}/{manifest}"),
    )
