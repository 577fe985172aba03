"""Check the policy itself: whether its waivers are valid, and whether its sections for hosts can be selected.

Source: the policy file.
"""

from collections.abc import Iterator

from probes.base.record import Reason, Unknown
from probes.base.units import plural
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.policies.host_sections import matching_sections
from probes.judging.policies.policy import Policy, policy_ref
from probes.judging.reporting import HOST

SECTIONS = Judge(
    check_id="policy-sections", why="A section of the policy states what this kind of host must have."
)
WAIVERS = Judge(check_id="policy-waivers", why="An expired waiver no longer covers its problem.")


def policy_waivers(evidence: Evidence) -> Iterator[Finding]:
    """Report waivers that have expired.

    Waivers that cover nothing become notes of the verdict, because they are known only after all other
    checks.
    """
    waivers = evidence.policy.waivers
    if not waivers:
        yield WAIVERS.skipped(HOST, "the policy waives nothing")
        return
    if evidence.today is None:
        yield WAIVERS.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "the day of the check"), what="today's date"
        )
        return
    expired = [waiver for waiver in waivers if not waiver.holds_on(evidence.today)]
    for index, waiver in enumerate(waivers):
        if waiver in expired:
            yield WAIVERS.warned(
                waiver.subject,
                f"the waiver of {waiver.check} has expired",
                expected="a date that is still to come, or no waiver",
                observed=f"expired on {waiver.expires}: {waiver.reason}",
                remedy=Remedy(
                    text=f"Fix the problem that {waiver.check} reports, or renew the waiver with a new date."
                ),
                evidence=(policy_ref(f"waivers[{index}]"),),
            )
    if not expired:
        yield WAIVERS.passed(
            HOST,
            "no waiver has expired",
            observed=plural(len(waivers), "waiver"),
            evidence=(policy_ref("waivers"),),
        )


def policy_sections(evidence: Evidence) -> Finding:
    """Report which sections of the policy apply to this host; warn if the policy expects nothing of it."""
    sections, hostname = evidence.policy.hosts, evidence.facts.hostname
    refs = (policy_ref("hosts"),)
    if not sections:
        return SECTIONS.skipped(HOST, "the policy has no sections for hosts")
    if isinstance(hostname, Unknown):
        return SECTIONS.undetermined(HOST, hostname, what="the name of the host", evidence=refs)
    matching = matching_sections(evidence.policy, hostname)
    expects = ("gpu", "nic", "software", "host", "site_checks")
    if not matching and all(getattr(evidence.policy, part) == getattr(Policy(), part) for part in expects):
        return SECTIONS.warned(
            HOST,
            "the policy expects nothing of this host",
            expected="a section that names the host, or expectations for all hosts",
            observed=f"{plural(len(sections), 'section')} for other hosts, none for {hostname}",
            remedy=Remedy(text="Add the host to the names of its section."),
            evidence=refs,
        )
    if not matching:
        return SECTIONS.skipped(HOST, "no section of the policy names this host", evidence=refs)
    patterns = "; ".join(", ".join(section["names"]) for section in matching)
    return SECTIONS.passed(
        HOST,
        f"{len(matching)} of {plural(len(sections), 'section')} apply to this host",
        observed=patterns,
        evidence=refs,
    )
