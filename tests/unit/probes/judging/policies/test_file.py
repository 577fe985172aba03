"""Check that a policy is read completely or refused with the place of its fault.

A machine meets the policy that was learned from it.
"""

from __future__ import annotations

import datetime

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assistant.usecases.check import check_machine, evidence_under
from probes.base.errors import InputError
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.thresholds import load_thresholds
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Status
from probes.judging.policies.expected_versions import any_matches, setting_matches
from probes.judging.policies.file import load_policy, thresholds_under
from probes.judging.policies.learning import expectation_count, learned_policy, policy_text
from probes.judging.policies.policy import Policy, Waiver
from probes.judging.verdict import Verdict
from tests.support.any_facts import any_of
from tests.support.machines import cpu_box, h100_node, with_gpus, with_nics, with_part

DAY = datetime.date(2026, 11, 21)
CATALOGUE = load_catalogue()
POLICY_ROWS = tuple(row for row in CHECKS if row.group == "policy")
NOFILE = tuple(row for row in CHECKS if row.id == "nofile")

WHOLE = """
schema_version = 1
fail_on = "warn"
[checks]
required = ["persistence-mode"]
not_required = ["memlock"]
off = {nofile = "set by the batch system"}
[thresholds]
nofile_minimum = 20000
nccl_mig_fixed = "2.30"
close_link_kinds = ["PIX"]
[gpu]
model = "H100-SXM"
driver = ">=550.90,<581"
vbios = ["96.00.89.00.01", "96.00.A5.*"]
[nic]
rate_gbps = 400
firmware = {MT4129 = ["28.39.1002", ">=28.40"]}
[host]
sysctl = {"net.core.somaxconn" = ">=4096", "net.ipv4.conf.eth0/100.rp_filter" = 0}
kernel_arguments = ["iommu=pt"]
[[site_checks]]
name = "scratch"
command = ["mountpoint", "-q", "/scratch"]
line = "*"
[[hosts]]
names = ["gpu-b*"]
gpu = {power_limit_w = 400}
[[waivers]]
check = "nofile"
reason = "known"
expires = 2027-01-31
"""


def policy_of(text: str) -> Policy:
    return load_policy(text, "site.toml", CATALOGUE)


def test_a_whole_policy() -> None:
    policy = policy_of(WHOLE)
    assert policy.fail_on == "warn"
    assert policy.checks.off == {"nofile": "set by the batch system"}
    assert policy.nic.rate_gbps == 400.0
    assert policy.waivers == (Waiver(check="nofile", reason="known", expires=datetime.date(2027, 1, 31)),)
    limits = thresholds_under(policy)
    assert (limits.nofile_minimum.value, limits.nofile_minimum.source) == (20000, "the policy")
    assert limits.nccl_mig_fixed.value == "2.30"
    assert limits.close_link_kinds.value == ("PIX",)
    assert limits.memlock_minimum_bytes == load_thresholds().memlock_minimum_bytes


def test_a_file_with_a_comment_demands_nothing_and_an_empty_file_is_refused() -> None:
    assert policy_of("# nothing") == Policy()
    with pytest.raises(InputError, match="is empty"):
        policy_of(" \n")
    assert thresholds_under(Policy()) is load_thresholds()


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("a = [", ("not valid TOML",), "quotes"),
        ("[gpu]\ncount = 1\n[gpu]\n", ("line 3",), ""),
        ("schema_version = 9", ("9",), "newer"),
        ("[gpus]", ("gpus", "no such field"), "gpu"),
        ("[gpu]\ncuont = 8", ("gpu.cuont",), "did you mean count?"),
        ("[gpu]\ncount = '8'", ("gpu.count", "int"), ""),
        ("[gpu]\ncount = -1", ("gpu.count", ">= 0"), ""),
        ("[gpu]\nmodel = 'h100-smx'", ("gpu.model", "h100-smx"), "did you mean h100-sxm?"),
        ("[gpu]\nmodel = 'h100'", ("gpu.model", "h100"), "did you mean h100-sxm or"),
        ("[gpu]\ndriver = []", ("gpu.driver", ">= 1"), ""),
        ("[gpu]\ndriver = '>=new'", ("gpu.driver", "new"), "range"),
        ("[gpu]\ndriver = '>=550,581'", ("gpu.driver", "581"), "range"),
        (
            "[nic]\nlink_layer = 'infiniband'",
            ("nic.link_layer", "infiniband"),
            "one of: InfiniBand, Ethernet",
        ),
        ("fail_on = 'error'", ("fail_on", "error"), "one of: fail, warn"),
        ("[nic]\nrate_gbps = 0", ("nic.rate_gbps",), ""),
        ("[nic.firmware]\nMT4129 = '>x'", ("nic.firmware.MT4129",), "pattern"),
        ("[nic.places]\nmlx5_0 = 'slot 3'", ("nic.places.mlx5_0", "slot 3"), "lspci"),
        ("[host]\nmemory_tolerance_percent = 101", ("host.memory_tolerance_percent",), ""),
        (
            "[checks]\nrequired = ['nvlink-activ']",
            ("checks.required", "nvlink-activ"),
            "did you mean nvlink-active?",
        ),
        ("[gpu]\npower_limit_w = 0", ("gpu.power_limit_w",), ""),
        ("[gpu]\necc = 'on'", ("gpu.ecc", "bool"), ""),
        ("[host]\nbios = '>=x'", ("host.bios", "'x'"), "range"),
        ("[host.sysctl]\n'vm/../../etc/passwd' = 1", ("host.sysctl", "kernel setting"), "sysctl"),
        ("[host.sysctl]\n'vm.a//b' = 1", ("host.sysctl", "kernel setting"), "sysctl"),
        ("[host.sysctl]\n'/etc/passwd' = 1", ("host.sysctl", "kernel setting"), "sysctl"),
        ("[host.sysctl]\n'vm.swappiness' = '>=much'", ("host.sysctl.vm.swappiness", "much"), "range"),
        ("[host.sysctl.vm]\nswappiness = 1", ("host.sysctl",), ""),
        ("[[site_checks]]\nname = 'a'", ("site_checks[0]", "command"), "name and command"),
        ("[[site_checks]]\ncommand = ['a']", ("site_checks[0]", "name"), "name and command"),
        ("[[site_checks]]\nname = 'a b'\ncommand = ['a']", ("site_checks[0].name",), ""),
        ("[[site_checks]]\nname = 'a'\ncommand = []", ("site_checks[0].command",), ""),
        ("[[site_checks]]\nname = 'a'\ncommand = 'true'", ("site_checks[0].command", "array"), ""),
        (
            "[[site_checks]]\nname = 'a'\ncommand = ['./a']",
            ("site_checks[0].command", "current folder"),
            "absolute path",
        ),
        ("[[site_checks]]\nname = 'a'\ncommand = ['a', \"\\u0000\"]", ("site_checks[0]", "zero byte"), ""),
        ("[[site_checks]]\nname = 'a'\ncommand = ['a']\ntimeout_s = 0", ("site_checks[0].timeout_s",), ""),
        ("[[site_checks]]\nname = 'a'\ncommand = ['a']\ntimeout_s = nan", ("site_checks[0].timeout_s",), ""),
        ("[[site_checks]]\nname = 'a'\ncommand = ['a']\nexit_code = 256", ("exit_code",), ""),
        ("[[site_checks]]\nname = 'a'\ncommand = ['a']\nshell = true", ("shell", "no such field"), "fields"),
        (
            "site_checks = [{name = 'a', command = ['a']}, {name = 'a', command = ['b']}]",
            ("site_checks[1].name", "twice"),
            "different name",
        ),
        ("[checks]\nrequired = ['zzz']", ("zzz",), "rigtune list checks"),
        (
            "[checks]\nrequired = ['nofile']\nnot_required = ['nofile']",
            ("nofile", "not_required"),
            "one of them",
        ),
        ("[checks.off]\nnofil = 'x'", ("checks.off", "nofil"), "did you mean nofile?"),
        ("[checks.off]\nnofile = ''", ("checks.off",), ""),
        ("[thresholds]\nnofile_minimun = 3", ("thresholds.nofile_minimun",), "did you mean nofile_minimum?"),
        ("[thresholds]\nnofile_minimum = 'x'", ("thresholds.nofile_minimum", "x"), "65536"),
        ("[thresholds]\nnofile_minimum = nan", ("thresholds.nofile_minimum",), "number"),
        ("[thresholds]\nnccl_mig_fixed = 2.3", ("thresholds.nccl_mig_fixed",), "quotes"),
        ("[thresholds]\nclose_link_kinds = 'PIX'", ("thresholds.close_link_kinds",), "list"),
        ("[thresholds]\nthrottle_reasons = 1", ("thresholds.throttle_reasons", "table"), "nofile_minimum"),
        ("[[waivers]]\ncheck = 'nofile'\nreason = 'x'", ("waivers[0]", "expires"), "2027-01-31"),
        ("[[waivers]]\ncheck = 'nofile'\nexpires = 2027-01-01", ("waivers[0]", "reason"), ""),
        ("[[waivers]]\ncheck = 'nofile'\nreason = 'x'\nexpires = 'soon'", ("waivers[0].expires", "date"), ""),
        (
            "[[waivers]]\ncheck = 'nofiles'\nreason = 'x'\nexpires = 2027-01-01",
            ("waivers[0].check",),
            "did you mean nofile?",
        ),
    ],
)
def test_a_fault_is_reported_with_its_place(text: str, words: tuple[str, ...], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        policy_of(text)
    for word in ("site.toml", *words):
        assert word in caught.value.message
    assert caught.value.hint
    assert hint in caught.value.hint


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_damaged_policy_is_read_or_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(WHOLE)))
    length = data.draw(st.integers(0, 30))
    text = WHOLE[:at] + data.draw(st.text(max_size=8)) + WHOLE[at + length :]
    try:
        policy = policy_of(text)
    except InputError as error:
        refusal = error
    else:
        thresholds_under(policy)
        return
    assert refusal.message.startswith("site.toml")
    assert refusal.hint


@pytest.mark.parametrize(
    ("value", "wanted", "holds"),
    [
        (4096, 4096, True),
        (4096, 4095, False),
        (4096, "4096", True),
        (4096, "40*", True),
        (4096, ">=128,<=4096", True),
        (4096, ">4096", False),
        (-1, ">=0", False),
        (-1, "-1", True),
        ("4096 131072", "4096   131072", True),
        ("4096 131072", "4096 *", True),
        ("4096 131072", ">=1", False),
        ("always", ("never", "always"), True),
        ("always", 1, False),
    ],
)
def test_kernel_settings(value: int | str, wanted: int | str | tuple[str, ...], holds: bool) -> None:
    assert setting_matches(value, wanted) is holds


def verdict_under(policy: Policy, facts: MachineFacts, rows: tuple = POLICY_ROWS) -> Verdict:
    *_, finished = check_machine(evidence_under(policy, facts, today=DAY), rows)
    return finished.result  # type: ignore[attr-defined]


def problems(verdict: Verdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.status not in (Status.PASS, Status.SKIP)]


@pytest.mark.parametrize("facts", [h100_node(), cpu_box()], ids=["8 x H100", "no GPU"])
def test_a_machine_meets_what_was_learned_from_it(facts: MachineFacts) -> None:
    learned = learned_policy(facts, CATALOGUE)
    text = policy_text(learned, "node\x1b17", DAY)
    assert "\x1b" not in text
    policy = policy_of(text)
    assert policy == learned
    assert expectation_count(policy) > 8
    verdict = verdict_under(policy, facts)
    assert (problems(verdict), verdict.verdict) == ([], Status.PASS)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (with_gpus(h100_node(), 2, vbios_version="96.00.61.00.01"), "GPU2 the VBIOS"),
        (with_nics(h100_node(), "mlx5_1", firmware_version="28.35.1"), "mlx5_1 the firmware of MT4129"),
        (with_nics(h100_node(), "mlx5_7", state="DOWN"), "host the number of training ports"),
        (with_part(h100_node(), "software", kernel="5.15.0-92-generic"), "host the kernel"),
        (with_part(h100_node(), "software", driver_version="550.54.14"), "host the driver"),
        (with_part(h100_node(), "training", torch_version="2.7.0"), "host torch"),
        (h100_node(gpus=h100_node().gpus[:7]), "host the number of GPUs"),  # type: ignore[index]
        (h100_node(storage=()), "host the mount /raid"),
    ],
)
def test_another_machine_is_shown_its_differences(other: MachineFacts, named: str) -> None:
    policy = policy_of(policy_text(learned_policy(h100_node(), CATALOGUE), "node17", DAY))
    verdict = verdict_under(policy, other)
    assert verdict.verdict is Status.FAIL
    assert any(f"{finding.subject} {finding.summary}".startswith(named) for finding in problems(verdict))


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@example(with_part(h100_node(), "software", modules=("nvidia-peermem",)))
@given(any_of(MachineFacts))
def test_any_machine_meets_the_policy_that_was_learned_from_it(facts: MachineFacts) -> None:
    learned = learned_policy(facts, CATALOGUE)
    policy = policy_of(policy_text(learned, str(facts.hostname), DAY))
    assert policy == learned
    verdict = verdict_under(policy, facts)
    assert [finding.summary for finding in problems(verdict)] == []
    for finding in verdict_under(policy, h100_node()).findings:
        assert not finding.summary.startswith("the result of the check"), finding.observed


def test_a_policy_changes_thresholds_and_disabled_and_required_checks() -> None:
    few = with_part(h100_node(), "limits", nofile=30000)
    assert verdict_under(Policy(), few, NOFILE).verdict is Status.WARN
    assert (
        verdict_under(
            policy_of("[thresholds]\nnofile_minimum = 1\nnofile_recommended = 2"), few, NOFILE
        ).verdict
        is Status.PASS
    )
    off = verdict_under(policy_of("[checks.off]\nnofile = 'slurm does it'"), few, NOFILE)
    assert [(finding.status, finding.summary) for finding in off.findings] == [
        (Status.SKIP, "switched off by the policy: slurm does it")
    ]
    unread = with_part(few, "limits", nofile=MachineFacts().limits.nofile)
    assert verdict_under(Policy(), unread, NOFILE).required_unknown == ()
    assert verdict_under(policy_of("[checks]\nrequired = ['nofile']"), unread, NOFILE).required_unknown == (
        "nofile",
    )


def test_a_waived_finding_keeps_its_status_and_does_not_count() -> None:
    few = with_part(h100_node(), "limits", nofile=30000)
    waiver = "[[waivers]]\ncheck = 'nofile'\nsubject = '{}'\nreason = 'known'\nexpires = {}"
    rows = (*NOFILE, *(row for row in CHECKS if row.id == "persistence-mode"))
    verdict = verdict_under(policy_of(waiver.format("ho*", DAY)), few, rows)
    (waived,) = [finding for finding in verdict.findings if finding.waived is not None]
    assert (waived.status, waived.waived and waived.waived.reason) == (Status.WARN, "known")
    assert (verdict.verdict, verdict.counts[Status.WARN], verdict.waived, verdict.notes) == (
        Status.PASS,
        0,
        1,
        (),
    )
    expired = verdict_under(policy_of(waiver.format("*", DAY - datetime.timedelta(days=1))), few, rows)
    assert (expired.verdict, expired.waived, expired.notes) == (Status.WARN, 0, ())
    elsewhere = verdict_under(policy_of(waiver.format("GPU*", DAY)), few, rows)
    assert (elsewhere.verdict, len(elsewhere.notes)) == (Status.WARN, 1)
    assert "nofile on GPU*" in elsewhere.notes[0]
    assert verdict_under(policy_of(waiver.format("GPU*", DAY)), few, rows[1:]).notes == (), (
        "the check was not made"
    )
    undated = msgspec.structs.replace(
        evidence_under(policy_of(waiver.format("*", DAY)), few, today=DAY), today=None
    )
    *_, finished = check_machine(undated, rows)
    assert finished.result.waived == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("550.90.07", "550.90.07", True),
        ("550.90.7", "550.90.07", True),
        ("550.90.07", "550.90", False),
        ("2.6.0+cu124", "2.6.0", True),
        ("2.6", "2.6.0", True),
        ("5.15.0-92-generic", "5.15.0-91-generic", False),
        ("Ubuntu 22.04.4 LTS", "Ubuntu 22.04*", True),
        ("560.1", ">=550.90,<581", True),
        ("581.0", ">=550.90,<581", False),
        ("550.54.15", ">=550.90,<581", False),
        ("550.54.15", "!=550.54.15", False),
        ("N/A", ">=1", False),
        ("N/A", "!=1", False),
        ("12.4", ("12.2", "==12.4"), True),
        ("12.4", (), False),
    ],
)
def test_versions(version: str, wanted: str | tuple[str, ...], holds: bool) -> None:
    assert any_matches(version, wanted) is holds
