"""Arbitrary machines: a hypothesis strategy for any record, made from its field types."""

from __future__ import annotations

import typing
from types import UnionType
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown

unknowns = st.builds(Unknown, st.sampled_from(Reason), st.sampled_from(("", "why")))

_STATES = (
    "ACTIVE",
    "INIT",
    "DOWN",
    "LinkUp",
    "InfiniBand",
    "Ethernet",
    "switch",
    "default",
    "completed",
    "active",
    "gpu_idle",
)
_TELLING = (*_STATES, "hw_slowdown", "12.4", "550.54.15", "9.0", "GPU0", "mlx5_0", "\x1b[2J", "²")
_WORDS = st.one_of(
    st.sampled_from((*_TELLING, "NVIDIA H100 80GB HBM3", "not supported")), st.text(min_size=1, max_size=8)
)
_NUMBERS = st.one_of(st.sampled_from((0, 1, -1, 16, 2**40)), st.integers(-(2**62), 2**62))


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type that a record's field can have."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Unknown:
        return unknowns
    if origin in (typing.Union, UnionType):
        return st.one_of([any_of(argument) for argument in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(any_of(arguments[0]), max_size=3).map(tuple)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = typing.get_type_hints(kind)
        return st.fixed_dictionaries(
            {}, optional={name: any_of(field) for name, field in fields.items()}
        ).map(lambda values: kind(**(_required(kind) | values)))
    basic: dict[Any, st.SearchStrategy[Any]] = {
        str: _WORDS,
        int: _NUMBERS,
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
    }
    return basic[kind]


def _required(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return plain values for the required fields."""
    hints = typing.get_type_hints(kind)
    plain = {str: "x", int: 0, float: 0.0}
    fields = msgspec.structs.fields(kind)
    return {field.name: _plain(hints[field.name], plain) for field in fields if field.required}


def _plain(kind: Any, plain: dict[Any, Any]) -> Any:
    if typing.get_origin(kind) is tuple:
        return ()
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not Unknown:
        return kind(**_required(kind))
    return plain.get(kind, Unknown(Reason.ERROR))
