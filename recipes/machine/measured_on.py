"""The machine on which measurements were taken, compared with the machine for which they are used."""

from collections import Counter

from probes.base.errors import UsageError
from probes.base.record import known, value_or
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import MeasuredMachine, Measurement, MeasurementSet
from recipes.machine.measured_rates import OTHER_DEVICES
from recipes.machine.ranks import training_gpus


def measured_machine(facts: MachineFacts) -> MeasuredMachine:
    """Return the description of the machine that a measurement run stores with its results."""
    return MeasuredMachine(
        hostname=value_or(facts.hostname, None) or "",
        gpus=tuple(gpu.name if known(gpu.name) else "" for gpu in training_gpus(facts)),
        cpu=value_or(facts.cpu.model, None) or "",
        cores=value_or(facts.cpu.physical_cores, None),
    )


def machine_of_run(measured: MeasurementSet) -> MeasuredMachine | None:
    """Return the machine of a run; None if neither the run nor its measurements state the device.

    Files of older versions name the device in the conditions of each measurement.
    """
    stated = measured.taken_on
    if stated is not None and (stated.gpus or stated.cpu):
        return stated
    hosts = [
        str(each.conditions["hostname"]) for each in measured.measurements if "hostname" in each.conditions
    ]
    on_gpu = [each for each in measured.measurements if "device_memory_bytes" in each.conditions]
    on_cpu = [
        each for each in measured.measurements if each.bench_id not in OTHER_DEVICES and _is_on_cpu(each)
    ]
    names = [str(each.conditions.get("device_name", "")) for each in on_gpu or on_cpu]
    if not names:
        return None
    host = hosts[0] if hosts else measured.machine.rpartition("-")[0]
    if on_gpu:
        return MeasuredMachine(hostname=host, gpus=tuple(sorted(set(names))), counted=False)
    return MeasuredMachine(hostname=host, cpu=names[0])


def _is_on_cpu(measurement: Measurement) -> bool:
    return measurement.subject == "CPU" or "cpu_capability" in measurement.conditions


def machine_words(machine: MeasuredMachine, name: str = "") -> str:
    """Return a machine in words: `node7 (8 x NVIDIA H100 80GB HBM3)`."""
    kinds = Counter(gpu or "unknown GPU" for gpu in machine.gpus)
    cores = f"{machine.cores} cores of " if machine.cores else ""
    parts = [f"{number} x {gpu}" if machine.counted else gpu for gpu, number in kinds.items()]
    parts = parts or [f"CPU, {cores}{machine.cpu or 'unknown model'}"]
    return f"{machine.hostname or name or 'unnamed machine'} ({', '.join(parts)})"


def require_same_machine(measured: MeasurementSet, facts: MachineFacts, name: str) -> str:
    """Return a remark for the user if the measured machine is unknown, or another host of the same kind.

    In all other cases the result is empty. `name` is the file of the measurements. Raises UsageError with
    both machines if the kind or the number of their GPUs differs, or, if neither has GPUs, the model or the
    cores of their CPUs. Values that one of them does not state are not compared.
    """
    if not measured.measurements:
        return ""
    mine, theirs = measured_machine(facts), machine_of_run(measured)
    here = machine_words(mine, facts.source)
    if theirs is None:
        return f"{name} does not state which machine was measured; its rates are used for {here}"
    if not _is_like(mine, theirs):
        raise UsageError(
            f"{name} was measured on {machine_words(theirs)}, not on {here}",
            "measure that machine with `rigtune bench -o FILE.json`, or leave the measurements out",
        )
    if mine.hostname and theirs.hostname and mine.hostname != theirs.hostname:
        return f"{name} was measured on {machine_words(theirs)}, of the same kind as {mine.hostname}"
    return ""


def _is_like(mine: MeasuredMachine, theirs: MeasuredMachine) -> bool:
    """Return whether the two machines agree in every fact about their devices that both of them state."""
    if not mine.gpus and not theirs.gpus:
        pairs = ((mine.cpu.split(), theirs.cpu.split()), (mine.cores, theirs.cores))
        return all(ours == other or not ours or not other for ours, other in pairs)
    kinds, others = Counter(map(_kind, mine.gpus)), Counter(map(_kind, theirs.gpus))
    is_counted = mine.counted and theirs.counted
    if is_counted and kinds.total() != others.total():
        return False
    if "" in kinds or "" in others:
        return bool(kinds) and bool(others)
    return kinds == others if is_counted else set(kinds) == set(others)


def has_gpu(machine: MeasuredMachine, name: str) -> bool:
    """Return whether the machine has GPUs of this kind; different spellings of the name are equal."""
    row = load_catalogue().gpu_named(name)
    return (_kind(name) if row is None else row.id) in map(_kind, machine.gpus)


def _kind(name: str) -> str:
    """Return the catalogue's id of a GPU, because tools spell its name differently."""
    row = load_catalogue().gpu(name) if name else None
    return " ".join(name.lower().split()) if row is None else row.id
