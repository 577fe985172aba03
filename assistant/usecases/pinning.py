"""Settings that the user pins as `NAME=VALUE`."""

from collections.abc import Callable
from typing import Any

import msgspec

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.job.pins import PINNED_WORDS, Pins


def pins_of(pinned: tuple[str, ...], **pins: Any) -> Pins:
    """Return the pins of `NAME=VALUE` texts and of other options. Raises UsageError for a wrong text."""
    values = {name: value for name, value in pins.items() if value is not None}
    for text in pinned:
        name, _, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in _PINS:
            raise UsageError(
                f"{quoted(text)} pins nothing", f"give NAME=VALUE with one of {', '.join(_PINS)}"
            )
        try:
            values[name] = _PINS[name](value.strip())
        except ValueError:
            kind = "number" if name == "recomputed_share" else "positive whole number"
            raise UsageError(f"the pin {quoted(text)} has no valid value", f"give a {kind}") from None
    try:
        return msgspec.convert(values, Pins)
    except msgspec.ValidationError as error:
        raise _wrong_pin(values) from error


def _wrong_pin(values: dict[str, Any]) -> UsageError:
    """Return the error about the first pin whose value is not one of the words that it may have."""
    for name, words in PINNED_WORDS.items():
        if name in values and values[name] not in words:
            return UsageError(
                f"there is no {name.replace('_', ' ')} {quoted(str(values[name]))}",
                f"give {', '.join(words)}",
            )
    return UsageError("a pinned setting has a wrong value", "see `rigtune plan --help`")


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 10**9:
        raise ValueError(text)
    return number


_PINS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("tp", "pp", "vp", "cp", "ep", "fsdp", "micro_batch", "grad_accum"), _positive),
    **dict.fromkeys(("strategy", "schedule", "sharding", "activation_checkpointing"), str),
    "recomputed_share": float,
}
PINNED_NAMES = tuple(_PINS)
"""Names of the settings that `NAME=VALUE` can pin."""
