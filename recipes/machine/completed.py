"""Complete the facts from a paste with the GPU, the numbers and the network that options state.

A pasted topology, for example, shows distances and NVLinks but no names of GPUs. Values that the paste shows
have precedence over the usual values of machines with these GPUs. An option that contradicts the paste is an
error.
"""

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import nearest, suggestion
from probes.base.record import items_of, known, quoted
from probes.base.units import plural
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import Gpu, MachineFacts
from recipes.machine.cluster_records import MachineDescription
from recipes.machine.from_facts import describe_facts, network_of
from recipes.machine.from_words import MachineWords, NamedGpu, describe_words, gpu_named
from recipes.machine.link_words import inter_bandwidth_of, transport_of
from recipes.machine.ranks import training_gpus

MOST_GPUS = 1024
"""Several times the number of GPUs of the largest node; a larger number is a typing error."""
_SHOWN = 60


def required_gpu(name: str, catalogue: Catalogue) -> NamedGpu:
    """Return the GPU with this name, in any spelling that `predict` understands, and its usual machine.

    Raises UsageError with the nearest names if there is none.
    """
    named = gpu_named(name, None, catalogue) if name.isprintable() else None
    if named is not None:
        return named
    hint = suggestion(near_gpus(name, catalogue), "see `rigtune list gpus`")
    raise UsageError(f"gpu {quoted(name)} is not in the catalogue", hint)


def near_gpus(name: str, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the ids of at most three GPUs with names similar to this one."""
    # The usual GPU is the first of several rows with the same name. Reversed, it replaces the others.
    spellings = [(word.lower(), row.id) for row in catalogue.gpus for word in (*row.plain_names, row.id)]
    ids = dict(reversed(spellings))
    close = nearest(name, ids, most=6, cutoff=0.6)
    return tuple(dict.fromkeys(ids[spelling] for spelling in close))[:3]


def completed_facts(
    facts: MachineFacts, gpu: str, gpus_per_node: int | None, catalogue: Catalogue
) -> MachineFacts:
    """Return the facts with the name and the memory of the GPUs that a paste does not name.

    If the GPUs are unknown, the machine gets `gpus_per_node`, or as many as the usual machine. Raises
    UsageError for a GPU that is not in the catalogue, and if the paste shows that the machine has no GPUs,
    other GPUs or another number of GPUs than the user states.
    """
    row, design = required_gpu(gpu, catalogue)
    present = items_of(facts.gpus)
    if known(facts.gpus) and not present and facts.source:
        raise UsageError(f"--gpu {gpu[:_SHOWN]}, but {facts.source} shows a machine without GPUs", _ONE_OF)
    if not present:
        number = gpus_per_node or design.gpus_per_node
        return msgspec.structs.replace(facts, gpus=tuple(_gpu(index, row) for index in range(number)))
    if gpus_per_node is not None and len(present) != gpus_per_node:
        raise UsageError(
            f"--gpus {gpus_per_node}, but {facts.source or 'the paste'} shows {plural(len(present), 'GPU')}",
            _ONE_OF,
        )
    return msgspec.structs.replace(
        facts, gpus=tuple(_with_name(each, row, facts, catalogue) for each in present)
    )


_ONE_OF = "leave the option out, or paste the output of the machine that you mean"


def _gpu(index: int, row: GpuModel) -> Gpu:
    return Gpu(index=index, name=row.driver_name or row.id, memory_bytes=row.memory_bytes)


def _with_name(gpu: Gpu, row: GpuModel, facts: MachineFacts, catalogue: Catalogue) -> Gpu:
    """Return the GPU with the row's name and memory where they are unknown.

    Raises UsageError if the GPU has the name of another row.
    """
    if known(gpu.name):
        present = catalogue.gpu(gpu.name)
        if present is None or present.id != row.id:
            raise UsageError(
                f"--gpu {row.id}, but {facts.source or 'the paste'} shows {quoted(gpu.name)}", _ONE_OF
            )
    memory = gpu.memory_bytes if known(gpu.memory_bytes) else row.memory_bytes
    name = gpu.name if known(gpu.name) else row.driver_name or row.id
    return msgspec.structs.replace(gpu, name=name, memory_bytes=memory)


def describe_completed(
    facts: MachineFacts,
    gpu: str,
    catalogue: Catalogue,
    *,
    nodes: int,
    gpus_per_node: int | None = None,
    ranks_per_node: int | None = None,
    network: str = "",
) -> MachineDescription:
    """Describe `nodes` machines with the GPU that the user names and with the parts that the facts show.

    If the facts do not show GPUs, only their network is used, and all else is as in the usual machine. Raises
    UsageError for an unknown GPU, for impossible numbers, and if the user contradicts the facts.
    """
    required_network(network)
    if gpus_per_node is not None and gpus_per_node > MOST_GPUS:
        raise UsageError(
            f"--gpus is {gpus_per_node}, but is per node and may be at most {MOST_GPUS}",
            "give the GPUs of one node, and the number of nodes with --nodes",
        )
    completed = completed_facts(facts, gpu, gpus_per_node, catalogue)
    usable = len(training_gpus(completed))
    if not usable:
        raise UsageError(
            f"all GPUs of {facts.source or 'the paste'} are in MIG mode",
            "ranks cannot communicate between slices: turn MIG off, or plan for whole GPUs without --from",
        )
    ranks = usable if ranks_per_node is None else ranks_per_node
    if ranks > usable:
        raise UsageError(
            f"{ranks} ranks per node, but a node has {plural(usable, 'usable GPU')}", f"give at most {usable}"
        )
    words = MachineWords(gpu=gpu, gpus=ranks * nodes, gpus_per_node=ranks, inter=network)
    usual = describe_words(words, catalogue)
    own = network_of(facts)
    if own.line_rate_bytes_per_s is not None and network:
        raise UsageError(f"--network {quoted(network)}, but {facts.source} shows {own.source}", _ONE_OF)
    if not items_of(facts.gpus):
        described = usual
    else:
        described = describe_facts(completed, catalogue, nodes=nodes, ranks_per_node=ranks)
        described = msgspec.structs.replace(described, warnings=(*usual.warnings, *described.warnings))
        # A listing of the PCI bus shows no NVLinks, so they are unknown without a topology.
        if not any(link.sees_nvlink or link.kind == "NVLINK" for link in items_of(facts.links)):
            described = msgspec.structs.replace(described, links=usual.links)
    if own.line_rate_bytes_per_s is None:
        return msgspec.structs.replace(described, network=usual.network)
    return msgspec.structs.replace(described, network=own)


def required_network(words: str) -> str:
    """Return the words about a network. Raises UsageError if they name neither a rate nor a transport."""
    if words and inter_bandwidth_of(words, 1) is None and transport_of(words) == "unknown":
        raise UsageError(
            f"network {quoted(words)} names neither a rate nor a transport",
            'give the ports of a node, such as "8x400G IB", "4x200G RoCE" or "100G Ethernet"',
        )
    return words
