"""The form of a plan: its fields, their initial values, and the request of a filled form.

Every value is checked at its field, so that a mistake is reported beside its field.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from assistant.usecases.plan import PINNED_NAMES, PlanRequest, pins_of
from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Record
from probes.catalogue.hardware import load_catalogue
from recipes.job.models.files import names_model_file
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.job.workload import Tuning, Workload
from recipes.machine.completed import required_gpu, required_network
from recipes.planning.plan import Plan
from recipes.planning.programs import load_programs, program_named

TUNINGS: tuple[Tuning, ...] = ("full", "lora", "qlora")
_LONGEST_NUMBER = 9
_MOST_CHOICES = 12


class Field(NamedTuple):
    """A field of the form."""

    name: str
    label: str
    hint: str
    read: Callable[[str], Any]
    """Function that returns the value of a text that is not empty, or raises UsageError."""
    default: Any = None
    """Value of an empty field."""


def _model(text: str) -> str:
    if not names_model_file(text) and "/" not in text:
        find_model(text)
    return text


def _program(text: str) -> str:
    rows = load_programs()
    if text not in rows:
        hint = did_you_mean(text, rows) or "see `rigtune list programs`"
        raise UsageError(f"there is no program {text[:30]!r}", hint)
    return text


def _tuning(text: str) -> str:
    if text not in TUNINGS:
        raise UsageError(f"there is no tuning {text[:20]!r}", f"give {', '.join(TUNINGS)}")
    return text


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER or int(text) < 1:
        raise UsageError(f"{text[:20]!r} is not a positive whole number", "correct or clear the field")
    return int(text)


def _gpu(text: str) -> str:
    required_gpu(text, load_catalogue())
    return text


def _pins(text: str) -> Pins:
    return pins_of(tuple(text.replace(",", " ").split()))


FIELDS = (
    Field("model", "model", "preset or path of a model file", _model, ""),
    Field("program", "program", "training software", _program, ""),
    Field("tuning", "tuning", "all weights, or adapters", _tuning, "full"),
    Field("global_batch", "global batch", "sequences per optimizer step", _number),
    Field("sequence_length", "sequence length", "tokens", _number),
    Field("nodes", "nodes", "machines like this one, or with the GPUs below", _number, 1),
    Field("gpu", "gpu", "another GPU than this machine's", _gpu),
    Field("gpus", "gpus per node", "for gpu", _number),
    Field("network", "network", "of a node, for gpu, such as 8x400G IB", required_network),
    Field("pins", "pins", "such as tp=4 pp=2 strategy=fsdp", _pins, Pins()),
)


def form_values(request: PlanRequest, plan: Plan | None) -> dict[str, str]:
    """Return the initial values of the form: the planned model, and the settings that the user chose.

    Fields whose values rigtune chose are left empty, so that rigtune may choose again.
    """
    values = {field.name: _text(field, getattr(request, field.name)) for field in FIELDS}
    return values if plan is None else {**values, "model": request.model or plan.workload.model.id}


def _text(field: Field, value: object) -> str:
    if isinstance(value, Pins):
        known = ((name, getattr(value, name)) for name in PINNED_NAMES)
        return " ".join(f"{name}={pinned}" for name, pinned in known if pinned is not None)
    if value is None or (value == field.default and field.name != "nodes"):
        return ""
    return str(value)


def form_hints(plan: Plan | None) -> dict[str, str]:
    """Return the hint for each field, with the present value in the plan if there is a plan."""
    hints = {field.name: field.hint for field in FIELDS}
    if plan is not None:
        hints["global_batch"] += f", now {plan.workload.global_batch}"
        hints["program"] += f", now {plan.chosen.program}"
        if isinstance(plan.workload, Workload):
            hints["sequence_length"] += f", now {plan.workload.sequence_length}"
            hints["tuning"] += f", now {plan.workload.tuning}"
    return hints


def choices(name: str, text: str, models: tuple[str, ...]) -> str:
    """Return the words that a field accepts, as far as the typed text allows; blank for a free field."""
    rows = {
        "model": models,
        "program": tuple(load_programs()),
        "tuning": TUNINGS,
        "gpu": tuple(row.id for row in load_catalogue().gpus),
        "pins": tuple(f"{pin}=" for pin in PINNED_NAMES),
    }
    wanted = text.strip().lower()
    listed = rows.get(name, ())
    fitting = [row for row in listed if wanted in row.lower()] if wanted and name != "pins" else list(listed)
    more = f" and {len(fitting) - _MOST_CHOICES} more" if len(fitting) > _MOST_CHOICES else ""
    most = len(fitting) if name == "pins" else _MOST_CHOICES
    return ", ".join(fitting[:most]) + (more if most < len(fitting) else "")


class Filled(Record, kw_only=True):
    """A filled form: its request, or the complaints about its fields."""

    request: PlanRequest | None = None
    complaints: dict[str, str] = {}
    """Complaint about each field with a wrong value, by the field's name."""


def read_form(values: dict[str, str], before: PlanRequest) -> Filled:
    """Return the request of a filled form, or the complaint about each wrong field.

    Settings without a field keep the values of the previous request.
    """
    read: dict[str, Any] = {}
    complaints: dict[str, str] = {}
    for field in FIELDS:
        text = values.get(field.name, "").strip()
        try:
            read[field.name] = field.read(text) if text else field.default
        except UsageError as error:
            complaints[field.name] = f"{error.message}; {error.hint}" if error.hint else error.message
    complaints = {**_contradictions(read), **complaints}
    if complaints:
        return Filled(complaints=complaints)
    pins = msgspec.structs.asdict(read["pins"])
    kept = {name: getattr(before.pins, name) for name in pins if name not in PINNED_NAMES}
    read["pins"] = Pins(**{**pins, **kept})
    return Filled(request=msgspec.structs.replace(before, **read))


def _contradictions(read: dict[str, Any]) -> dict[str, str]:
    """Return the complaints about fields that contradict other fields."""
    complaints = {}
    for name, what in (("gpus", "this number"), ("network", "this network")):
        if read.get(name) is not None and "gpu" in read and read["gpu"] is None:
            complaints[name] = f"{what} describes nodes of another GPU; name that GPU too"
    if read.get("program") and read.get("tuning"):
        program = program_named(read["program"])
        if read["tuning"] not in program.tunings:
            complaints["tuning"] = f"{program.title} trains only {', '.join(program.tunings)}"
    return complaints
