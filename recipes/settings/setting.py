"""Records of the settings of a run, and what the user knows about the training."""

from typing import Literal

from probes.base.record import Record, StrictRecord
from recipes.job.training_recipes import RateSchedule
from recipes.machine.cluster_records import Basis


class Setting(Record, kw_only=True):
    """One setting with the words that justify it."""

    name: str
    value: float = 0.0
    """The number; 0 if only `text` has the setting."""
    text: str
    basis: Basis
    because: str
    alternatives: tuple[str, ...] = ()
    warning: str = ""
    source: str = ""
    """Publication or file of the value; empty if `because` names it."""


class Optimization(StrictRecord, kw_only=True):
    """Course of the learning rate, and the settings of the optimizer.

    The defaults are the settings of recipes that older versions wrote.
    """

    schedule: RateSchedule = "cosine"
    """Course of the learning rate after the warm-up."""
    final_share: float = 0.1
    """Learning rate of the last step, relative to the peak."""
    decay_share: float = 0.0
    """Part of the run in which the rate falls, for the schedule `wsd`."""
    beta1: float = 0.9
    """First decay of Adam; the momentum of SGD and LARS."""
    beta2: float = 0.95
    """Second decay of Adam; 0 for optimizers without one."""
    weight_decay: float = 0.1
    gradient_clipping: float = 0.0
    """Largest norm of the gradient; 0 if gradients are not clipped."""
    accumulation_dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Number format in which gradients are summed over micro-batches and ranks."""
    embedding_learning_rate: float = 0.0
    """Peak rate of embeddings and norms under muP; 0 if they have the rate of the other weights."""
    ramp_from: int = 0
    """Samples of the first steps if the batch grows; 0 if the batch is constant."""
    ramp_samples: int = 0
    """Samples after which the batch has its full size."""


class Stated(Record, kw_only=True):
    """Knowledge of the user about the training, and about the failures and the storage of the machine."""

    batch_is_given: bool = False
    """True if the user chose the global batch."""
    known_batch: int | None = None
    """Samples per step at which `known_rate` is known to be good."""
    known_rate: float | None = None
    known_width: int | None = None
    """Hidden size of the model of the known pair, if the rate is transferred over the width with muP."""
    noise_scale: float | None = None
    """Gradient noise scale that the user measured, in samples."""
    tokens: float | None = None
    """Tokens of the whole run; None if unknown."""
    training_recipe: str = ""
    """Id of the published recipe that the user chose; empty for the one that fits the task."""
    node_mtbf_hours: float | None = None
    """Mean time between failures of one node."""
    write_s: float | None = None
    """Seconds for which training stops to write a checkpoint."""
    write_bytes_per_s: float | None = None
    """Rate at which the whole job writes a checkpoint."""


NOTHING_STATED = Stated()
