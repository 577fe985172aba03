"""Time-outs of a job: the default of the software, or more if writing a checkpoint takes longer."""

import functools
import math
from collections.abc import Iterator

from probes.base.record import StrictRecord, Unknown
from probes.base.rows import load_rows
from probes.base.units import duration
from recipes.machine.cluster_records import Cluster
from recipes.settings.setting import Setting

_MINUTE_S = 60


class Timeout(StrictRecord, kw_only=True):
    """One time-out."""

    id: str
    setting: str
    """Name of the setting in the software that has it."""
    default_s: float
    gloo_default_s: float | None = None
    """Default on a CPU, if it differs."""
    write_factor: float = 0.0
    """Least time-out relative to the time to write a checkpoint; 0 if both are independent."""
    needs_cuda: bool = False
    needs_nodes: bool = False
    """True if only a job of several nodes has this time-out."""
    needs_write: bool = False
    """True if the time-out matters only if the time to write a checkpoint is known."""
    why: str
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_timeouts() -> dict[str, Timeout]:
    """Return all rows of `recipes/data/timeouts.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "timeouts", Timeout)}


def timeout_settings(cluster: Cluster, write_s: float | Unknown) -> Iterator[Setting]:
    """Yield the time-outs of a job on this machine, in whole minutes if they exceed the default.

    A job with one rank has none.
    """
    if cluster.world_size == 1:
        return
    for row in load_timeouts().values():
        is_missing = (
            (row.needs_cuda and cluster.device != "cuda")
            or (row.needs_nodes and cluster.nodes == 1)
            or (row.needs_write and isinstance(write_s, Unknown))
        )
        if is_missing:
            continue
        default = row.default_s
        if cluster.device == "cpu" and row.gloo_default_s is not None:
            default = row.gloo_default_s
        least = 0.0 if isinstance(write_s, Unknown) else row.write_factor * write_s
        seconds = default
        because = f"{row.why} ({row.setting})"
        if least > default:
            seconds = math.ceil(least / _MINUTE_S) * _MINUTE_S
            writing = duration(least / row.write_factor)
            because = f"{row.write_factor:g} times the {writing} to write a checkpoint: {because}"
        yield Setting(
            name=row.id,
            value=seconds,
            text=f"{seconds:g} s",
            basis="rule",
            because=because,
            source=row.source,
        )
