"""Parse the names of GPUs that people write: `A100-SXM-80GB`, `RTX 3090`, `MI250X (GCD)`.

A name contains a model, and may contain a form (SXM, PCIe), memory and power. Rows of the catalogue with the
same model are candidates; the other parts of the name, and separately stated memory, select one of the
candidates.
"""

import math
import re
from typing import NamedTuple

from probes.base.patterns import pattern


class NameParts(NamedTuple):
    """Parts of the name of a GPU."""

    model: str
    form: str
    memory_gb: float | None
    watts: float | None


_IRRELEVANT = pattern(
    r"nvidia|amd|intel|habana|tesla|geforce|instinct|radeon|gpus?|accelerator|tensor|core|graphics|card"
    r"|generation|edition|oam|ac|gcds?|die|pascal|volta|turing|ampere|hopper|blackwell|lovelace|ultra"
    r"|hbm\de?|gddr\dx?|dgx|hgx|nvl\d+|\d+x|x\d+"
)
_FORMS = {"pcie": "pcie", "nvl": "nvl", "server": "server", "workstation": "workstation", "maxq": "maxq"}
_GLUED = pattern(r"([a-z]+\d+[a-z]*?)(sxm\d?|pcie)")
_MEMORY = pattern(r"(\d+(?:\.\d+)?)(?:gb|gib|g)")
_BARE_MEMORY = pattern(r"[\s_-](\d{1,3})\s*$")
"""Memory without a unit at the end of a name: `A100-80`."""
_POWER = pattern(r"(\d+)w")
_COUNT = pattern(r"\d+x(?=[a-z])")
_LONGEST = 200


def parts_of(name: str) -> NameParts:
    """Return the parts of a name in any case, order and punctuation."""
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
        elif size := _MEMORY.fullmatch(token):
            memory = float(size[1])
        elif power := _POWER.fullmatch(token):
            watts = float(power[1])
        elif not _IRRELEVANT.fullmatch(token):
            model.append(token)
    return NameParts("".join(model), form, memory, watts)


def with_unit(name: str) -> str:
    """Return the name with a unit added to a bare number at the end: `A100-80` becomes `A100 80GB`."""
    return _BARE_MEMORY.sub(r" \1GB", name)


def form_distance(stated: str, in_row: str) -> int:
    """Return the distance of the stated form from the form of a row; 0 if either form is unknown."""
    if not stated or stated == in_row or not in_row:
        return 0
    if stated.startswith("sxm") and in_row.startswith("sxm"):
        # `SXM` and `SXM4` mean the usual module; a special module such as `SXM3` must be named.
        return 1 if in_row == "sxm" else 2
    return 3


def size_distance(stated: float | None, in_row: float | None) -> float:
    """Return the logarithmic distance of two sizes; 0 if rounding or units of 1000 and 1024 explain it."""
    if not stated or not in_row:
        return 0.0
    apart = abs(math.log(stated / in_row))
    return apart if apart > 0.12 else 0.0
