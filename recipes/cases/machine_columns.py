"""The machine of a case, from the columns that describe it."""

from __future__ import annotations

from probes.base.errors import UsageError
from probes.catalogue.hardware import Catalogue
from recipes.cases.case import Case, CaseError
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_words import MachineWords, cluster_from_words


def cluster_of_case(case: Case, gpus: int, catalogue: Catalogue) -> Cluster:
    """Return the case's machine with `gpus` GPUs.

    Raises CaseError if neither catalogue nor columns describe the GPU.
    """
    words = MachineWords(
        gpu=case.gpu,
        gpus=gpus,
        gpus_per_node=case.gpus_per_node,
        intra=case.interconnect_intra,
        inter=case.interconnect_inter,
        memory_gb=case.gpu_mem_gb,
        peak_tflops=case.gpu_peak_tflops,
        bandwidth_gb_per_s=case.gpu_memory_bandwidth_gb_per_s,
    )
    try:
        return cluster_from_words(words, catalogue)
    except UsageError as error:
        raise CaseError(f"{error.message}: {error.hint}") from error
