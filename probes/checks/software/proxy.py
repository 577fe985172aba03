"""Check that no proxy stands between the ranks.

Source: kubeflow/trainer#1636, kubeflow/kubeflow#5143, pytorch/pytorch#81704: sidecars intercept the
connections of ranks, and proxy variables catch those of HTTP and gRPC (etcd, Ray, model hubs) unless
`no_proxy` names the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.judging.environment_values import setting, variables_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="proxy",
    why="A proxy between the ranks resets or delays their connections, and workers hang while they look for "
    "each other.",
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")


def check(evidence: Evidence) -> Iterator[Finding]:
    container = evidence.facts.container
    sidecars = () if isinstance(container.annotations, Unknown) else container.annotations
    for sidecar in sidecars:
        yield JUDGE.warned(
            HOST,
            f"the proxy of {sidecar.name} takes the connections of this pod",
            expected="none between the ranks of a job",
            observed=sidecar.value,
            remedy=Remedy(text="Switch its injection off for training pods, or exclude the job's ports."),
            evidence=container.evidence,
        )
    variables = yield from variables_of(JUDGE, evidence)
    if variables is None:
        return
    proxies = [variables[name] for name in _PROXIES if name in variables and variables[name].value]
    exceptions = [variables[name] for name in _EXCEPTIONS if name in variables and variables[name].value]
    refs = tuple(ref for variable in (*proxies, *exceptions) for ref in variable.evidence)
    if proxies and not exceptions:
        yield JUDGE.warned(
            HOST,
            "a proxy is set, and no address is excepted from it",
            expected="no_proxy with the nodes of the cluster",
            observed=", ".join(map(setting, proxies)),
            remedy=Remedy(
                text="List the nodes' names and addresses.",
                command="export no_proxy=localhost,127.0.0.1,.cluster.local",
            ),
            evidence=refs,
        )
    elif not sidecars:
        observed = "no_proxy names exceptions" if proxies else "none is set"
        yield JUDGE.passed(HOST, "no proxy stands between the ranks", observed=observed, evidence=refs)
