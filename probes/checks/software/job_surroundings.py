"""Check the surroundings of a job: its container, a proxy between the ranks, the batch system.

A container needs device files, the right to lock memory, and the right to place memory on NUMA nodes.
Sidecars intercept the connections of ranks, and proxy variables redirect connections over HTTP and gRPC
(etcd, Ray, model hubs) unless `no_proxy` names the nodes. The batch system must not lower the limits of
training processes, and must make all GPUs visible. Source: NCCL user guide, troubleshooting (containers,
cuMem host allocations); docker run reference (capabilities, seccomp); NVIDIA/nccl#451; kubeflow/trainer#1636,
kubeflow/kubeflow#5143, pytorch/pytorch#81704 (proxies); slurm.conf(5), PropagateResourceLimits;
NVIDIA/nccl#1066 and open-mpi/ompi#11949 (GPUs bound to single tasks do not see each other); gres.conf(5).
"""

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, items_of, known
from probes.facts import Gpu, MachineFacts, State, state_of
from probes.judging.environment_values import setting, variables_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, evidence_of, nics_of, on_fact, on_gpus, unknown_among

DEVICES = Judge(
    check_id="container-devices",
    why="NCCL finds no RDMA device and silently falls back to TCP, at a tenth of the rate.",
)
LOCKING = Judge(
    check_id="container-locking",
    why="RDMA buffers must be locked in memory; without the right to do this, their registration fails.",
)
NUMA = Judge(
    check_id="container-numa",
    why="NCCL places shared buffers on NUMA nodes; if the container forbids this, some versions fail to "
    "start.",
)
PROXY = Judge(
    check_id="proxy",
    why="A proxy between the ranks resets or delays their connections, and workers hang while they look for "
    "each other.",
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")
JOB_LIMITS = Judge(
    check_id="scheduler-limits",
    why="The limits of the shell that submits the job replace the limits of the node: RDMA then fails in "
    "jobs only.",
)
BINDING = Judge(
    check_id="scheduler-binding",
    why="A task that sees only its own GPU cannot use NVLink to the others: NCCL copies through host memory.",
)
JOB_GPUS = Judge(
    check_id="scheduler-gpus",
    why="GPUs that are missing in the batch system's configuration stay unused; if configured GPUs do not "
    "exist, the node is drained.",
)
_NO_BINDING = ("none", "verbose,none", "quiet,none")


def container_devices(evidence: Evidence) -> Iterator[Finding]:
    if (stop := _outside(DEVICES, evidence.facts)) is not None:
        yield stop
        return
    if not (yield from nics_of(DEVICES, evidence)):
        return
    container = evidence.facts.container
    files = container.rdma_devices
    if isinstance(files, Unknown):
        yield DEVICES.undetermined(HOST, files, what="/dev/infiniband", evidence=container.evidence)
    elif any(name.startswith("uverbs") for name in files):
        yield DEVICES.passed(
            HOST,
            "the container has RDMA device files",
            observed=f"{len(files)} in /dev/infiniband",
            evidence=container.evidence,
        )
    else:
        yield DEVICES.warned(
            HOST,
            "the host's RDMA devices are not passed into the container",
            expected="uverbs* in /dev/infiniband",
            observed=", ".join(files) or "none",
            remedy=Remedy(
                text="Start the container with --device=/dev/infiniband, or in Kubernetes request the "
                "device plugin's "
                "RDMA resource."
            ),
            evidence=container.evidence,
        )


def container_locking(evidence: Evidence) -> Iterator[Finding]:
    facts, container = evidence.facts, evidence.facts.container
    if (stop := _outside(LOCKING, facts)) is not None:
        yield stop
        return
    if not (yield from nics_of(LOCKING, evidence)):
        return
    limit, minimum = facts.limits.memlock_bytes, evidence.thresholds.memlock_minimum_bytes
    may = container.capabilities
    enough = not isinstance(limit, Unknown) and (limit == "unlimited" or limit >= minimum.value)
    if enough or "ipc_lock" in items_of(may):
        yield LOCKING.passed(
            HOST,
            "the container is allowed to lock memory",
            observed="by its limit" if enough else "by the capability IPC_LOCK",
            evidence=container.evidence,
        )
    elif isinstance(limit, Unknown) or isinstance(may, Unknown):
        yield LOCKING.undetermined(
            HOST,
            unknown_among(limit, may),
            what="the right to lock memory",
            evidence=container.evidence,
        )
    else:
        yield LOCKING.warned(
            HOST,
            "the container is not allowed to lock memory",
            expected="an unlimited memlock, or the capability IPC_LOCK",
            observed=f"a limit of {limit} bytes without the capability",
            remedy=Remedy(
                text="Start the container with --ulimit memlock=-1 --cap-add IPC_LOCK; in Kubernetes add "
                "IPC_LOCK to "
                "its capabilities."
            ),
            evidence=(*container.evidence, minimum.ref),
        )


def container_numa(evidence: Evidence) -> Finding:
    facts, container = evidence.facts, evidence.facts.container
    if (stop := _outside(NUMA, facts)) is not None:
        return stop
    may, filtered = container.capabilities, container.seccomp
    if known(facts.numa_nodes) and len(facts.numa_nodes) == 1:
        return NUMA.skipped(HOST, "this machine has one NUMA node")
    if filtered is False or "sys_nice" in items_of(may):
        how = "no system call filter" if filtered is False else "the capability SYS_NICE"
        return NUMA.passed(
            HOST, "the container is allowed to place memory", observed=how, evidence=container.evidence
        )
    if isinstance(may, Unknown) or isinstance(filtered, Unknown):
        unknown = unknown_among(may, filtered)
        return NUMA.undetermined(
            HOST, unknown, what="the rights of the container", evidence=container.evidence
        )
    return NUMA.warned(
        HOST,
        "the container is not allowed to place memory by NUMA node",
        expected="the capability SYS_NICE, with which the default seccomp filter allows these calls",
        observed="a system call filter without this capability",
        remedy=Remedy(
            text="Start the container with --cap-add SYS_NICE, or set NCCL_CUMEM_HOST_ENABLE=0 for NCCL "
            "2.24 to 2.26.4."
        ),
        evidence=container.evidence,
    )


def _outside(judge: Judge, facts: MachineFacts) -> Finding | None:
    runtime = facts.container.runtime
    if isinstance(runtime, Unknown) and runtime.reason is not Reason.NOT_SUPPORTED:
        return judge.undetermined(HOST, runtime, what="whether this is a container")
    is_outside = isinstance(runtime, Unknown) or runtime is None or runtime == "wsl"
    return judge.skipped(HOST, "this machine is not a container") if is_outside else None


def proxy(evidence: Evidence) -> Iterator[Finding]:
    container = evidence.facts.container
    sidecars = items_of(container.annotations)
    for sidecar in sidecars:
        yield PROXY.warned(
            HOST,
            f"the proxy of {sidecar.name} intercepts the connections of this pod",
            expected="no proxy between the ranks of a job",
            observed=sidecar.value,
            remedy=Remedy(
                text="Switch the proxy's injection off for training pods, or exclude the job's ports."
            ),
            evidence=container.evidence,
        )
    variables = yield from variables_of(PROXY, evidence)
    if variables is None:
        return
    proxies = [variables[name] for name in _PROXIES if name in variables and variables[name].value]
    exceptions = [variables[name] for name in _EXCEPTIONS if name in variables and variables[name].value]
    refs = evidence_of((*proxies, *exceptions))
    if proxies and not exceptions:
        yield PROXY.warned(
            HOST,
            "a proxy is set, and no address is excluded from it",
            expected="no_proxy with the nodes of the cluster",
            observed=", ".join(map(setting, proxies)),
            remedy=Remedy(
                text="List the names and addresses of the nodes in no_proxy.",
                command="export no_proxy=localhost,127.0.0.1,.cluster.local",
            ),
            evidence=refs,
        )
    elif not sidecars:
        observed = "no_proxy names exceptions" if proxies else "none is set"
        yield PROXY.passed(HOST, "no proxy between the ranks was found", observed=observed, evidence=refs)


@on_fact(JOB_LIMITS, "the settings of the batch system", lambda facts: facts.scheduler.settings, "scheduler")
def scheduler_limits(settings: tuple[State, ...], evidence: Evidence) -> Finding:
    if not settings:
        return JOB_LIMITS.skipped(HOST, "no batch system is set up here")
    if evidence.facts.nics == ():
        return JOB_LIMITS.skipped(HOST, "this machine has no RDMA port")
    passes = (state_of(settings, "PropagateResourceLimits") or "ALL").upper().split(",")
    kept = (state_of(settings, "PropagateResourceLimitsExcept") or "").upper().split(",")
    refs = evidence.facts.scheduler.evidence
    if "MEMLOCK" in kept or "ALL" in kept or not {"ALL", "MEMLOCK"} & set(passes):
        return JOB_LIMITS.passed(HOST, "jobs keep the node's own limit of locked memory", evidence=refs)
    return JOB_LIMITS.warned(
        HOST,
        "jobs inherit the limits of the shell that submits them",
        expected="PropagateResourceLimitsExcept=MEMLOCK",
        observed=f"PropagateResourceLimits={','.join(passes)}"
        if kept == [""]
        else "PropagateResourceLimitsExcept without MEMLOCK",
        remedy=Remedy(
            text="Exclude MEMLOCK from propagation in slurm.conf, and set LimitMEMLOCK=infinity for slurmd.",
            command="scontrol reconfigure",
            needs_root=True,
        ),
        evidence=refs,
    )


def scheduler_binding(evidence: Evidence) -> Iterator[Finding]:
    batch = evidence.facts.scheduler
    if isinstance(batch.kind, Unknown):
        yield BINDING.undetermined(HOST, batch.kind, what="whether this is a job", evidence=batch.evidence)
        return
    if batch.kind != "slurm":
        yield BINDING.skipped(HOST, "this is not a Slurm job")
        return
    variables = yield from variables_of(BINDING, evidence)
    if variables is None:
        return
    bound = [
        variables[name]
        for name in ("SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND")
        if name in variables
        and not (name == "SLURM_GPU_BIND" and variables[name].value.lower() in _NO_BINDING)
    ]
    if bound:
        yield BINDING.warned(
            HOST,
            "Slurm shows each task only its own GPU",
            expected="--gpus-per-node, with --gpu-bind=none",
            observed=", ".join(map(setting, bound)),
            remedy=Remedy(text="Request GPUs per node, and let every rank select its GPU by its local rank."),
            evidence=evidence_of(bound),
        )
    else:
        yield BINDING.passed(HOST, "tasks see each other's GPUs", evidence=batch.evidence)


@on_gpus(JOB_GPUS)
def scheduler_gpus(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    batch = evidence.facts.scheduler
    configured = batch.gpus_of_node
    if configured is None or (isinstance(configured, Unknown) and batch.settings == ()):
        return JOB_GPUS.skipped(HOST, "no batch system is set up here")
    if isinstance(configured, Unknown):
        return JOB_GPUS.undetermined(
            HOST, configured, what="the GPUs in the batch system's configuration", evidence=batch.evidence
        )
    if known(batch.kind) and batch.kind is not None:
        return JOB_GPUS.skipped(HOST, "a job sees its own GPUs only")
    if configured == len(gpus):
        return JOB_GPUS.passed(
            HOST,
            "the batch system's configuration contains all GPUs",
            observed=str(configured),
            evidence=batch.evidence,
        )
    return JOB_GPUS.warned(
        HOST,
        "the batch system's configuration has another number of GPUs than this machine",
        expected=f"Gres=gpu:{len(gpus)}",
        observed=f"{configured} in slurm.conf, {len(gpus)} here",
        remedy=Remedy(
            text="If a GPU is lost, see gpu-count; otherwise correct Gres in slurm.conf and gres.conf.",
            needs_root=True,
        ),
        evidence=batch.evidence,
    )
