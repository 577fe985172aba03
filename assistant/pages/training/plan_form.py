"""The form of a plan: its fields, their initial values, and the request of a filled form.

Every value is checked at its field, so that a mistake is reported beside its field.
"""

import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from assistant.usecases.pinning import PINNED_NAMES, pins_of
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Record, quoted
from probes.catalogue.hardware import load_catalogue
from recipes.job.models.files import names_model_file
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.job.workload import Tuning, Workload
from recipes.launch.launch_files import find_launcher
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.placeholders import PLACEHOLDERS
from recipes.launch.program_table import WRITTEN
from recipes.launch.recipe import Command
from recipes.launch.user_command import user_command
from recipes.machine.completed import required_gpu, required_network
from recipes.planning.plan import Plan
from recipes.planning.programs import load_programs, program_named, program_of_command

TASKS: dict[str, tuple[Tuning, bool | None]] = {
    "pretraining": ("full", False),
    "fine-tuning": ("full", True),
    "lora": ("lora", None),
    "qlora": ("qlora", None),
}
"""Words that the field `task` accepts, each with its tuning and whether a trained model is trained further
(None if the word does not decide this).
"""
REFERENCE = Command(kind="reference")
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
        raise UsageError(f"there is no program {quoted(text)}", hint)
    return text


def _task(text: str) -> tuple[Tuning, bool | None]:
    if text not in TASKS:
        raise UsageError(f"there is no task {quoted(text)}", f"give {', '.join(TASKS)}")
    return TASKS[text]


def _command(text: str) -> Command:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"the quotes do not match: {error}", "close each quote") from None
    return user_command(words)


def _launcher(text: str) -> str:
    return find_launcher(text).id


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER or int(text) < 1:
        raise UsageError(f"{quoted(text)} is not a positive whole number", "correct or clear the field")
    return int(text)


def _gpu(text: str) -> str:
    required_gpu(text, load_catalogue())
    return text


def _pins(text: str) -> Pins:
    return pins_of(tuple(text.replace(",", " ").split()))


FIELDS = (
    Field("model", "model", "preset or path of a model file", _model, ""),
    Field("program", "program", "training software", _program, ""),
    Field("task", "task", "pretraining, or adapters on a trained model", _task, ("full", None)),
    Field(
        "command",
        "command",
        "your own, such as train.py --lr {learning_rate}",
        _command,
        REFERENCE,
    ),
    Field("launcher", "launcher", "program or site that starts the ranks", _launcher, LAUNCHERS[0].id),
    Field("nodes", "nodes", "machines like this one, or with the GPUs below", _number, 1),
    Field("global_batch", "global batch", "sequences per optimizer step", _number),
    Field("sequence_length", "sequence length", "tokens", _number),
    Field("gpu", "gpu", "another GPU than this machine's", _gpu),
    Field("gpus", "gpus per node", "only with another gpu", _number),
    Field("network", "network", "only with another gpu; such as 8x400G IB per node", required_network),
    Field("pins", "pins", "such as tp=4 pp=2 strategy=fsdp", _pins, Pins()),
)


class JobRequest(Record, kw_only=True):
    """The plan that the user wants, the command that each rank runs, and the launcher to show first."""

    request: PlanRequest = PlanRequest()
    command: Command = REFERENCE
    launcher: str = LAUNCHERS[0].id


def form_values(job: JobRequest, plan: Plan | None) -> dict[str, str]:
    """Return the initial values of the form: the planned model, and the settings that the user chose.

    Fields whose values rigtune chose are left empty, so that rigtune may choose again.
    """
    request = job.request
    present = {
        **msgspec.structs.asdict(request),
        "task": (request.tuning, request.fine_tuning),
        "command": job.command,
        "launcher": job.launcher,
    }
    values = {field.name: _text(field, present[field.name]) for field in FIELDS}
    return values if plan is None else {**values, "model": request.model or plan.workload.model.id}


def _text(field: Field, value: object) -> str:
    if isinstance(value, Pins):
        known = ((name, getattr(value, name)) for name in PINNED_NAMES)
        return " ".join(f"{name}={pinned}" for name, pinned in known if pinned is not None)
    if value is None or (value == field.default and field.name != "nodes"):
        return ""
    if isinstance(value, Command):
        return shlex.join(("-m",) * (value.kind == "module") + (value.target, *value.arguments))
    if isinstance(value, tuple):
        return next(
            word for word, task in TASKS.items() if task[0] == value[0] and value[1] in (task[1], None)
        )
    return str(value)


def form_hints(plan: Plan | None) -> dict[str, str]:
    """Return the hint for each field, with the present value in the plan if there is a plan."""
    hints = {field.name: field.hint for field in FIELDS}
    if plan is not None:
        hints["global_batch"] += f", now {plan.workload.global_batch}"
        hints["program"] += f", now {plan.chosen.program}"
        if isinstance(plan.workload, Workload):
            hints["sequence_length"] += f", now {plan.workload.sequence_length}"
    return hints


def choices(name: str, text: str, models: tuple[str, ...]) -> str:
    """Return the words that a field accepts and that contain the typed text; empty if it lists no words.

    The fields `pins` and `command` contain several words. For `pins` all names are returned; for `command`
    only the placeholder at the end of the text counts.
    """
    rows = {
        "model": models,
        "program": tuple(load_programs()),
        "task": tuple(TASKS),
        "launcher": tuple(row.id for row in LAUNCHERS),
        "command": tuple(f"{{{name}}}" for name in PLACEHOLDERS),
        "gpu": tuple(row.id for row in load_catalogue().gpus),
        "pins": tuple(f"{pin}=" for pin in PINNED_NAMES),
    }
    wanted, most = text.strip().lower(), _MOST_CHOICES
    match name:
        case "pins":
            wanted, most = "", len(PINNED_NAMES)
        case "command":
            wanted = wanted[wanted.rfind("{") :] if "{" in wanted.rpartition("}")[2] else ""
    fitting = [row for row in rows.get(name, ()) if wanted in row.lower()]
    more = f" and {len(fitting) - most} more" if len(fitting) > most else ""
    return ", ".join(fitting[:most]) + more


class Filled(Record, kw_only=True):
    """A filled form: its job, or the complaints about its fields."""

    job: JobRequest | None = None
    complaints: dict[str, str] = {}
    """Complaint about each field with a wrong value, by the field's name."""


def read_form(values: dict[str, str], before: PlanRequest) -> Filled:
    """Return the job of a filled form, or the complaint about each wrong field.

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
    read["tuning"], read["fine_tuning"] = read.pop("task")
    command, launcher = read.pop("command"), read.pop("launcher")
    guessed = program_of_command((command.target, *command.arguments)) if command != REFERENCE else None
    request = msgspec.structs.replace(
        before,
        **{**read, "program": read["program"] or (guessed.id if guessed and guessed.id in WRITTEN else "")},
        keeps_program=command != REFERENCE,
    )
    return Filled(job=JobRequest(request=request, command=command, launcher=launcher))


def _contradictions(read: dict[str, Any]) -> dict[str, str]:
    """Return the complaints about fields that contradict other fields."""
    complaints = {}
    for name, what in (("gpus", "this number"), ("network", "this network")):
        if read.get(name) is not None and "gpu" in read and read["gpu"] is None:
            complaints[name] = f"{what} is only for a plan for another GPU; fill in the field gpu too"
    if read.get("program") and "task" in read:
        program = program_named(read["program"])
        if read["task"][0] not in program.tunings:
            complaints["task"] = f"{program.title} trains only {', '.join(program.tunings)}"
    if read.get("command", REFERENCE) != REFERENCE and not read.get("model", "unread"):
        complaints["model"] = "a plan for your command needs the model that it trains"
    return complaints
