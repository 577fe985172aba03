"""Parameter servers and asynchronous SGD: ranks that do not wait for each other."""

import math

from probes.base.record import Reason, Unknown, items_of, value_or
from probes.base.units import duration, percent
from probes.catalogue.hardware import load_catalogue
from recipes.job.models.counts import parameter_count
from recipes.job.workload import Workload
from recipes.machine.cluster import catalogue_peaks
from recipes.strategies.compression import sent_bytes, with_traffic
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import (
    Situation,
    Verdict,
    inapplicable,
    judged,
    missing_setting,
    undecided,
)


def without_waiting(strategy: Strategy, here: Situation) -> Verdict:
    """Judge ranks that each send gradients to servers and fetch weights, without waiting for the others.

    The gain is the time in which the other ranks wait for the slowest rank. The cost is traffic on the node's
    link: every rank sends its gradients and receives the weights, while a ring sends the sum of the node's
    gradients once. The servers run on the same nodes. Rows of the embedding that none of the rank's tokens
    use need not be sent. Exposed communication is predicted again for this traffic.
    """
    if here.cluster.world_size == 1:
        return inapplicable(strategy, here, "there is one rank, which waits for nobody")
    if not here.is_plain:
        layout = here.plan.chosen.strategy
        return inapplicable(strategy, here, f"every rank must hold the whole model, and the plan is {layout}")
    if missing := missing_setting(strategy, here):
        return inapplicable(strategy, here, missing)
    total, waiting = here.total_s, waiting_share(here)
    if isinstance(total, Unknown) or isinstance(waiting, Unknown):
        reason = total if isinstance(total, Unknown) else waiting
        return undecided(strategy, here, f"{reason.detail if isinstance(reason, Unknown) else ''}")
    table, touched = embedding(here)
    dense = table * touched + 1 - table
    ranks = here.cluster.ranks_per_node if here.cluster.nodes > 1 else 1
    sent = strategy.figure("sent_bytes") + strategy.figure("returned_bytes")
    factor = dense * ranks * sent / (2 * sent_bytes(here.job))
    exposed = with_traffic(here, factor).exposed_communication
    if isinstance(exposed, Unknown):
        return undecided(strategy, here, exposed)
    step = (total - here.exposed_s) * (1 - waiting) + exposed
    alike = "" if waiting else "; GPUs of one kind count as equally fast"
    because = (
        f"the mean rank waits {percent(waiting)} of the step for the slowest one{alike}",
        f"every link carries {factor:.3g} times the bytes of an all-reduce: exposed communication "
        f"{duration(here.exposed_s)} -> {duration(exposed)}",
        f"the embedding has {percent(table)} of the weights, and a rank uses up to {percent(touched)} of its "
        "rows in a step"
        if table
        else "every weight has dense gradients: no embedding is separate from the head, so a rank can leave "
        "out no rows",
    )
    return judged(strategy, here, 1 - step / total, step, because)


def waiting_share(here: Situation) -> float | Unknown:
    """Return the part of a step that ranks on average wait for the slowest rank.

    The speeds are the datasheet rates of the GPUs in the facts. GPUs of one kind count as equally fast: the
    facts do not show which of them is slow.
    """
    catalogue, precision, gpus = load_catalogue(), here.plan.workload.precision, here.facts.gpus
    if isinstance(gpus, Unknown) and not here.cluster.gpu and here.cluster.device == "cuda":
        return Unknown(Reason.NOT_RECORDED, "nothing shows which GPUs there are")
    speeds = []
    for gpu in items_of(gpus):
        row = None if isinstance(gpu.name, Unknown) else catalogue.gpu_named(gpu.name)
        peaks = {} if row is None else catalogue_peaks((row,))
        if precision not in peaks:
            return Unknown(Reason.NOT_RECORDED, f"the speed of {value_or(gpu.name, 'a GPU')} is unknown")
        speeds.append(peaks[precision].value)
    return 1 - min(speeds) / (sum(speeds) / len(speeds)) if speeds else 0.0


def embedding(here: Situation) -> tuple[float, float]:
    """Return the embedding's share of all weights, and the largest share of its rows that a rank uses.

    Tokens are assumed to be drawn evenly from the vocabulary; real text repeats words and uses fewer rows.
    The result is 0 and 1 if no embedding is separate from the head.
    """
    workload = here.plan.workload
    if not isinstance(workload, Workload) or workload.model.tied_embeddings:
        return 0.0, 1.0  # a head that shares the table needs all rows
    model = workload.model
    tokens = here.plan.chosen.micro_batch * here.plan.chosen.grad_accum * workload.sequence_length
    table = model.vocab * (model.embedding_size or model.hidden)
    return table / parameter_count(model), 1.0 - math.pow(1.0 - 1.0 / model.vocab, tokens)
