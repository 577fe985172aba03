"""Files for monitoring: Prometheus' rules on rigtune's metrics, the check of NHC, Ansible's message."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from assistant.formats.monitoring import VALUES, prometheus_text
from probes.base.record import to_json
from probes.judging.findings import Status
from recipes.launch.provision import EVERY_MIN, ProvisionOptions, find_provision, render_provision
from tests.support.machines import h100
from tests.support.verdicts import VERDICTS, finding, verdict_of
from tests.unit.recipes.launch.test_provision_scripts import BAD, BROKEN, FIT

GPUS = tuple(h100(index) for index in range(8))
LOST = finding("nvlink-active", "GPU3", "FAIL", "NVLinks are down")
METRIC = re.compile(r"\brigtune_\w+")
SERIES = re.compile(r"^(rigtune_\w+(?:\{.*\})?) (\S+)$", re.MULTILINE)
NHC = """#!/bin/bash
# Runs one check as the driver of LBNL NHC 1.5 does; its die() evaluates the reason between single quotes.
function die() { shift; CHECK_DIED=1; eval "'$OFFLINE_NODE'" "'n1'" "'$*'"; exit 1; }
set -f
IFS=''
. ./rigtune.nhc
CHECK=check_rigtune
eval $CHECK
"""
HOSTILE = "RIGTUNE CRITICAL - nvlink-active GPU2: $(touch hurt) '; touch hurt ;' [17 up] | blocking=1\n"


def files(kind: str, program: str = "/opt/rigtune/bin/rigtune") -> dict[str, str]:
    options = ProvisionOptions(rigtune=program, expect_gpus=8)
    return {artifact.path: artifact.text for artifact in render_provision(find_provision(kind), options)}


def rules(path: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(files("prometheus")[path])["groups"] for rule in group["rules"]]


def test_rules_ask_for_metrics_that_the_check_writes() -> None:
    written = set(METRIC.findall(prometheus_text(VERDICTS["bad"], GPUS)))
    for rule in rules("rigtune-alerts.yaml") + rules("rigtune-rules.yaml"):
        asked = set(METRIC.findall(rule["expr"]))
        assert asked
        assert asked <= written | {"rigtune_gpu_pcie_replays_total"}, rule


def test_alerts_read_the_values_of_the_check_and_the_pace_of_the_timer() -> None:
    text = files("prometheus")["rigtune-alerts.yaml"]
    assert {int(value) for value in re.findall(r"== (?:bool )?(\d)", text)} == {
        VALUES[Status.FAIL],
        VALUES[Status.UNKNOWN],
    }
    waits = {rule.get("for") for rule in rules("rigtune-alerts.yaml")}
    assert f"{2 * EVERY_MIN}m" in waits
    assert f"OnUnitActiveSec={EVERY_MIN}min" in files("systemd")["rigtune-check.timer"]


def promtool(folder: Path, *arguments: str) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        ("promtool", *arguments), cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_itself_raises_the_alert_of_the_gpu(tmp_path: Path) -> None:
    names = [tmp_path / name for name in files("prometheus")]
    for path in names:
        path.write_text(files("prometheus")[path.name])
    metrics = prometheus_text(verdict_of(LOST), GPUS)
    series = [
        {
            "series": name.replace("{", '{instance="n1",job="node",')
            if "{" in name
            else name + '{instance="n1",job="node"}',
            "values": f"{value}x90",
        }
        for name, value in SERIES.findall(metrics)
    ]
    labels = {"instance": "n1", "job": "node", "check": "nvlink-active", "subject": "GPU3", "gpu": "3"}
    labels |= {"uuid": str(GPUS[3].uuid), "severity": "critical"}
    fault = {
        "exp_labels": labels,
        "exp_annotations": {
            "summary": "GPU3 of n1 fails nvlink-active",
            "description": f"UUID {GPUS[3].uuid}. Take the node out of jobs; `rigtune check` there names "
            "reason and remedy.",
        },
    }
    ratio = {"expr": "job:rigtune_unfit_nodes:ratio", "eval_time": "10m"}
    test = {
        "rule_files": [path.name for path in names],
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [
                    {"eval_time": "29m", "alertname": "RigtuneGpuFault", "exp_alerts": []},
                    {"eval_time": "31m", "alertname": "RigtuneGpuFault", "exp_alerts": [fault]},
                    {"eval_time": "31m", "alertname": "RigtuneCheckFailed", "exp_alerts": []},
                ],
                "promql_expr_test": [
                    {
                        **ratio,
                        "exp_samples": [{"labels": 'job:rigtune_unfit_nodes:ratio{job="node"}', "value": 1}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    promtool(tmp_path, "check", "rules", *(path.name for path in names))
    promtool(tmp_path, "test", "rules", "test.yaml")


class Nhc:
    """A node whose NHC runs the exported check; rigtune is a script that gives one answer."""

    def __init__(self, folder: Path, driver: str | None) -> None:
        self.folder, self.driver = folder, driver
        text = files("nhc", str(folder / "rigtune"))["rigtune.nhc"]
        (folder / "rigtune.nhc").write_text(text.replace("/run/rigtune", str(folder / "run")))
        (folder / "nhc.conf").write_text("* || check_rigtune\n")
        self.script("driver", NHC)
        if driver is not None:
            beside = Path(driver).resolve().parent / "scripts"
            for path in (beside if beside.is_dir() else Path("/etc/nhc/scripts")).glob("*.nhc"):
                (folder / path.name).symlink_to(path)
        self.script("offline", f"#!/bin/sh\nshift\nprintf '%s' \"$*\" >{folder}/reason\n")

    def script(self, name: str, text: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
            path.chmod(0o755)

    def judged(self, line: str, code: int) -> None:
        self.script("rigtune", f"#!/bin/sh\ncat <<'END'\n{line}END\nexit {code}\n")

    def run(self, **variables: str) -> str:
        """Return the words with which NHC marks the node; empty if it does not."""
        settings = {"OFFLINE_NODE": str(self.folder / "offline"), **variables}
        argv = [str(self.folder / "driver")]
        if self.driver is not None:
            settings |= {"CONFFILE": str(self.folder / "nhc.conf"), "INCDIR": str(self.folder)}
            settings |= {"LOGFILE": str(self.folder / "log"), "NHC_RM": "slurm", "ONLINE_NODE": ":"}
            argv = ["bash", self.driver, *(f"{name}={value}" for name, value in settings.items())]
        (self.folder / "reason").unlink(missing_ok=True)
        environment = {"PATH": os.environ["PATH"], **settings}
        done = subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        reason = self.folder / "reason"
        words = reason.read_text() if reason.exists() else ""
        assert done.returncode == (1 if words else 0), done.stderr
        return words


@pytest.fixture(params=["as NHC does", "NHC"])
def nhc(request: pytest.FixtureRequest, tmp_path: Path) -> Nhc:
    driver = shutil.which("nhc") if request.param == "NHC" else None
    if request.param == "NHC" and driver is None:
        pytest.skip("NHC is not installed")
    return Nhc(tmp_path, driver)


def test_nhc_gets_the_reason_that_two_runs_report(nhc: Nhc) -> None:
    nhc.judged(BAD, 1)
    assert nhc.run() == ""
    assert nhc.run() == "check_rigtune:  nvlink-active GPU2: NVLinks are down (17 up; down: link 7)"
    nhc.judged(FIT, 0)
    assert nhc.run() == ""
    assert not any((nhc.folder / "run").iterdir())


def test_nhc_executes_nothing_in_a_reason(nhc: Nhc) -> None:
    nhc.judged(HOSTILE, 1)
    nhc.run()
    assert nhc.run().startswith("check_rigtune:  nvlink-active GPU2: $(touch hurt) ; touch hurt")
    assert not (nhc.folder / "hurt").exists()


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_nhc_marks_no_node_for_a_broken_installation(nhc: Nhc, broken: str) -> None:
    nhc.script("rigtune", broken)
    assert nhc.run() == nhc.run() == ""


def test_a_slow_check_ends_before_the_watchdog_of_nhc(nhc: Nhc) -> None:
    nhc.script("rigtune", "#!/bin/sh\nexec sleep 60\n")
    assert nhc.run(TIMEOUT="11") == nhc.run(TIMEOUT="5") == ""


def test_a_fault_that_cannot_be_stored_is_asked_for_twice(nhc: Nhc) -> None:
    (nhc.folder / "run").write_text("no folder")
    nhc.judged(BAD, 1)
    assert "nvlink-active GPU2" in nhc.run()


def ansible_message(answer: str, code: int, folder: Path) -> str:
    """Return the message with which the exported tasks end a play of the real Ansible; empty if they pass."""
    if shutil.which("ansible-playbook") is None:
        pytest.skip("ansible-core is not installed")
    (folder / "answer").write_text(answer)
    (folder / "rigtune").write_text(f"#!/bin/sh\ncat {folder}/answer\nexit {code}\n")
    (folder / "rigtune").chmod(0o755)
    tasks = yaml.safe_load(files("ansible", str(folder / "rigtune"))["rigtune-tasks.yaml"])[-2:]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (folder / "play.yaml").write_text(yaml.safe_dump([play]).replace("become: true", "become: false"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ("ansible-playbook", "play.yaml"),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "PLAY RECAP" in done.stdout, done.stderr
    failed = re.search(r"FAILED! => (\{.*\})$", done.stdout, re.MULTILINE)
    return "" if failed is None else str(json.loads(failed[1])["msg"])


def test_the_template_of_the_message_names_check_and_part() -> None:
    task = yaml.safe_load(files("ansible")["rigtune-tasks.yaml"])[-1]
    environment = jinja2.Environment(autoescape=False)  # noqa: S701 - Ansible does not escape
    verdict = json.loads(to_json(VERDICTS["bad"]))
    values: dict[str, Any] = {"verdict": verdict}
    for name in ("counted", "unknown", "deciding"):
        expression = task["vars"][name].removeprefix("{{").removesuffix("}}")
        values[name] = list(environment.compile_expression(expression)(**values))
    message = environment.from_string(task["ansible.builtin.assert"]["fail_msg"]).render(values)
    assert message.startswith("nvlink-active GPU3: ")
    assert [finding["check_id"] for finding in values["deciding"]] == ["nvlink-active", "row-remap"]


def test_the_message_of_ansible_names_the_gpu(tmp_path: Path) -> None:
    answer = to_json(VERDICTS["bad"]).decode()
    message = ansible_message(answer, 1, tmp_path)
    assert message.startswith("nvlink-active GPU3: ")
    assert "row-remap" in message
    assert "mlx5_7" not in message, "the policy waives this finding"
    hostile = finding("gpu-lost", "GPU4-7", "FAIL", "gone {{ 7 * 7 }}")
    text = to_json(verdict_of(hostile)).decode()
    assert ansible_message(text, 1, tmp_path).startswith("gpu-lost GPU4-7: gone {{ 7 * 7 }}")
    assert ansible_message(to_json(VERDICTS["good"]).decode(), 0, tmp_path) == ""
