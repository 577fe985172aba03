"""Checkpoints: their size, the time to write one, and the interval that loses the least time to failures."""

import math

import msgspec

from probes.base.record import Reason, Record, Unknown
from probes.base.units import GB, duration, gib, plural
from recipes.constants import constant
from recipes.job.models.blocks import blocks_of
from recipes.job.models.counts import parameter_count
from recipes.job.workload import STATE_BYTES, AnyWorkload, VisionWorkload
from recipes.machine.cluster_records import Cluster
from recipes.predict.shares import adapter_parameters
from recipes.settings.setting import Setting, Stated
from recipes.settings.timeouts import timeout_settings

_MASTER_BYTES = 4.0
"""Bytes of an fp32 weight (ZeRO, arXiv 1910.02054, section 3.1)."""
_EXAMPLE_RATES = (1.0, 10.0, 100.0)
"""Rates in GB/s for which the interval is shown if the time to write is unknown."""


class Checkpoints(Record, kw_only=True):
    """Checkpoints of the run."""

    bytes: float
    """Size of one checkpoint: fp32 weights and optimizer states of everything that is trained."""
    write_s: float | Unknown
    """Time for which training stops to write a checkpoint."""
    mtbf_s: float | Unknown
    """Mean time between failures of the whole job."""
    interval_s: float | Unknown
    """Time between two checkpoints that loses the least time."""
    every_steps: int | Unknown
    """Steps between two checkpoints.

    If the time to write is unknown, the number is that of an assumed storage, or Unknown for a run that is
    shorter than the interval on any usual storage.
    """


def young_interval(write_s: float, mtbf_s: float) -> float:
    """Return the best time between checkpoints by Young 1974 (CACM 17(9)): sqrt(2 write mtbf)."""
    return math.sqrt(2 * write_s * mtbf_s)


def daly_interval(write_s: float, mtbf_s: float) -> float:
    """Return the best time of work between two checkpoints by Daly 2006 (FGCS 22(3), equation 37).

    This is Young's interval with higher-order terms, minus the time to write. If writing takes at least twice
    the mean time between failures, the interval equals the mean time between failures.
    """
    if write_s >= 2 * mtbf_s:
        return mtbf_s
    root = math.sqrt(write_s / (2 * mtbf_s))
    return young_interval(write_s, mtbf_s) * (1 + root / 3 + root**2 / 9) - write_s


def checkpoint_bytes(workload: AnyWorkload) -> float:
    """Return the bytes of a checkpoint from which training can resume.

    It holds fp32 weights and optimizer states of everything that is trained; a frozen model is not saved.
    """
    return trained_parameters(workload) * (_MASTER_BYTES + STATE_BYTES[workload.optimizer])


def trained_parameters(workload: AnyWorkload) -> float:
    """Return the number of parameters that the optimizer changes."""
    if isinstance(workload, VisionWorkload):
        return float(workload.model.parameters)
    if workload.tuning == "full":
        return float(parameter_count(workload.model))
    # Adapters are counted on every linear layer: an upper bound, because a program may adapt fewer.
    return float(
        sum(
            block.count * adapter_parameters(block, workload.adapter_rank, "all")
            for block in blocks_of(workload.model)
            if not block.extra
        )
    )


def job_mtbf_s(cluster: Cluster, stated: Stated) -> tuple[float | Unknown, str]:
    """Return the mean time between failures of the whole job, and its source in words."""
    if stated.node_mtbf_hours is not None:
        words = f"{stated.node_mtbf_hours:g} hours between failures of a node, as you stated"
        return stated.node_mtbf_hours * 3600 / cluster.nodes, words
    if cluster.device != "cuda":
        return Unknown(Reason.NOT_RECORDED, "give --node-mtbf: no failure rate of CPU nodes is known"), ""
    rate = constant("interruptions_per_gpu_hour") * cluster.world_size
    return 3600 / rate, "the rate of Llama 3's run (arXiv 2407.21783, section 3.3.4)"


def write_time_s(cluster: Cluster, stated: Stated, size: float) -> tuple[float | Unknown, str]:
    """Return the seconds to write a checkpoint of `size` bytes, with the source in words.

    A measured rate is that of one node, so the time is an upper bound if several nodes write at once.
    """
    if stated.write_s is not None:
        return stated.write_s, "as you stated"
    if stated.write_bytes_per_s is not None:
        rate = stated.write_bytes_per_s
        return size / rate, f"{gib(size)} at {rate / GB:g} GB/s"
    measured = cluster.write_bytes_per_s
    if measured is not None:
        words = f"{gib(size)} at {measured.value / GB:.3g} GB/s of one node ({measured.source})"
        return size / measured.value, words
    missing = "give --write-bandwidth or --checkpoint-write, or measure with `rigtune bench --suite full`"
    return Unknown(Reason.NOT_RECORDED, missing), ""


def checkpoints_of(
    workload: AnyWorkload, cluster: Cluster, stated: Stated, step_s: float | Unknown
) -> tuple[Checkpoints, tuple[Setting, ...]]:
    """Return the checkpoints of a run whose steps take `step_s` seconds, and the decisions about them.

    The decisions include the time-outs, which depend on the time to write a checkpoint.
    """
    size = checkpoint_bytes(workload)
    mtbf, failures = job_mtbf_s(cluster, stated)
    write_s, how = write_time_s(cluster, stated, size)
    run_s = step_s if isinstance(step_s, Unknown) else step_s * workload.steps
    interval: float | Unknown
    # The interval that the training program gets; it is an assumed one where the time to write is unknown.
    used: float | Unknown
    if isinstance(mtbf, Unknown):
        interval = used = mtbf
        setting = _unknown_interval(size, mtbf, run_s)
    elif isinstance(write_s, Unknown):
        interval = used = write_s
        if not isinstance(run_s, Unknown) and run_s <= _shortest_interval(size, mtbf):
            setting = _at_the_end(size, mtbf, failures, run_s)
        else:
            used = daly_interval(size / constant("assumed_write_bytes_per_s"), mtbf)
            setting = _assumed_interval(size, mtbf, failures, used, write_s)
    else:
        interval = used = daly_interval(write_s, mtbf)
        setting = Setting(
            name="checkpoint_interval",
            value=interval,
            text=duration(interval),
            basis="modelled",
            because=f"Daly 2006 with {duration(write_s)} to write ({how}) and a failure every "
            f"{_long(mtbf)} ({failures}); Young 1974: {duration(young_interval(write_s, mtbf))}",
        )
    every = _steps(used, step_s)
    if not isinstance(every, Unknown):
        because = setting.because
        if every >= workload.steps:
            because += f"; the run has only {plural(workload.steps, 'step')}, so save at its end"
        text = f"{plural(every, 'step')} ({setting.text})"
        setting = msgspec.structs.replace(setting, text=text, because=because)
    plan = Checkpoints(bytes=size, write_s=write_s, mtbf_s=mtbf, interval_s=interval, every_steps=every)
    return plan, (setting, *timeout_settings(cluster, write_s))


def _long(seconds: float) -> str:
    """Return a duration; days from three days on."""
    days = seconds / 86400
    return f"{days:.0f} days" if days >= 3 else duration(seconds)


def _steps(interval: float | Unknown, step_s: float | Unknown) -> int | Unknown:
    if isinstance(interval, Unknown):
        return interval
    return step_s if isinstance(step_s, Unknown) else max(1, round(interval / step_s))


def _unknown_interval(size: float, missing: Unknown, run_s: float | Unknown) -> Setting:
    """Return the decision without an interval, with a warning if the run is long."""
    is_short = not isinstance(run_s, Unknown) and run_s <= constant("checkpoint_interval_s")
    return Setting(
        name="checkpoint_interval",
        text="unknown",
        basis="rule",
        because=f"a checkpoint has {gib(size)}; {missing.detail}",
        warning=""
        if is_short
        else f"no checkpoint interval is known, so a program saves only at its last step: {missing.detail}",
    )


def _assumed_interval(size: float, mtbf: float, failures: str, interval: float, missing: Unknown) -> Setting:
    """Return the decision for a slow storage, with the intervals for other rates, and a warning."""
    shown = ", ".join(
        f"{duration(daly_interval(size / (rate * GB), mtbf))} at {rate:g} GB/s" for rate in _EXAMPLE_RATES
    )
    rate = f"{constant('assumed_write_bytes_per_s') / GB:g} GB/s"
    return Setting(
        name="checkpoint_interval",
        value=interval,
        text=duration(interval),
        basis="rule",
        because=f"assumed for a storage of {rate}: a checkpoint has {gib(size)}, and a failure is expected "
        f"every {_long(mtbf)} ({failures}): {shown}; {missing.detail}",
        warning=f"the checkpoint interval of {duration(interval)} is assumed for a storage that writes "
        f"{rate}: {missing.detail}",
    )


def _shortest_interval(size: float, mtbf: float) -> float:
    """Return the interval in seconds on the fastest of the example storages."""
    return daly_interval(size / (max(_EXAMPLE_RATES) * GB), mtbf)


def _at_the_end(size: float, mtbf: float, failures: str, run_s: float) -> Setting:
    """Return the decision for a run that is shorter than the interval on any usual storage."""
    return Setting(
        name="checkpoint_interval",
        text="end of run",
        basis="rule",
        because=f"the run takes {duration(run_s)}, and the best interval is longer on any usual storage: "
        f"{duration(_shortest_interval(size, mtbf))} at {max(_EXAMPLE_RATES):g} GB/s, for a checkpoint of "
        f"{gib(size)} and a failure every {_long(mtbf)} ({failures})",
    )


def loading_warning(cluster: Cluster, data_s: float | Unknown, step_s: float | Unknown) -> str:
    """Return a warning if training waits for its data; empty if it does not, or if this is unknown."""
    if isinstance(data_s, Unknown) or isinstance(step_s, Unknown) or data_s <= 0:
        return ""
    limit = "the data loader" if cluster.reads_per_s is None else "the storage or the data loader"
    return (
        f"each step waits {duration(data_s)} of {duration(step_s)} for data: {limit} was measured to be "
        "slower than the training step"
    )
