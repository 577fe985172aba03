"""Test each format against the rules of its readers, whatever the machine calls its devices."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from assistant.formats.check_formats import FORMATS, Format, formatted
from assistant.formats.ci_reports import junit_text, markdown_text
from assistant.formats.monitoring import nagios_failure, nagios_text, prometheus_text, reason_line
from probes.base.record import Reason, Unknown
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from probes.judging.verdict import Verdict
from tests.support.machines import h100
from tests.support.texts import render_verdict
from tests.support.verdicts import EVIL, FILES, LINK, MODEL, VERDICTS, finding, verdict_of

every_verdict = pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)


@every_verdict
@pytest.mark.parametrize("output_format", FORMATS)
def test_no_name_steers_a_terminal_or_breaks_the_encoding(verdict: Verdict, output_format: Format) -> None:
    text = formatted(verdict, output_format)
    assert text.endswith("\n")
    text.encode("utf-8")
    assert not set(text) & set("\x1b\x00\r" if output_format == "json" else "\x1b\x00\r\u2028")


@every_verdict
def test_junit(verdict: Verdict) -> None:
    root = ET.fromstring(junit_text(verdict).encode())  # noqa: S314 - of our own making
    assert root.tag == "testsuites"
    (suite,) = root
    cases = list(suite)
    assert {case.tag for case in cases} <= {"testcase"}
    assert int(suite.attrib["tests"]) == len(cases) == len({finding.check_id for finding in verdict.findings})
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert (
            int(suite.attrib[attribute])
            == len(suite.findall(f"testcase/{tag}"))
            == int(root.attrib[attribute])
        )
    assert all(case.attrib["classname"].startswith("rigtune.") and case.attrib["name"] for case in cases)
    assert suite.attrib["timestamp"] == "2026-11-21T08:30:00"
    assert float(suite.attrib["time"]) == 0.25


def test_junit_distinguishes_each_status() -> None:
    root = ET.fromstring(junit_text(VERDICTS["bad"]).encode())  # noqa: S314 - of our own making
    inside = {case.attrib["name"]: [child.tag for child in case] for case in root.iter("testcase")}
    assert inside == {
        "nvlink-active": ["failure"],
        "nic-state": ["skipped"],
        "row-remap": ["error"],
        "nofile": ["system-out"],
        "gpu-model": [],
        "mig-mode": ["skipped"],
    }
    failure = root.find(".//failure")
    assert failure is not None
    assert "wanted: 18" in (failure.text or "")
    assert "nvidia-smi --gpu-reset -i 3" in (failure.text or "")
    assert "cable ordered" in ET.tostring(root, "unicode")


SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>[0-9.e+-]+)")
LABEL = re.compile(r'(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)="(?P<value>(?:[^"\\\n]|\\[\\"n])*)"')


def samples_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read the text format strictly.

    Help and type come before the samples of each metric, and each metric is declared once.
    """
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    declared: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# "):
            _, kind, name, words = line.split(" ", 3)
            assert kind in ("HELP", "TYPE")
            assert kind == "HELP" or (declared[-1] == name and words == "gauge")
            if kind == "HELP":
                assert name not in declared
                declared.append(name)
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert sample["name"] == declared[-1]
        labels, rest = [], sample["labels"] or ""
        while rest:
            label = LABEL.match(rest)
            assert label, rest
            labels.append((label["name"], label["value"]))
            rest = rest[label.end() :].removeprefix(",")
        key = (sample["name"], tuple(labels))
        assert key not in values, "a series comes once"
        values[key] = float(sample["value"])
    assert text.endswith("\n")
    return values


@every_verdict
def test_prometheus(verdict: Verdict) -> None:
    samples = samples_of(prometheus_text(verdict))
    assert (
        samples["rigtune_verdict", ()]
        == {"PASS": 0, "WARN": 1, "UNKNOWN": 2, "FAIL": 3}[verdict.verdict.value]
    )
    for status in Status:
        assert samples["rigtune_findings", (("status", status.value.lower()),)] == verdict.counts[status]
    assert samples["rigtune_last_run_timestamp_seconds", ()] == 1795249800
    checked = [dict(labels) for name, labels in samples if name == "rigtune_check_status"]
    assert all(set(labels) == {"check", "subject", "severity"} for labels in checked)


def test_prometheus_values() -> None:
    samples = samples_of(prometheus_text(VERDICTS["bad"]))
    status = {
        (dict(labels)["check"], dict(labels)["severity"]): v
        for (n, labels), v in samples.items()
        if n == "rigtune_check_status"
    }
    assert status == {
        ("nvlink-active", "required"): 3,
        ("row-remap", "required"): 2,
        ("nofile", "optional"): 1,
        ("gpu-model", "optional"): 0,
    }
    assert samples["rigtune_check_waived", (("check", "nic-state"), ("subject", "mlx5_7"))] == 3
    twice = samples_of(
        prometheus_text(verdict_of(MODEL, finding("gpu-model", "GPU0-7", "WARN", "other"), MODEL))
    )
    assert [value for (name, _), value in twice.items() if name == "rigtune_check_status"] == [1] * 8


def test_a_gpu_has_the_same_series_whatever_shares_its_finding() -> None:
    gpus = tuple(h100(index) for index in range(8))
    alone = finding("gpu-model", "GPU3", "WARN", "other")
    others = finding("gpu-model", "GPU0-2, GPU4-7", "PASS", "alike")
    for findings in ((MODEL,), (alone, others)):
        samples = samples_of(prometheus_text(verdict_of(*findings), gpus))
        series = {labels for name, labels in samples if name == "rigtune_check_status"}
        assert {(dict(labels)["gpu"], dict(labels)["uuid"]) for labels in series} == {
            (str(gpu.index), gpu.uuid) for gpu in gpus
        }
        assert all(dict(labels)["subject"] == f"GPU{dict(labels)['gpu']}" for labels in series)


def test_readings_of_gpus() -> None:
    gpu = msgspec.structs.replace(
        h100(2), temperature_c=61, power_w=512.5, ecc_uncorrected_volatile=Unknown(Reason.NOT_SUPPORTED)
    )
    samples = samples_of(prometheus_text(VERDICTS["good"], (gpu,)))
    labels = (("gpu", "2"), ("uuid", str(gpu.uuid)))
    assert samples["rigtune_gpu_temperature_celsius", labels] == 61
    assert samples["rigtune_gpu_power_watts", labels] == 512.5
    assert ("rigtune_gpu_ecc_uncorrected_total", labels) not in samples
    [build] = [dict(found) for name, found in samples if name == "rigtune_build_info"]
    assert set(build) == {"version", "commit"}


@every_verdict
def test_nagios(verdict: Verdict) -> None:
    first, *others = nagios_text(verdict).removesuffix("\n").split("\n")
    assert re.fullmatch(r"RIGTUNE (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+ \| [^|\n]+", first)
    for datum in first.rpartition("| ")[2].split(" "):
        assert re.fullmatch(r"[a-z]+=[0-9.]+s?(;[0-9]*){0,2}", datum), datum
    assert not any("|" in line for line in others)
    assert len(first) < 500


def test_nagios_words() -> None:
    words = {name: nagios_text(verdict).split()[1] for name, verdict in VERDICTS.items()}
    assert words == {
        "good": "OK",
        "bad": "CRITICAL",
        "warned": "WARNING",
        "unknown": "UNKNOWN",
        "empty": "UNKNOWN",
        "waived": "OK",
        "hostile": "CRITICAL",
    }
    assert nagios_text(VERDICTS["bad"]).startswith(
        "RIGTUNE CRITICAL - nvlink-active GPU3: an NVLink is down (17 of 18 up) (and 2 more)"
    )
    assert nagios_failure("a|b\nc") == "RIGTUNE UNKNOWN - a/b c\n"


@every_verdict
def test_a_reason_is_one_short_line_that_begins_with_the_check(verdict: Verdict) -> None:
    for line in (reason_line(verdict), reason_line(verdict, "warn"), reason_line(verdict, first_only=True)):
        assert len(line) <= 200
        assert line.isprintable()
        assert not line or line.split()[0] in {"verdict", *(row.id for row in CHECKS)}


def test_reasons() -> None:
    assert (
        reason_line(VERDICTS["good"])
        == reason_line(VERDICTS["warned"])
        == reason_line(VERDICTS["waived"])
        == ""
    )
    assert reason_line(VERDICTS["warned"], "warn") == "nofile host: the limit is low (1024)"
    assert (
        reason_line(VERDICTS["bad"]) == "nvlink-active GPU3: an NVLink is down (17 of 18 up); also row-remap"
    )
    assert (
        reason_line(VERDICTS["bad"], first_only=True) == "nvlink-active GPU3: an NVLink is down (17 of 18 up)"
    )
    assert reason_line(VERDICTS["empty"]) == "verdict host: nothing is known about this machine"


def test_markdown_is_short_on_a_good_machine_and_a_table_on_a_bad_one() -> None:
    assert markdown_text(VERDICTS["good"]).count("\n") <= 3
    table = [line for line in markdown_text(VERDICTS["bad"]).splitlines() if line.startswith("|")]
    assert len(table) == 2 + 2
    assert "nic-state" not in "".join(table)


def test_markdown_keeps_its_table_and_calls_nobody() -> None:
    text = markdown_text(VERDICTS["hostile"])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
    prose = re.sub(r"`[^`]*`", "", text)
    assert "@team" not in prose
    assert "http://" not in prose
    assert "<&" not in prose
    many = markdown_text(verdict_of(*(finding("gpu-lost", f"GPU{n}", "FAIL", "lost") for n in range(300))))
    assert "250 more" in many
    assert len(many.splitlines()) < 70


def test_text_shows_waivers_under_their_own_heading() -> None:
    text = render_verdict(VERDICTS["bad"])
    assert text.index("Waived by the policy:") > text.index("nofile")
    assert "until 2027-01-31: cable ordered" in text
    assert "1 waived" in " ".join(text.split())
    assert "--tier deep makes 1 more check" in " ".join(text.split())
    noted = msgspec.structs.replace(
        VERDICTS["good"], notes=("the waiver of nofile on * covers nothing; remove it",)
    )
    assert "covers nothing" in render_verdict(noted)


def test_text_folds_what_follows_from_a_failed_driver_and_what_was_not_given() -> None:
    silent = Unknown(Reason.ERROR, "no answer").words
    rows = [row for row in CHECKS if row.needs == ("gpus",)]
    follow = [
        finding(row.id, "host", "UNKNOWN", "x could not be read", observed=f"{silent} {row.id}")
        for row in rows
    ]
    driver = finding(
        "gpu-driver",
        "host",
        "FAIL",
        "the driver does not answer",
        observed="none",
        expected="one",
        remedy=FILES.remedy,
    )
    text = render_verdict(verdict_of(driver, *follow))
    assert text.count("? UNKNOWN") == 1
    assert f"because gpu-driver failed ({rows[0].id}" in " ".join(text.split())
    assert render_verdict(verdict_of(*follow)).count("? UNKNOWN") == len(rows) + 1
    absent = [
        finding(row.id, "host", "UNKNOWN", "x", observed=f"not recorded: {row.id} is not here")
        for row in rows
    ]
    text = render_verdict(verdict_of(MODEL, *absent))
    assert text.count("? UNKNOWN") == 2
    assert len(text.splitlines()) < 20
    assert "nothing wrong in what was read" in text
    assert all(row.id in render_verdict(verdict_of(*absent), verbose=True) for row in rows)


def test_a_verdict_of_every_check_stays_short() -> None:
    findings = [finding(row.id, "host", "PASS" if n % 3 else "SKIP", "well") for n, row in enumerate(CHECKS)]
    assert len(render_verdict(verdict_of(*findings)).splitlines()) <= 5
    assert max(map(len, render_verdict(verdict_of(*findings, LINK)).splitlines())) <= 80
    assert EVIL not in render_verdict(VERDICTS["hostile"], verbose=True)


def test_a_junit_case_keeps_its_name_and_reports_every_problem_of_its_check() -> None:
    for subject in ("GPU3", "GPU5"):
        verdict = verdict_of(
            finding("nvlink-active", subject, "FAIL", "down"),
            finding("nvlink-active", "GPU7", "WARN", "slow"),
        )
        [case] = ET.fromstring(junit_text(verdict).encode()).iter("testcase")  # noqa: S314 - of our own making
        assert case.attrib["name"] == "nvlink-active"
        failure = case.find("failure")
        assert failure is not None
        assert subject in failure.attrib["message"]
        assert "WARN nvlink-active GPU7: slow" in (failure.text or "")
