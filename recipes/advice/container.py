"""Observe what a training container needs on a machine, and write the options of Docker, Podman and LXD."""

import shlex
from collections.abc import Iterator

import yaml

from probes.base.record import NOT_RECORDED, Unknown, first_unknown, items_of, known
from probes.base.units import GIB, gib
from probes.facts import Gpu, value_of
from probes.judging.rails import candidate_interfaces
from probes.judging.reporting import fold_names
from recipes.advice.advice_lines import Document, Observed, absence, filled, matches, unread
from recipes.advice.machine_parts import Parts, figure

IMAGE = "IMAGE"
"""Placeholder for the user's image."""
IMEX_GPUS = ("gb200", "gb300")
"""GPUs of racks whose NVLink domain spans nodes."""
PROFILE = "rigtune-training"
_DEVICES_FIRST = ("uverbs", "rdma_cm")


def observe_container(parts: Parts) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/container.toml` that hold."""
    facts = parts.facts
    stack = facts.limits.stack_bytes
    words = {
        "stack": gib(stack) if isinstance(stack, int) else str(stack),
        "gpus": str(len(parts.gpus)) if known(facts.gpus) else "unknown",
        "nics": str(len(facts.nics)) if known(facts.nics) else "unknown",
    }
    yield Observed("always", words)
    yield from _gpus(parts)
    yield _shared_memory(parts)
    yield from _rdma(parts)
    yield from _network(parts)
    if "gdrdrv" in items_of(facts.software.modules):
        yield Observed("gdrcopy")
    channels = facts.software.imex_channels
    if known(channels) and channels > 0:
        yield Observed("imex", {"channels": str(channels)})
    elif isinstance(channels, Unknown) and any(row is not None and row.id in IMEX_GPUS for row in parts.rows):
        yield unread("imex_unknown", channels)
    files = [row.origin for row in items_of(facts.environment) if row.origin.endswith("nccl.conf")]
    for file in dict.fromkeys(files):
        yield Observed("nccl_conf", {"file": file})
    yield from _topology(parts)
    if isinstance(facts.container.runtime, str):
        yield Observed("inside_container", {"runtime": facts.container.runtime})


def _gpus(parts: Parts) -> Iterator[Observed]:
    facts, gpus = parts.facts, parts.gpus
    if parts.maker != "nvidia":
        condition = "other_accelerators" if parts.maker == "amd" else "accelerators_unsupported"
        yield Observed(condition, {"accelerators": parts.accelerators})
        return
    if not gpus:
        if isinstance(facts.gpus, Unknown):
            yield unread("gpus_unknown", facts.gpus)
        else:
            yield Observed("no_gpu")
        return
    divided = [gpu for gpu in gpus if gpu.mig_enabled is True]
    if divided:
        yield _instance(divided)
    else:
        modes = {"off" if gpu.mig_enabled is False else "unknown" for gpu in gpus}
        yield Observed("gpus_all", {"gpus": parts.accelerators, "mig": " and ".join(sorted(modes))})
    yield Observed("has_gpus", {"gpus": str(len(gpus))})
    version = facts.software.container_toolkit_version
    if isinstance(version, Unknown):
        yield unread("toolkit_unknown", version)
    elif version is None:
        yield Observed("toolkit_missing")
    else:
        yield Observed("toolkit_present", {"version": version})


def _instance(gpus: list[Gpu]) -> Observed:
    """Return the UUID, CDI name and PCI address of the first MIG instance, or why they are unknown."""
    devices = [
        (gpu, number, device) for gpu in gpus for number, device in enumerate(items_of(gpu.mig_devices))
    ]
    named = [(gpu, number, device.uuid) for gpu, number, device in devices if isinstance(device.uuid, str)]
    if not named or isinstance(named[0][0].pci_bus_id, Unknown):
        lists = first_unknown(*(gpu.mig_devices for gpu in gpus)) or NOT_RECORDED
        words = fold_names(f"GPU{gpu.index}" for gpu in gpus)
        return Observed("mig_unknown", {"gpus": words, "reason": lists.words})
    gpu, number, uuid = named[0]
    words_of = {
        "uuid": uuid,
        "cdi": f"{gpu.index}:{number}",
        "pci": str(gpu.pci_bus_id),
        "instances": str(len(devices)),
    }
    return Observed("gpu_mig", words_of)


def _shared_memory(parts: Parts) -> Observed:
    """Return the observation with the size of /dev/shm for NCCL and data loaders.

    The size is at most a part of the memory, and at least 64 MiB.
    """
    gpus, memory = len(parts.gpus), parts.facts.memory.total_bytes
    wanted = figure("shm_loader_gib") + figure("shm_gib_per_gpu") * gpus
    rule = (
        f"{figure('shm_loader_gib'):g} GiB for data loaders, {figure('shm_gib_per_gpu'):g} GiB for each GPU"
    )
    if isinstance(memory, Unknown):
        rule += "; the upper limit is not applied"
    else:
        share = figure("shm_most_of_memory")
        rule += f", at most {share:g} of the memory"
        wanted = min(wanted, memory / GIB * share)
    mebibytes = max(64, int(wanted * 1024))
    flag = f"{mebibytes // 1024}g" if mebibytes % 1024 == 0 else f"{mebibytes}m"
    words = {
        "size": gib(mebibytes * 2**20),
        "flag": flag,
        "gpus": str(gpus),
        "memory": str(memory) if isinstance(memory, Unknown) else gib(memory),
        "rule": rule,
    }
    return Observed("shm", words)


def _rdma(parts: Parts) -> Iterator[Observed]:
    facts = parts.facts
    if isinstance(facts.nics, Unknown):
        yield unread("rdma_unknown", facts.nics)
        return
    if not facts.nics:
        yield Observed("no_rdma")
        return
    words = {"ports": fold_names(dict.fromkeys(nic.name for nic in facts.nics))}
    yield Observed("rdma", words)
    if any(nic.device_type == "efa" for nic in facts.nics):
        yield Observed("efa", words)
    if any(nic.link_layer == "Ethernet" for nic in facts.nics):
        yield Observed("lxd_roce", words)
    devices = facts.container.rdma_devices
    if isinstance(devices, Unknown):
        yield unread("lxd_rdma_unknown", devices)
        return
    for device in devices:
        if device.startswith(_DEVICES_FIRST):
            yield Observed("lxd_rdma_device", {"device": device})


def _network(parts: Parts) -> Iterator[Observed]:
    facts = parts.facts
    interfaces = candidate_interfaces(facts)
    names = dict.fromkeys(nic.name for nic in items_of(facts.nics))
    names |= dict.fromkeys(each.name for each in items_of(interfaces))
    if names:
        yield Observed("several_nodes", {"network": fold_names(names)})
    elif isinstance(facts.nics, Unknown) or isinstance(interfaces, Unknown):
        yield unread("network_unknown", first_unknown(facts.nics, interfaces) or NOT_RECORDED)


def _topology(parts: Parts) -> Iterator[Observed]:
    facts = parts.facts
    file = value_of(facts, "NCCL_TOPO_FILE")
    if file:
        yield Observed("topology_file", {"file": file})
    elif parts.is_virtual and parts.gpus:
        provider = facts.cloud.provider
        is_azure = isinstance(provider, str) and provider.lower() == "azure"
        words = {"variable": absence(facts, "NCCL_TOPO_FILE")}
        yield Observed("topology_azure" if is_azure else "topology_unknown", words)


def container_documents(observations: tuple[Observed, ...]) -> tuple[Document, ...]:
    """Return the command lines of Docker and Podman, and LXD's profile with the commands that create it."""
    matched = matches("container", observations)
    profile: dict[str, dict[str, object]] = {"config": {}, "devices": {}}
    options: dict[str, list[str]] = {"docker": [], "podman": []}
    for row, observed in matched:
        for part, values in filled(row.settings, observed.words).items():
            profile[part] |= values
        for tool, flags in filled(row.flags, observed.words).items():
            options[tool] += flags
    documents = [
        Document(
            name=tool,
            purpose=f"Start a training container with {tool.capitalize()}",
            language="sh",
            text=_command(tool, flags),
        )
        for tool, flags in options.items()
    ]
    text = yaml.safe_dump(
        {"name": PROFILE, "description": "Training on GPUs, written by rigtune advise", **profile},
        sort_keys=False,
    )
    create = f"# lxc profile create {PROFILE}\n# lxc profile edit {PROFILE} < {PROFILE}.yaml\n"
    purpose = "A profile of LXD (Incus reads it too)"
    return *documents, Document(name="lxd", purpose=purpose, language="yaml", text=create + text)


def _command(tool: str, flags: list[str]) -> str:
    words = [f"{tool} run --rm -it", *map(shlex.quote, dict.fromkeys(flags)), IMAGE]
    return " \\\n  ".join(words) + "\n"
