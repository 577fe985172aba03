"""Check that all training ports run at the same rate.

NCCL spreads a collective evenly over the rails, so the slowest one sets the pace. Source: NVIDIA/nccl#307,
#489 (a port that trained to a lower rate ruins collectives).
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.base.units import gbit_per_s
from probes.facts import Nic
from probes.judging.findings import Evidence, Findings, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_nics, subject_name

JUDGE = Judge(
    check_id="nic-rate",
    why="NCCL shares the load evenly over the rails: the slowest port slows every multi-node collective.",
)


@on_nics(JUDGE)
def check(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts)
    if not rails.active:
        return JUDGE.skipped(HOST, "no RDMA port is up, see nic-state")
    usual = rails.active[0].rate_gbps
    links = evidence.facts.links if known(evidence.facts.links) else ()
    distances_known = any(link.a.startswith("GPU") != link.b.startswith("GPU") for link in links)

    def judge(nic: Nic) -> Judged:
        if isinstance(nic.rate_gbps, Unknown):
            return nic.rate_gbps
        if isinstance(usual, Unknown) or nic.rate_gbps >= usual:
            return gbit_per_s(nic.rate_gbps)
        # A slower port below a GPU's switch is a rail. Without distances it may also be a storage port of the
        # same device type.
        return JUDGE.problem(
            subject_name(nic),
            "the port is slower than the other training ports",
            fails=distances_known,
            expected=gbit_per_s(usual),
            observed=gbit_per_s(nic.rate_gbps),
            remedy=Remedy(
                text="Reseat or replace cable and transceiver, and compare with the switch port.",
                command="ibstat",
            ),
        )

    return judge_each(
        JUDGE,
        rails.active + rails.slower,
        judge,
        what="the rate of the port",
        good="training ports run at one rate",
    )
