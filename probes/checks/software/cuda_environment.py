"""Check that the variables of CUDA and of the threads suit this machine.

Source: NVIDIA/Megatron-LM, arguments.py, and pytorch/torchtitan#1147 (connections); CUDA C++ programming
guide, CUDA environment variables (visible devices); PyTorch performance tuning guide (threads).
"""

import itertools
import re
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.base.record import Unknown, first_unknown, items_of, only_known
from probes.base.units import plural
from probes.base.versions import at_least
from probes.catalogue.nccl_variables import load_variables
from probes.facts import Gpu
from probes.judging.environment_values import Variables, on_variables, removal, setting, variables_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

CONNECTIONS = Judge(
    check_id="cuda-connections",
    why="With only one queue to the GPU, communication waits behind computation, and sharded training "
    "loses its "
    "overlap.",
)
VISIBLE = Judge(
    check_id="cuda-visible-devices",
    why="Ranks find fewer GPUs than they need, or the wrong GPUs.",
)
INJECTION = Judge(
    check_id="cuda-injection",
    why="A tool that is loaded into the process slows every call down, and some tools distort measurements.",
)
THREADS = Judge(
    check_id="omp-threads",
    why="Too many threads wait for each other's cores; work on the CPU takes several times as long.",
)
_INJECTING = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
_TOOLS = (
    "libsanitizer",
    "libasan",
    "libtsan",
    "libcupti",
    "libnsys",
    "libToolsInjection",
    "libcuda-injection",
    "libvgpreload",
)
_DEVICE = pattern(r"(?:\d{1,4}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,80})")


@on_gpus(CONNECTIONS)
def cuda_connections(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    variables = (yield from variables_of(CONNECTIONS, evidence)) if gpus else None
    if variables is None:
        return
    variable = variables.get("CUDA_DEVICE_MAX_CONNECTIONS")
    if variable is None or not variable.value:
        yield CONNECTIONS.passed(HOST, "CUDA's default applies", observed="not set")
        return
    row = load_variables().find(variable.name)
    largest = row.maximum if row is not None and row.maximum is not None else 0
    number = int(variable.value) if re.fullmatch(r"\d{1,4}", variable.value) else 0
    if not 1 <= number <= largest:
        yield CONNECTIONS.warned(
            HOST,
            "CUDA_DEVICE_MAX_CONNECTIONS is out of range",
            expected=f"1 to {largest}",
            observed=setting(variable),
            remedy=Remedy(text="Remove it.", command=removal(variable)),
            evidence=variable.evidence,
        )
        return
    # A single connection keeps the kernels of tensor parallelism in order on Hopper and older; newer GPUs do
    # not need this.
    capabilities = [gpu.compute_capability for gpu in gpus]
    unread, limit = first_unknown(*capabilities), evidence.thresholds.cuda_connections_architecture
    newer = any(at_least(capability, limit.value) is True for capability in only_known(capabilities))
    if number == 1 and unread is not None and not newer:
        yield CONNECTIONS.undetermined(
            HOST, unread, what="the compute capability", evidence=variable.evidence
        )
    elif number == 1 and newer:
        yield CONNECTIONS.warned(
            HOST,
            "CUDA_DEVICE_MAX_CONNECTIONS=1 is for GPUs before Blackwell",
            expected="not set, or 32",
            observed=setting(variable),
            remedy=Remedy(
                text="Remove the variable; it is only needed on Hopper and older, to keep kernels of "
                "tensor parallelism in order.",
                command=removal(variable),
            ),
            evidence=variable.evidence,
        )
    else:
        hint = "; right for tensor parallelism in Megatron only, wrong for FSDP" if number == 1 else ""
        yield CONNECTIONS.passed(
            HOST,
            "the number of queues is in the allowed range",
            observed=setting(variable) + hint,
            evidence=variable.evidence,
        )


@on_gpus(VISIBLE)
def cuda_visible_devices(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    variables = (yield from variables_of(VISIBLE, evidence)) if gpus else None
    if variables is None:
        return
    variable = variables.get("CUDA_VISIBLE_DEVICES")
    if variable is None:
        yield VISIBLE.passed(HOST, "every GPU is visible to CUDA", observed="CUDA_VISIBLE_DEVICES is not set")
        return
    names = [name.strip() for name in variable.value.split(",")]

    def is_valid(name: str) -> bool:
        return bool(_DEVICE.fullmatch(name)) and not (name.isdecimal() and int(name) >= len(gpus))

    # CUDA stops reading at the first unknown name.
    valid = list(itertools.takewhile(is_valid, names))
    in_job = isinstance(evidence.facts.scheduler.kind, str)
    if not variable.value.strip():
        problem = "CUDA_VISIBLE_DEVICES is empty and hides every GPU"
    elif len(valid) < len(names) or len(set(valid)) < len(valid):
        problem = "CUDA_VISIBLE_DEVICES names a GPU that does not exist, or names the same GPU twice"
    elif len(valid) < len(gpus) and not in_job:
        problem = f"CUDA_VISIBLE_DEVICES hides {plural(len(gpus) - len(valid), 'GPU')}"
    else:
        yield VISIBLE.passed(
            HOST,
            "the GPUs of this machine or job are visible to CUDA",
            observed=setting(variable),
            evidence=variable.evidence,
        )
        return
    yield VISIBLE.warned(
        HOST,
        problem,
        expected=f"not set, or {plural(len(gpus), 'GPU')}",
        observed=setting(variable),
        remedy=Remedy(
            text="Remove the variable, and let the launcher assign the GPUs.", command=removal(variable)
        ),
        evidence=variable.evidence,
    )


@on_gpus(INJECTION)
def cuda_injection(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    variables = (yield from variables_of(INJECTION, evidence)) if gpus else None
    if variables is None:
        return
    injecting = [variables[name] for name in _INJECTING if name in variables and variables[name].value]
    preload = variables.get("LD_PRELOAD")
    if preload is not None and any(tool in preload.value for tool in _TOOLS):
        injecting.append(preload)
    if not injecting:
        yield INJECTION.passed(HOST, "no tool is injected into programs")
    for variable in injecting:
        yield INJECTION.warned(
            HOST,
            "a debugger or profiler is loaded into every program",
            expected="not set",
            observed=setting(variable),
            remedy=Remedy(
                text="Remove the variable, unless you want to profile this run.", command=removal(variable)
            ),
            evidence=variable.evidence,
        )


@on_variables(THREADS)
def omp_threads(variables: Variables, evidence: Evidence) -> Finding:
    variable, facts = variables.get("OMP_NUM_THREADS"), evidence.facts
    if variable is None or not variable.value:
        return THREADS.passed(
            HOST, "the launcher chooses the number of threads", observed="OMP_NUM_THREADS is not set"
        )
    first = variable.value.partition(",")[0].strip()
    number = int(first) if re.fullmatch(r"\d{1,6}", first) else 0
    cpus, ranks = facts.cpu.allowed_cpus, len(items_of(facts.gpus)) or 1
    if number == 0:
        return _threads(
            variable.value, "OMP_NUM_THREADS is not a number of threads", "a whole number, at least 1"
        )
    if isinstance(cpus, Unknown):
        return THREADS.undetermined(HOST, cpus, what="the number of CPUs", evidence=variable.evidence)
    if number * ranks > max(cpus, 1):
        return _threads(
            variable.value,
            f"{plural(ranks, 'rank')} of {plural(number, 'thread')} do not fit on {plural(cpus, 'CPU')}",
            f"at most {max(1, cpus // ranks)}",
        )
    return THREADS.passed(
        HOST, "the threads of all ranks fit", observed=setting(variable), evidence=variable.evidence
    )


def _threads(value: str, summary: str, expected: str) -> Finding:
    return THREADS.warned(
        HOST,
        summary,
        expected=expected,
        observed=f"OMP_NUM_THREADS={value[:40]}",
        remedy=Remedy(
            text="Give each rank an equal share of the physical cores, minus some cores for data loaders.",
            command="unset OMP_NUM_THREADS",
        ),
    )
