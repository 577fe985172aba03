"""Findings of the smoke test: whether the launch starts the planned ranks, and how they communicate.

Each assertion has a check id. A failure states what was expected, what was observed and what to change.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from probes.base.grouping import number_ranges
from probes.base.record import Reason, Unknown
from probes.base.units import plural
from probes.judging.findings import Finding, Judge, Remedy
from recipes.launch.recipe import Recipe
from recipes.launch.verifying.smoke_report import RankFailed, SmokeReport

_JOB = "job"
_RDMA = ("infiniband", "roce", "efa", "tcpxo")
"""Transports of a cluster for which NCCL must not use sockets."""
_LINKED = ("nvswitch", "nvlink", "xgmi")
"""Fabrics over which NCCL must reach the ranks of a node by peer-to-peer."""
_MOST_NAMED = 16

_WORLD = Judge(check_id="verify-world", why="A wrong number of ranks trains with another global batch.")
_RANKS = Judge(check_id="verify-ranks", why="Each rank must exist once, with a device of its own.")
_HOSTS = Judge(
    check_id="verify-hosts",
    why="On other hosts than planned, ranks share GPUs, or communicate over slower links.",
)
_BACKEND = Judge(check_id="verify-backend", why="The prediction is valid only for the planned backend.")
_SUM = Judge(check_id="verify-all-reduce", why="Only the ranks of this run give these sums.")
_BETWEEN = Judge(check_id="verify-transport-between", why="Sockets reach a fraction of the rate of RDMA.")
_WITHIN = Judge(
    check_id="verify-transport-within", why="Shared memory reaches a fraction of the rate of NVLink."
)

_REMEDIES = {
    "missing_ranks": "read the output of the hosts of the missing ranks; each host must reach {master} "
    "(firewall, host name that resolves to the loopback), and the launcher must start {per_node} on each of "
    "{nodes}",
    "foreign_world": "end the other job, or export another MASTER_PORT: a process that is not of this "
    "run answers at {master}",
    "rank_twice": "give every node its own NODE_RANK, and start the launch files once per node",
    "sizes_differ": "start the same launch files on every node; one node runs files of another export",
    "port_in_use": "end the process that has the port of {master}, or export another MASTER_PORT",
    "unreachable": "check MASTER_ADDR and the firewall: every host must reach {master}",
    "lost_store": "read the output of rank 0, which keeps the store at {master} and ended first",
    "silent_rank": "read the output of that rank in the log",
    "wrong_sum": "run `rigtune bench --only collectives`: data changes between the ranks",
    "hang": "name the interface that connects the nodes in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME; "
    "`rigtune explain` reads the log",
    "backend": "read the error in the log; `rigtune explain` names its cause",
}
"""The change to make for each kind of failure of the worker."""
_KIND_OF_CHECK = {
    "foreign_world": _SUM,
    "wrong_sum": _SUM,
    "hang": _SUM,
    "backend": _BACKEND,
    "rank_twice": _RANKS,
    "missing_ranks": _RANKS,
    "silent_rank": _RANKS,
}
"""The assertion that a kind of failure refutes; other kinds refute the world size."""


def judge_smoke(
    recipe: Recipe, report: SmokeReport, nonce: int, *, used: tuple[str, ...] = (), ended: str = ""
) -> tuple[Finding, ...]:
    """Return a finding for each assertion about the launch of `recipe`.

    `nonce` is the number of this run, `used` has the transports in NCCL's log, such as `NET/IB/GDRDMA`, and
    `ended` describes how the launch ended, or is empty if it succeeded. If no rank reported, this is a
    failure, and the other assertions are UNKNOWN.
    """
    failures = tuple(_failures(recipe, report))
    if not report.ranks:
        failures = failures or (_no_report(ended, report),)
        refuted = {finding.check_id for finding in failures}
        reason = Unknown(Reason.ERROR, ended or "no rank reported")
        unknown = [
            judge.undetermined(_JOB, reason, what=what)
            for judge, what in _NAMES.items()
            if judge.check_id not in refuted and _applies(judge, recipe)
        ]
        return (*failures, *unknown)
    checks: tuple[Callable[[Recipe, SmokeReport, int], Finding], ...] = (
        _world_size,
        _distinct_ranks,
        _host_counts,
        _backend,
        _sums,
    )
    findings = [*failures, *(check(recipe, report, nonce) for check in checks)]
    return (*findings, *_transports(recipe, report, used))


_NAMES = {
    _WORLD: "the world size",
    _RANKS: "the ranks",
    _HOSTS: "the hosts",
    _BACKEND: "the backend",
    _SUM: "the result of the all-reduce",
    _BETWEEN: "the transport between nodes",
    _WITHIN: "the transport within a node",
}


def _applies(judge: Judge, recipe: Recipe) -> bool:
    if judge is _BETWEEN:
        return recipe.resources.backend == "nccl" and recipe.parallelism.nodes > 1
    return judge is not _WITHIN or (
        recipe.resources.backend == "nccl" and recipe.parallelism.ranks_per_node > 1
    )


def _no_report(ended: str, report: SmokeReport) -> Finding:
    """Return the failure of a launch of which no rank reported anything."""
    return _WORLD.failed(
        _JOB,
        "no rank reported",
        expected="one record per rank",
        observed="; ".join(filter(None, (ended, *report.problems))) or "an empty report",
        remedy=Remedy(
            text="read the log; if rank 0 runs on another host, name with --out a folder that all hosts share"
        ),
    )


def _failures(recipe: Recipe, report: SmokeReport) -> Iterator[Finding]:
    """Yield one finding per kind of failure, with all ranks that report this kind."""
    sizes = recipe.parallelism
    by_kind: dict[str, list[RankFailed]] = {}
    for failure in report.failures:
        by_kind.setdefault(failure.kind, []).append(failure)
    if len(by_kind) > 1:
        by_kind.pop("lost_store", None)  # caused by the failure of rank 0
    for kind, failures in by_kind.items():
        first = failures[0]
        joined = sorted({rank for each in failures for rank in (*each.joined, each.rank)})
        missing = [rank for rank in range(min(sizes.world_size, 10**6)) if rank not in set(joined)]
        reporting = ", ".join(f"rank {each.rank} on {each.host}" for each in failures[:_MOST_NAMED])
        names = number_ranges(missing, _MOST_NAMED)
        lost = f"; missing: {names}" if kind == "missing_ranks" and missing else ""
        text = _REMEDIES.get(kind, "read the log; `rigtune explain` names the cause").format(
            master=first.master or "the master's address",
            per_node=plural(sizes.ranks_per_node, "rank"),
            nodes=plural(sizes.nodes, "node"),
        )
        yield _KIND_OF_CHECK.get(kind, _WORLD).failed(
            _JOB,
            f"{first.message}{lost}",
            expected=f"ranks 0 to {sizes.world_size - 1} of this run meet and add their numbers",
            observed=f"{kind.replace('_', ' ')}, reported by {reporting}",
            remedy=Remedy(text=text),
        )


def _world_size(recipe: Recipe, report: SmokeReport, nonce: int) -> Finding:
    planned = recipe.parallelism.world_size
    sizes = sorted({each.world_size for each in report.ranks})
    if sizes == [planned]:
        return _WORLD.passed(_JOB, f"world size {planned}", observed=str(planned))
    observed = ", ".join(map(str, sizes))
    if sizes == [1]:
        text = (
            "the launcher passed no RANK and WORLD_SIZE: start with `rigtune run --to torchrun`, or let your "
        )
        text += "launcher set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each rank"
        return _WORLD.failed(
            _JOB,
            "one process instead of a group: no rank knows of another",
            expected=f"one world of {plural(planned, 'rank')}",
            observed=f"{plural(len(report.ranks), 'world')} of one rank",
            remedy=Remedy(text=text),
        )
    return _WORLD.failed(
        _JOB,
        f"the world size is {observed}, not {planned}",
        expected=f"world size {planned} ({recipe.parallelism.nodes} x {recipe.parallelism.ranks_per_node})",
        observed=f"world size {observed}",
        remedy=Remedy(text="export the recipe again, and start it without options that change its size"),
    )


def _distinct_ranks(recipe: Recipe, report: SmokeReport, nonce: int) -> Finding:
    planned = recipe.parallelism.world_size
    counts = Counter(each.rank for each in report.ranks)
    missing = [rank for rank in range(min(planned, 10**6)) if rank not in counts]
    twice = sorted(rank for rank, count in counts.items() if count > 1)
    strange = sorted(rank for rank in counts if rank >= planned)
    shared = [
        f"{host}: {count} ranks on one GPU"
        for (host, _), count in Counter(
            (each.host, each.device_id) for each in report.ranks if each.device_id
        ).items()
        if count > 1
    ]
    if not (missing or twice or strange or shared):
        return _RANKS.passed(
            _JOB, f"ranks 0 to {planned - 1}, each once", observed=plural(len(counts), "rank")
        )
    faults = [
        f"missing {number_ranges(missing, _MOST_NAMED)}" if missing else "",
        f"several processes with rank {number_ranges(twice, _MOST_NAMED)}" if twice else "",
        f"unplanned {number_ranges(strange, _MOST_NAMED)}" if strange else "",
        *shared,
    ]
    remedy = "read the output of the missing ranks in the log; give each node its own NODE_RANK"
    if strange and not (missing or twice):
        remedy = "export the recipe again, and start it without options that change its size"
    if shared:
        remedy = (
            "bind each rank to the GPU of its LOCAL_RANK; CUDA_VISIBLE_DEVICES must show all GPUs of the node"
        )
    return _RANKS.failed(
        _JOB,
        "the ranks are not those of the plan, each once and on its own GPU",
        expected=f"ranks 0 to {planned - 1}, each once",
        observed="; ".join(filter(None, faults)),
        remedy=Remedy(text=remedy),
    )


def _host_counts(recipe: Recipe, report: SmokeReport, nonce: int) -> Finding:
    sizes = recipe.parallelism
    counts = Counter(each.host for each in report.ranks)
    if len(counts) == sizes.nodes and set(counts.values()) == {sizes.ranks_per_node}:
        words = f"{plural(sizes.nodes, 'host')} with {plural(sizes.ranks_per_node, 'rank')} each"
        return _HOSTS.passed(_JOB, words, observed=", ".join([*counts][:_MOST_NAMED]))
    spread = ", ".join(f"{host} {count}" for host, count in [*counts.items()][:_MOST_NAMED])
    ranks, nodes = plural(sizes.ranks_per_node, "rank"), plural(sizes.nodes, "node")
    remedy = f"let the launcher start {ranks} on each of {nodes}"
    if len(counts) < sizes.nodes and recipe.resources.hosts:
        remedy += (
            "; two entries of resources.hosts may name the same machine, or hosts may share one host name"
        )
    return _HOSTS.failed(
        _JOB,
        "the ranks are not spread as planned",
        expected=f"{plural(sizes.nodes, 'host')} with {plural(sizes.ranks_per_node, 'rank')} each",
        observed=f"ranks per host: {spread}",
        remedy=Remedy(text=remedy),
    )


def _backend(recipe: Recipe, report: SmokeReport, nonce: int) -> Finding:
    planned = recipe.resources.backend
    used = sorted({each.backend for each in report.ranks})
    if used == [planned]:
        return _BACKEND.passed(_JOB, f"backend {planned}", observed=planned)
    reasons = sorted({each.backend_reason for each in report.ranks if each.backend_reason})
    return _BACKEND.failed(
        _JOB,
        f"the ranks use {', '.join(used)}, not {planned}",
        expected=planned,
        observed="; ".join((", ".join(used), *reasons[:3])),
        remedy=Remedy(
            text="name with --python an interpreter whose torch supports the GPUs of every node, and give "
            "each rank its GPU"
            if planned == "nccl"
            else "set resources.backend of the recipe to the backend that your ranks use"
        ),
    )


def _sums(recipe: Recipe, report: SmokeReport, nonce: int) -> Finding:
    world = recipe.parallelism.world_size
    expected = (world * (world + 1) / 2, float(nonce) * world, float(world))
    wrong = [each for each in report.ranks if (each.rank_sum, each.nonce_sum, each.one_sum) != expected]
    if not wrong:
        return _SUM.passed(_JOB, "the all-reduce has the result of this world", observed=f"{expected[0]:g}")
    first = wrong[0]
    is_foreign = any(each.nonce_sum != nonce * each.one_sum for each in wrong)
    return _SUM.failed(
        _JOB,
        "ranks of another run took part in the all-reduce"
        if is_foreign
        else "the all-reduce has a wrong result",
        expected=f"sum of rank + 1 = {expected[0]:g} over {plural(world, 'rank')}, "
        "all with the number of this run",
        observed=f"rank {first.rank}: {first.rank_sum:g}, world size {first.one_sum:g}"
        + (", some with another number" if is_foreign else ""),
        remedy=Remedy(
            text="end the other job that uses this address and port, or export another MASTER_PORT"
            if is_foreign
            else "start as many ranks as the recipe plans, in one group"
        ),
    )


def _transports(recipe: Recipe, report: SmokeReport, used: tuple[str, ...]) -> Iterator[Finding]:
    """Yield findings about the transports in NCCL's log; none for gloo, which always uses TCP."""
    sizes = recipe.parallelism
    if recipe.resources.backend != "nccl" or any(each.backend != "nccl" for each in report.ranks):
        return
    between = tuple(name for name in used if name.startswith(("NET", "COLLNET")))
    within = tuple(name for name in used if name.startswith(("P2P", "SHM", "NVLS")))
    machine = recipe.machine
    if sizes.nodes > 1:
        yield _between_nodes(machine.transport if machine else "unknown", between)
    if sizes.ranks_per_node > 1:
        yield _within_node(
            machine.fabric if machine else "unknown", within, between if sizes.nodes == 1 else ()
        )


def _between_nodes(planned: str, used: tuple[str, ...]) -> Finding:
    """Return a finding on whether NCCL communicates between nodes by RDMA, if the machine has RDMA."""
    if not used:
        return _BETWEEN.undetermined(
            _JOB, Unknown(Reason.NOT_RECORDED, "NCCL's log names none"), what="the transport between nodes"
        )
    words = ", ".join(used)
    is_slow = any("/Socket" in name for name in used)
    if planned == "unknown":
        unknown = Unknown(Reason.NOT_RECORDED, f"NCCL uses {words}; the recipe's network is unknown")
        return _BETWEEN.undetermined(_JOB, unknown, what="the planned transport between nodes")
    if is_slow and planned in _RDMA:
        text = "check that ranks see the RDMA devices (`rigtune check`); unset NCCL_IB_DISABLE and NCCL_NET"
        return _BETWEEN.failed(
            _JOB,
            f"NCCL communicates by TCP sockets, although the plan uses {planned}",
            expected=f"{planned}: NET/IB or the platform's plugin",
            observed=words,
            remedy=Remedy(text=text, command="rigtune explain LOG"),
        )
    if planned == "ethernet" and not is_slow:
        return _BETWEEN.passed(_JOB, f"faster than the planned TCP: {words}", observed=words)
    return _BETWEEN.passed(_JOB, f"{planned}: {words}", observed=words)


def _within_node(planned: str, used: tuple[str, ...], network: tuple[str, ...]) -> Finding:
    """Return a finding on whether NCCL communicates within a node by peer-to-peer, if links join the GPUs."""
    if not used and not network:
        return _WITHIN.undetermined(
            _JOB, Unknown(Reason.NOT_RECORDED, "NCCL's log names none"), what="the transport within a node"
        )
    words = ", ".join((*used, *network))
    is_slow = bool(network) or any(name.startswith("SHM") for name in used)
    if is_slow and planned in _LINKED:
        return _WITHIN.failed(
            _JOB,
            f"NCCL does not use peer-to-peer between all GPUs of a node, although {planned} joins them",
            expected=f"{planned}: P2P or NVLS",
            observed=words,
            remedy=Remedy(
                text="unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL, and give the container or job step all GPUs "
                "of the node: ranks that each see one GPU cannot use peer-to-peer in older versions of NCCL"
            ),
        )
    if planned in ("unknown", "host"):
        unknown = Unknown(Reason.NOT_RECORDED, f"NCCL uses {words}; the recipe's links are unknown")
        return _WITHIN.undetermined(_JOB, unknown, what="the planned transport within a node")
    if network:
        return _WITHIN.warned(
            _JOB,
            "NCCL uses the network between GPUs of one node",
            expected=f"{planned}: P2P or SHM",
            observed=words,
            remedy=Remedy(
                text="unset NCCL_SHM_DISABLE and NCCL_P2P_DISABLE, and give the container shared memory"
            ),
        )
    return _WITHIN.passed(_JOB, f"{planned}: {words}", observed=words)


def assertions(recipe: Recipe) -> tuple[str, ...]:
    """Return sentences that state what the smoke test asserts about the launch of a recipe."""
    sizes, machine, backend = recipe.parallelism, recipe.machine, recipe.resources.backend
    sentences = [
        f"the world size is {sizes.world_size}",
        f"ranks 0 to {sizes.world_size - 1} exist once each, with a device of their own",
        f"{plural(sizes.nodes, 'host')} with {plural(sizes.ranks_per_node, 'rank')} each",
        f"the backend is {backend}",
        "an all-reduce gives the sum of rank + 1, and of a number that only this run knows",
    ]
    if backend == "nccl" and sizes.nodes > 1:
        transport = machine.transport if machine else "unknown"
        sentences.append(f"the transport between nodes in NCCL's log is that of the plan: {transport}")
    if backend == "nccl" and sizes.ranks_per_node > 1:
        fabric = machine.fabric if machine else "unknown"
        sentences.append(f"the transport within a node in NCCL's log is that of the plan: {fabric}")
    return tuple(sentences)
