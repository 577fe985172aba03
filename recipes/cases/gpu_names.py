"""GPUs by the names that people write: `A100-SXM-80GB`, `NVIDIA A100 80GB PCIe`, `RTX 3090`, `MI250X (GCD)`.

A name is taken apart into a model, a form (SXM, PCIe), memory and power. Rows of
`recipes/data/case_gpus.toml` with that model are candidates; what the name says besides, and the memory that
a case states, choose among them.
"""

from __future__ import annotations

import functools
import math
import re
from typing import NamedTuple

from probes.base.record import StrictRecord
from probes.catalogue.hardware import Catalogue, GpuModel
from recipes.planning.plan import Fabric, Transport
from recipes.rows import load_rows


class Design(StrictRecord, kw_only=True):
    """The machine that a GPU usually sits in."""

    id: str
    title: str
    fabric: Fabric
    gpus_per_node: int
    domain_gpus: int | None = None
    """GPUs of an NVLink domain that spans nodes."""
    network_gbps: float
    """All ports of a node together, one direction."""
    network_ports: int
    transport: Transport
    source: str
    date: str


class CaseGpu(StrictRecord, kw_only=True):
    """What a GPU of the catalogue is called."""

    gpu: str
    names: tuple[str, ...]
    form: str = ""
    design: str


class FourBitRate(StrictRecord, kw_only=True):
    """The dense 4-bit rate of a GPU whose catalogue row ends at 8 bits."""

    gpu: str
    flops_per_s: float
    source: str
    date: str


class Named(NamedTuple):
    """A name, taken apart."""

    model: str
    form: str
    memory_gb: float | None
    watts: float | None


class Found(NamedTuple):
    """The GPU that a name means."""

    row: GpuModel
    design: Design


@functools.lru_cache(maxsize=1)
def load_designs() -> dict[str, Design]:
    """All usual machines by id."""
    return {row.id: row for row in load_rows("designs", Design, file="case_gpus")}


@functools.lru_cache(maxsize=1)
def load_case_gpus() -> tuple[CaseGpu, ...]:
    """All named GPUs, of those with one name the usual one first."""
    return load_rows("case_gpus", CaseGpu)


@functools.lru_cache(maxsize=1)
def four_bit_rates() -> dict[str, FourBitRate]:
    """Dense 4-bit rates by the GPU's id."""
    return {row.gpu: row for row in load_rows("four_bit_rates", FourBitRate, file="case_gpus")}


@functools.lru_cache(maxsize=1)
def _by_name() -> dict[str, tuple[CaseGpu, ...]]:
    found: dict[str, tuple[CaseGpu, ...]] = {}
    for row in load_case_gpus():
        for name in row.names:
            found[name] = (*found.get(name, ()), row)
    return found


_SAYS_NOTHING = re.compile(
    r"nvidia|amd|intel|habana|tesla|geforce|instinct|radeon|gpus?|accelerator|tensor|core|graphics|card|generation|edition|oam|ac"
    r"|gcds?|die|pascal|volta|turing|ampere|hopper|blackwell|lovelace|ultra|hbm\de?|gddr\dx?|dgx|hgx|nvl\d+|\d+x|x\d+"
)
_FORMS = {"pcie": "pcie", "nvl": "nvl", "server": "server", "workstation": "workstation", "maxq": "maxq"}
_GLUED = re.compile(r"([a-z]+\d+[a-z]*?)(sxm\d?|pcie)")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)(?:gb|gib|g)")
_BARE_MEMORY = re.compile(r"[\s_-](\d{1,3})\s*$")
"""Of `A100-80`, where no GPU is called so with the number."""
_POWER = re.compile(r"(\d+)w")
_COUNT = re.compile(r"\d+x(?=[a-z])")
_LONGEST = 200


def taken_apart(name: str) -> Named:
    """The parts of a name, in whatever case, order and punctuation."""
    text = name[:_LONGEST].lower().replace("pci-e", "pcie").replace("max-q", "maxq")
    text = re.sub(r"(\d)\s+(gib|gb|g|w)\b", r"\1\2", text)
    model, form, memory, watts = [], "", None, None
    for word in re.findall(r"[a-z0-9]+(?:\.\d+[a-z]*)?", text):
        token = _COUNT.sub("", word)
        if glued := _GLUED.fullmatch(token):
            token, form = glued.groups()
        if token in _FORMS:
            form = form or _FORMS[token]
        elif re.fullmatch(r"sxm\d?", token):
            form = token
        elif found := _MEMORY.fullmatch(token):
            memory = float(found[1])
        elif found := _POWER.fullmatch(token):
            watts = float(found[1])
        elif not _SAYS_NOTHING.fullmatch(token):
            model.append(token)
    return Named("".join(model), form, memory, watts)


@functools.lru_cache(maxsize=4096)
def gpu_named(name: str, memory_gb: float | None, catalogue: Catalogue) -> Found | None:
    """The GPU of that name; `memory_gb` counts where the name does not say it. None where no row has such a
    name.
    """
    said = taken_apart(name)
    if said.model not in _by_name() and _BARE_MEMORY.search(name):
        said = taken_apart(_BARE_MEMORY.sub(r" \1GB", name))
    if said.memory_gb is None and memory_gb is not None:
        said = said._replace(memory_gb=memory_gb)
    best: tuple[tuple[float, ...], CaseGpu, GpuModel] | None = None
    for candidate in _by_name().get(said.model, ()):
        row = catalogue.model(candidate.gpu)
        if row is None:
            continue
        distance = (
            _form_distance(said.form, candidate.form),
            _distance(said.memory_gb, row.memory_bytes / 1024**3),
            _distance(said.watts, row.power_limit_w),
        )
        if best is None or distance < best[0]:
            best = (distance, candidate, row)
    return None if best is None else Found(best[2], load_designs()[best[1].design])


def _form_distance(said: str, has: str) -> int:
    if not said or said == has or not has:
        return 0
    if said.startswith("sxm") and has.startswith("sxm"):
        # `SXM` and `SXM4` are the usual module; the special one has to be named.
        return 1 if has == "sxm" else 2
    return 3


def _distance(said: float | None, has: float | None) -> float:
    """How far two figures are apart; rounding and units of 1000 or 1024 count for nothing."""
    if not said or not has:
        return 0.0
    apart = abs(math.log(said / has))
    return apart if apart > 0.12 else 0.0
