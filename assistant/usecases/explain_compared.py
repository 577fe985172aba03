"""Compare the logs of a run with its recipe and its machine, and report the differences as events.

Rows of `probes/data/causes.toml` may ask for these events. Their line number is 0: no log contains them.

machine.check{check, subject, told}: a check of `rigtune check` that the machine does not pass.
machine.port{name, port, gbps}: an active RDMA port.
machine.gpu{name}: one for each GPU model.
recipe.variable{name, value}: a variable of the recipe.
compared.variable{name, wanted, had}: another value; "" if the variable is not set.
compared.ranks{wanted, had, told}: another number of ranks.
compared.sockets{active, told}: sockets on a machine with active RDMA ports.
compared.nics-unused{names, share, told}: unused active ports of a kind that was used; share: used part.
compared.nics-other{names, share, told}: the same for ports of another kind.
compared.nics-strange{names, told}: ports that the machine does not have.
compared.nccl{had, told}: another NCCL than the training interpreter contains.
compared.gpus{had, told}: more ranks on a node than the machine has GPUs.
compared.interface{name, told}: an interface that the machine does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assistant.usecases.check import check_machine, evidence_under
from assistant.usecases.events import FindingMade
from probes.base.record import known
from probes.base.versions import numbers_of
from probes.facts import MachineFacts, Nic
from probes.judging.findings import Status
from probes.judging.policies.policy import Policy
from probes.logs.event import Event, Value
from probes.logs.events.log_record import untyped
from recipes.launch.recipe import Recipe

_READ_BY_NCCL = ("NCCL_", "RCCL_")
_COMPARED = "compared."
_MOST_FINDINGS = 64


def known_beside(
    events: Iterable[Event], recipe: Recipe | None, machine: MachineFacts | None
) -> tuple[Event, ...]:
    """Return the events of the recipe and the machine, and the differences of the run from both.

    Values that the log does not contain are not compared.
    """
    logged = list(events)
    beside: list[Event] = []
    if recipe is not None:
        beside += [*_variables(recipe), *_environment(logged, recipe), *_ranks(logged, recipe)]
    if machine is not None:
        beside += [
            *_hardware(machine),
            *_network(logged, machine),
            *_software(logged, machine),
            *_checks(machine),
        ]
    return tuple(beside)


def differences_in(beside: Iterable[Event]) -> tuple[str, ...]:
    """Return the differences of the run as sentences."""
    return tuple(event.text for event in beside if event.kind.startswith(_COMPARED))


def _event(kind: str, source: str, text: str, *, host: str | None = None, **fields: Value) -> Event:
    return Event(what=untyped(kind, fields), source=source, number=0, text=text, host=host)


def _differs(kind: str, statement: str, **fields: Value) -> Event:
    return _event(kind, "machine", statement, host=None, told=statement, **fields)


def _variables(recipe: Recipe) -> Iterator[Event]:
    for variable in recipe.environment:
        words = f"{variable.name}={variable.value}"
        yield _event("recipe.variable", "recipe", words, name=variable.name, value=variable.value)


def _environment(events: list[Event], recipe: Recipe) -> Iterator[Event]:
    """Compare the recipe's variables with those that NCCL logs; NCCL logs a variable when it reads it."""
    logged: dict[str, set[str]] = {}
    for event in events:
        if event.kind == "nccl.environment":
            logged.setdefault(str(event.fields.get("name", "")), set()).add(
                str(event.fields.get("value", "")).strip()
            )
    if not logged:
        return

    def differs(name: str, wanted: str, had: str, text: str) -> Event:
        return _event("compared.variable", "recipe", f"{name}: {text}", name=name, wanted=wanted, had=had)

    for variable in recipe.environment:
        name, values = variable.name, logged.get(variable.name)
        if values is not None and values != {variable.value}:
            had = ", ".join(sorted(values))
            yield differs(name, variable.value, had, f"the recipe says {variable.value}, the run had {had}")
        elif values is None and name.startswith(_READ_BY_NCCL):
            yield differs(name, variable.value, "", f"the recipe says {variable.value}, the log names none")
    for name in sorted(logged.keys() - {variable.name for variable in recipe.environment}):
        if name.startswith(_READ_BY_NCCL):
            had = ", ".join(sorted(logged[name]))
            yield differs(name, "", had, f"the run had {had}, the recipe says none")


def _ranks(events: list[Event], recipe: Recipe) -> Iterator[Event]:
    counts = {
        event.fields["ranks"]
        for event in events
        if event.kind == "nccl.init-start" and "ranks" in event.fields
    }
    had = max((count for count in counts if isinstance(count, int)), default=None)
    wanted = recipe.parallelism.world_size
    if had is not None and had != wanted:
        text = f"the recipe has {wanted} ranks, the largest communicator of the run {had}"
        yield _event("compared.ranks", "recipe", text, wanted=wanted, had=had, told=text)


def _hardware(machine: MachineFacts) -> Iterator[Event]:
    for nic in machine.nics if known(machine.nics) else ():
        if nic.state == "ACTIVE" and known(nic.rate_gbps):
            words = f"{nic.name} port {nic.port}: {nic.rate_gbps:g} Gb/s"
            yield _event("machine.port", "machine", words, name=nic.name, port=nic.port, gbps=nic.rate_gbps)
    models = {gpu.name for gpu in machine.gpus if known(gpu.name)} if known(machine.gpus) else set()
    for model in sorted(models):
        yield _event("machine.gpu", "machine", model, name=model)


def _network(events: list[Event], machine: MachineFacts) -> Iterator[Event]:
    if not known(machine.nics):
        return
    active = {nic.name: nic for nic in machine.nics if nic.state == "ACTIVE"}
    networks = {str(event.fields.get("name")) for event in events if event.kind == "nccl.network"}
    if active and networks == {"Socket"}:
        statement = f"the machine has {len(active)} active RDMA ports ({', '.join(sorted(active))})"
        yield _event(
            "compared.sockets",
            "machine",
            f"{statement}, the run used sockets",
            active=len(active),
            told=statement,
        )
    # NCCL lists ports as `mlx5_0:1`, separated by commas or spaces.
    lists = [str(event.fields.get("names", "")) for event in events if event.kind == "nccl.hcas"]
    used = {word.partition(":")[0] for names in lists for word in names.replace(",", " ").split()}
    kinds = {_kind(active[name]) for name in used if name in active}
    unused = {name for name in active if name not in used} if used else set()
    alike = {name for name in unused if _kind(active[name]) in kinds}
    for kind, names in (("compared.nics-unused", alike), ("compared.nics-other", unused - alike)):
        if names:
            listed = ", ".join(sorted(names))
            statement = f"active RDMA ports that the run did not use: {listed}"
            share = round(len(used) / (len(used) + len(names)), 2)
            yield _differs(kind, statement, names=listed, used=len(used), share=share)
    strange = used - {nic.name for nic in machine.nics}
    if strange:
        listed = ", ".join(sorted(strange))
        statement = f"RDMA ports of the run that this machine does not have: {listed}"
        yield _differs("compared.nics-strange", statement, names=listed)


def _software(events: list[Event], machine: MachineFacts) -> Iterator[Event]:
    brought = machine.training.nccl_version
    versions = {str(event.fields.get("version", "")) for event in events if event.kind == "nccl.version"}
    if (
        isinstance(brought, str)
        and versions
        and not any(numbers_of(version) == numbers_of(brought) for version in versions)
    ):
        had = ", ".join(sorted(versions))
        yield _differs(
            "compared.nccl", f"the run loaded NCCL {had}, the training interpreter brings {brought}", had=had
        )
    ranks = [event.fields.get("local_ranks") for event in events if event.kind == "nccl.comm-shape"]
    most = max((count for count in ranks if isinstance(count, int)), default=0)
    if known(machine.gpus) and machine.gpus and most > len(machine.gpus):
        yield _differs(
            "compared.gpus", f"{most} ranks run on a node, the machine has {len(machine.gpus)} GPUs", had=most
        )
    if known(machine.interfaces) and machine.interfaces:
        there = {interface.name for interface in machine.interfaces}
        named = dict.fromkeys(
            str(event.fields.get("interface", "")) for event in events if event.kind == "nccl.bootstrap"
        )
        for name in named:
            if name and name not in there:
                yield _differs(
                    "compared.interface",
                    f"the run met over {name}, which the machine does not have",
                    name=name,
                )


def _kind(nic: Nic) -> tuple[object, object]:
    """Return what ports of one purpose have in common: link layer and rate."""
    return nic.link_layer, nic.rate_gbps


def _checks(machine: MachineFacts) -> Iterator[Event]:
    """Yield an event for each check of `rigtune check` that the machine does not pass, failures first."""
    findings = [
        each.finding
        for each in check_machine(evidence_under(Policy(), machine, today=None))
        if isinstance(each, FindingMade)
    ]
    host = machine.hostname if isinstance(machine.hostname, str) else None
    unmet = [finding for finding in findings if finding.status in (Status.FAIL, Status.WARN)]
    for finding in sorted(unmet, key=lambda finding: finding.status is Status.WARN)[:_MOST_FINDINGS]:
        statement = f"{finding.subject}: {finding.summary}" if finding.subject != "host" else finding.summary
        observed = f" ({finding.observed})" if finding.observed and finding.observed not in statement else ""
        words = f"{finding.check_id} {finding.status.value}: {statement}{observed}"
        yield _event(
            "machine.check",
            "machine",
            words,
            host=host,
            check=finding.check_id,
            subject=finding.subject,
            told=statement + observed,
        )
