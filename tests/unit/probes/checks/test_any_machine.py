"""Test with arbitrary facts that no check raises an error, and that no check passes on unknown values."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.usecases.check import check_machine
from probes.base.record import Unknown, to_json
from probes.facts import Filesystem, Gpu, MachineFacts, Nic
from probes.judging.affinity import ProbeReport, report_of
from probes.judging.findings import Status
from probes.judging.verdict import Verdict, exit_code
from tests.support.any_facts import any_of, unknowns
from tests.support.machines import evidence_of
from tests.support.texts import render_facts, render_verdict


def verdict_of(facts: MachineFacts) -> Verdict:
    verdict = list(check_machine(evidence_of(facts)))[-1].result  # type: ignore[attr-defined]
    assert isinstance(verdict, Verdict)
    return verdict


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(any_of(MachineFacts))
def test_no_machine_breaks_a_check_or_a_text(facts: MachineFacts) -> None:
    verdict = verdict_of(facts)
    for finding in verdict.findings:
        assert not finding.summary.startswith("the result of the check"), finding.observed
        if finding.status in (Status.WARN, Status.FAIL):
            assert finding.expected
            assert finding.observed
            assert finding.remedy is not None
    assert exit_code(verdict) in (0, 1, 3)
    assert msgspec.json.decode(to_json(verdict), type=Verdict) == verdict
    texts = (render_facts(facts), render_facts(facts, verbose=True))
    assert "\x1b" not in render_verdict(verdict) + render_verdict(verdict, verbose=True) + "".join(texts)
    report = to_json(report_of(facts))
    assert msgspec.json.decode(report, type=ProbeReport) == report_of(facts)


def nothing_known(kind: type[msgspec.Struct], **given_fields: object) -> st.SearchStrategy[object]:
    """Return a strategy for records in which every field that can be unknown is unknown."""
    fields = {
        field.name: unknowns
        for field in msgspec.structs.fields(kind)
        if "Unknown" in str(field.type) and field.name not in given_fields
    }
    return st.fixed_dictionaries(fields).map(lambda values: kind(**given_fields, **values))


@settings(deadline=None, max_examples=60)
@given(
    st.data(),
    st.one_of(
        unknowns,
        st.integers(1, 3).flatmap(
            lambda count: st.tuples(*(nothing_known(Gpu, index=n) for n in range(count)))
        ),
    ),
    st.one_of(unknowns, st.tuples(nothing_known(Nic, name="mlx5_0"))),
    st.one_of(unknowns, st.tuples(nothing_known(Filesystem, mount="/"))),
)
def test_nothing_known_never_passes(data: st.DataObject, gpus: object, nics: object, storage: object) -> None:
    parts = {}
    for field in msgspec.structs.fields(MachineFacts):
        if isinstance(field.default, msgspec.Struct) and not isinstance(field.default, Unknown):
            parts[field.name] = data.draw(nothing_known(type(field.default)))
    facts = MachineFacts(gpus=gpus, nics=nics, storage=storage, **parts)  # type: ignore[arg-type]
    verdict = verdict_of(facts)
    assert verdict.counts[Status.PASS] == 0
    assert verdict.counts[Status.FAIL] == 0 or verdict.verdict is Status.FAIL
    assert verdict.verdict is not Status.PASS
