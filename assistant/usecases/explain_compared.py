"""Compare the logs of a run with its recipe and its machine, and report the differences as events.

Rows of `probes/data/causes.toml` and their conditions match these events. The line number of these events is
0, because no log contains them.
"""

from collections.abc import Iterable, Iterator

from assistant.usecases.check import check_machine, evidence_under
from assistant.usecases.events import FindingMade
from probes.base.record import items_of, known, only_known
from probes.base.units import plural
from probes.base.versions import numbers_of
from probes.facts import MachineFacts, Nic
from probes.judging.findings import Status
from probes.judging.policies.policy import CheckPolicy, Policy
from probes.logs.event import Event, carries
from probes.logs.events.compared_events import (
    ComparedGpus,
    ComparedInterface,
    ComparedNccl,
    ComparedNicsOther,
    ComparedNicsStrange,
    ComparedNicsUnused,
    ComparedRanks,
    ComparedSockets,
    ComparedVariable,
    MachineCheck,
    MachineGpu,
    MachinePort,
    RecipeVariable,
)
from probes.logs.events.log_record import LogRecord
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclCommShape,
    NcclEnvironment,
    NcclInitStart,
    NcclVersion,
)
from probes.logs.events.nccl_network_events import NcclHcas, NcclNetwork
from recipes.launch.recipe import Recipe

_READ_BY_NCCL = ("NCCL_", "RCCL_")
_COMPARED = "compared."
_MOST_FINDINGS = 64


def known_beside(
    events: Iterable[Event], recipe: Recipe | None, machine: MachineFacts | None
) -> tuple[Event, ...]:
    """Return events for the recipe's variables, for the machine's parts and findings, and for differences.

    Values that the log does not contain are not compared, except NCCL's variables: if the log has some of
    them, a variable of the recipe that is not in the log is a difference.
    """
    logged_events = list(events)
    beside: list[Event] = []
    if recipe is not None:
        beside += [
            _event(RecipeVariable(name=each.name, value=each.value), "recipe", f"{each.name}={each.value}")
            for each in recipe.environment
        ]
        beside += [*_environment(logged_events, recipe), *_ranks(logged_events, recipe)]
    if machine is not None:
        beside += [
            *_hardware(machine),
            *_network(logged_events, machine),
            *_software(logged_events, machine),
            *_checks(machine),
        ]
    return tuple(beside)


def differences_in(beside: Iterable[Event]) -> tuple[str, ...]:
    """Return a sentence for each difference between the run and its recipe or machine."""
    return tuple(event.text for event in beside if event.kind.startswith(_COMPARED))


def _event(what: LogRecord, source: str, text: str, *, host: str | None = None) -> Event:
    return Event(what=what, source=source, number=0, text=text, host=host)


def _environment(events: list[Event], recipe: Recipe) -> Iterator[Event]:
    """Compare the recipe's variables with those in NCCL's log; NCCL logs each variable when it reads it."""
    logged: dict[str, set[str]] = {}
    for event in events:
        if carries(event, NcclEnvironment):
            logged.setdefault(event.what.name, set()).add(str(event.what.value).strip())
    if not logged:
        return

    def differs(name: str, wanted: str, had: str, text: str) -> Event:
        return _event(ComparedVariable(name=name, wanted=wanted, had=had), "recipe", f"{name}: {text}")

    for variable in recipe.environment:
        name, values = variable.name, logged.get(variable.name)
        if values is not None and values != {variable.value}:
            had = ", ".join(sorted(values))
            yield differs(name, variable.value, had, f"the recipe sets {variable.value}, the run had {had}")
        elif values is None and name.startswith(_READ_BY_NCCL):
            yield differs(name, variable.value, "", f"the recipe sets {variable.value}, the log has no value")
    for name in sorted(logged.keys() - {variable.name for variable in recipe.environment}):
        if name.startswith(_READ_BY_NCCL):
            had = ", ".join(sorted(logged[name]))
            yield differs(name, "", had, f"the run had {had}, but the recipe does not set the variable")


def _ranks(events: list[Event], recipe: Recipe) -> Iterator[Event]:
    had = max((event.what.ranks for event in events if carries(event, NcclInitStart)), default=None)
    wanted = recipe.parallelism.world_size
    if had is not None and had != wanted:
        text = f"the recipe has {plural(wanted, 'rank')}, but the largest communicator of the run has {had}"
        yield _event(ComparedRanks(wanted=wanted, had=had, observation=text), "recipe", text)


def _hardware(machine: MachineFacts) -> Iterator[Event]:
    for nic in items_of(machine.nics):
        if nic.state == "ACTIVE" and known(nic.rate_gbps):
            words = f"{nic.name} port {nic.port}: {nic.rate_gbps:g} Gb/s"
            yield _event(MachinePort(name=nic.name, port=nic.port, gbps=nic.rate_gbps), "machine", words)
    for model in sorted(set(only_known(gpu.name for gpu in items_of(machine.gpus)))):
        yield _event(MachineGpu(name=model), "machine", model)


def _network(events: list[Event], machine: MachineFacts) -> Iterator[Event]:
    if not known(machine.nics):
        return
    active = {nic.name: nic for nic in machine.nics if nic.state == "ACTIVE"}
    if active and {event.what.name for event in events if carries(event, NcclNetwork)} == {"Socket"}:
        statement = f"the machine has {plural(len(active), 'active RDMA port')} ({', '.join(sorted(active))})"
        yield _event(
            ComparedSockets(active=len(active), observation=statement),
            "machine",
            f"{statement}, but the run used sockets",
        )
    used = {
        word.partition(":")[0]
        for event in events
        if carries(event, NcclHcas)
        for word in event.what.names.replace(",", " ").split()
    }
    kinds = {_kind(active[name]) for name in used if name in active}
    unused = {name for name in active if name not in used} if used else set()
    alike = {name for name in unused if _kind(active[name]) in kinds}
    for record, names in ((ComparedNicsUnused, alike), (ComparedNicsOther, unused - alike)):
        if names:
            listed = ", ".join(sorted(names))
            statement = f"active RDMA ports that the run did not use: {listed}"
            share = round(len(used) / (len(used) + len(names)), 2)
            yield _event(
                record(names=listed, used=len(used), share=share, observation=statement), "machine", statement
            )
    strange = used - {nic.name for nic in machine.nics}
    if strange:
        listed = ", ".join(sorted(strange))
        statement = f"RDMA ports of the run that this machine does not have: {listed}"
        yield _event(ComparedNicsStrange(names=listed, observation=statement), "machine", statement)


def _software(events: list[Event], machine: MachineFacts) -> Iterator[Event]:
    brought = machine.training.nccl_version
    versions = {event.what.version for event in events if carries(event, NcclVersion)}
    is_other = isinstance(brought, str) and numbers_of(brought) not in map(numbers_of, versions)
    if versions and is_other:
        had = ", ".join(sorted(versions))
        statement = f"the run loaded NCCL {had}, but the training interpreter contains {brought}"
        yield _event(ComparedNccl(had=had, observation=statement), "machine", statement)
    most = max((event.what.local_ranks or 0 for event in events if carries(event, NcclCommShape)), default=0)
    if known(machine.gpus) and machine.gpus and most > len(machine.gpus):
        statement = f"{most} ranks run on a node, but the machine has {plural(len(machine.gpus), 'GPU')}"
        yield _event(ComparedGpus(had=most, observation=statement), "machine", statement)
    present = {interface.name for interface in items_of(machine.interfaces)}
    named = dict.fromkeys(event.what.interface for event in events if carries(event, NcclBootstrap))
    for name in named:
        if present and name and name not in present:
            statement = f"the ranks connected over the interface {name}, which the machine does not have"
            yield _event(ComparedInterface(name=name, observation=statement), "machine", statement)


_POLICY = Policy(checks=CheckPolicy(required=("torch-cuda", "torch-architecture", "nccl-version")))
"""Policy that also requires the checks of the training software, because the log is the log of a job."""


def _kind(nic: Nic) -> tuple[object, object]:
    """Return the link layer and the rate of a port; ports that serve the same purpose have them in common."""
    return nic.link_layer, nic.rate_gbps


def _checks(machine: MachineFacts) -> Iterator[Event]:
    """Yield an event for each FAIL and WARN of `rigtune check`, FAIL first, at most `_MOST_FINDINGS`."""
    findings = [
        event.finding
        for event in check_machine(evidence_under(_POLICY, machine, today=None))
        if isinstance(event, FindingMade)
    ]
    host = machine.hostname if isinstance(machine.hostname, str) else None
    unmet = [finding for finding in findings if finding.status in (Status.FAIL, Status.WARN)]
    for finding in sorted(unmet, key=lambda finding: finding.status is Status.WARN)[:_MOST_FINDINGS]:
        statement = f"{finding.subject}: {finding.summary}" if finding.subject != "host" else finding.summary
        observed = f" ({finding.observed})" if finding.observed and finding.observed not in statement else ""
        words = f"{finding.check_id} {finding.status.value}: {statement}{observed}"
        failed = MachineCheck(
            check=finding.check_id, subject=finding.subject, observation=statement + observed
        )
        yield _event(failed, "machine", words, host=host)
