"""Test reports, node lists, metrics and the hand-over from folders of runs, redacted and not."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re

import jsonschema
import msgspec
import pytest

from assistant.cli import command_line
from assistant.formats.fleet_formats import acceptance_markdown, fleet_csv, fleet_markdown
from assistant.formats.schemas import schema_for
from assistant.pages.fleet_nodes_page import matching, node_rows
from assistant.pages.fleet_page import fleet_page
from assistant.text.plain_writer import text_of
from assistant.usecases.fleet.check_fleet import stored_run, stored_runs
from assistant.usecases.fleet.fleet_store import add_run
from assistant.usecases.fleet.run_folder import RunMeta, write_meta
from probes.fleet.acceptance import acceptance_of
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import result_of
from probes.fleet.node_report import Metric, NodeReport, Reason
from probes.fleet.question import Question
from probes.judging.findings import Status
from tests.support.simulated_fleet import Fleet, write_run

START = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
NAMES = tuple(f"gpu{number:03d}" for number in range(40, 60))
ADDRESS, SERIAL, UUID = "10.20.30.41", "1324221004711", "8f6d2a1c-1b2c-4d5e-9f00-a1b2c3d4e5f6"
OTHER = "storage17.secret-site.example.edu"


CHECK = ("check", "--engine", "exec", "-w", "gpu[040-059]", "--rigtune", "x", "-q")


def run_reports(*, slow: float = 0.9, driver: str = "580.1") -> list[NodeReport]:
    """Return reports of 20 nodes: one has a slow GPU, one failed a check, one did not answer.

    Names of nodes and sites occur in many fields.
    """
    fleet = Fleet(20, 3, factor=lambda node, gpu: slow if (node, gpu) == (4, 2) else 1.0)
    reports = []
    for name, each in zip(NAMES, fleet.run(), strict=True):
        metrics = tuple(
            msgspec.structs.replace(
                metric, part_id=f"{metric.part_id}-{name}", reference_share=0.95, reference="H100 SXM, bf16"
            )
            for metric in each.metrics
        )
        parts = {"GPU3": f"GPU-{UUID}", "mlx5_0": "a088:c203:00ab:cdef"}
        attributes = {"gpu_model": "H100", "driver": driver, "vbios": "96.00.61.00", "bios": "1.2"}
        values = {"node": name, "metrics": metrics, "parts": parts, "attributes": attributes}
        reports.append(msgspec.structs.replace(each, **values))
    words = f"{NAMES[7]} and {NAMES[8]}-ib0 cannot reach {ADDRESS} (serial number: {SERIAL}) from {OTHER}"
    reason = Reason(check_id="hostname-address", subject=NAMES[7], status=Status.FAIL, summary=words)
    reports[7] = msgspec.structs.replace(reports[7], verdict=Status.FAIL, reasons=(reason,))
    reports[6] = msgspec.structs.replace(reports[6], unmeasured=f"{NAMES[6]}: no route to {OTHER} {ADDRESS}")
    reports[8] = msgspec.structs.replace(reports[8], claims="imposter.secret-site.example.edu")
    reports[9] = NodeReport(
        node=NAMES[9], outcome="unreachable", detail=f"ssh: connect to {ADDRESS}: refused"
    )
    del attributes["bios"]  # of the last node
    return reports


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = write_run(tmp_path / "secret-site-run", run_reports(), START)
    write_meta(
        path,
        RunMeta(
            engine="ssh",
            engine_reason="test",
            wanted=NAMES,
            places={name: {"rack": "hall-east-7", "pdu": f"pdu-{name}"} for name in NAMES},
        ),
    )
    return path


def output(capsys, *words: object) -> tuple[int, str]:
    capsys.readouterr()
    code = command_line(["fleet", *map(str, words)])
    return code, capsys.readouterr().out


def test_the_report_as_markdown_and_as_csv(folder, capsys):
    code, text = output(capsys, "report", folder)
    assert code == 0
    assert "### 17 fit, 2 not, 1 without an answer of 20 nodes" in text
    assert re.search(r"\| `gpu044` \| slow \| healthy \| gpu044 GPU2 is .* slower", text)
    assert "| `gpu049` | unreachable |" in text
    table = io.StringIO(output(capsys, "report", folder, "--format", "csv")[1])
    rows = {row["node"]: row for row in csv.DictReader(table)}
    assert len(rows) == 20
    assert (rows["gpu044"]["answer"], rows["gpu049"]["answer"]) == ("bad", "silent")
    assert (rows["gpu047"]["rack"], rows["gpu047"]["vbios"]) == ("hall-east-7", "96.00.61.00")


def test_lists_of_nodes_for_schedulers(folder, capsys, tmp_path):
    assert output(capsys, "export", folder, "--format", "bad")[1] == "gpu044\ngpu047\n"
    assert output(capsys, "export", folder, "--format", "silent")[1] == "gpu049\n"
    file = tmp_path / "good.txt"
    assert output(capsys, "export", folder, "--format", "good", "-o", file) == (0, "")
    assert len(file.read_text().splitlines()) == 17


def test_metrics_for_the_head_node(folder, capsys, tmp_path):
    file = tmp_path / "textfile" / "rigtune_fleet.prom"
    assert output(capsys, "export", folder, "-o", file) == (0, "")
    lines = file.read_text().splitlines()
    for line in (
        'rigtune_fleet_nodes{answer="good"} 17',
        'rigtune_fleet_nodes{answer="silent"} 1',
        'rigtune_fleet_node_verdict{node="gpu047"} 3',
        'rigtune_fleet_node_verdict{node="gpu049"} 2',
        'rigtune_fleet_node_good{node="gpu044"} 0',
        'rigtune_fleet_findings{kind="slow-part"} 1',
        f"rigtune_fleet_last_run_timestamp_seconds {START.timestamp()}",
    ):
        assert line in lines
    assert len(lines) == len(set(lines)), "no series appears twice"
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no half file remains"
    assert file.stat().st_mode & 0o777 == 0o644


def test_the_hand_over_names_what_was_not_measured(folder, capsys):
    code, text = output(capsys, "accept", folder)
    assert code == 1
    assert "# Hand-over of 20 nodes" in text
    assert "- 1 node gave no verdict: nothing is known about them." in text
    assert "Links between nodes" in text
    assert "No rack of any node" not in text
    assert "the catalogue has no value" not in text
    assert re.search(r"\| bios \| 1.2 \| 18 \|", text)
    assert re.search(r"\| bios \| unknown \| 1 \| gpu059 \|", text)
    assert re.search(
        r"\| gemm\\_flops\\_per\\_s \| 152 \| .*\(gpu044 GPU2\).*\| 95 % \(worst 95 %\) \|", text
    )
    code, answer = output(capsys, "accept", folder, "--format", "json")
    jsonschema.validate(json.loads(answer), json.loads(schema_for("fleet-accept")))


def two_runs(tmp_path) -> tuple[object, ...]:
    """Return the folders of a check against a policy and of a later measurement in which a node timed out."""
    measured = Fleet(4, 3).run()
    why = Reason(check_id="policy-gpus", subject="host", status=Status.FAIL, summary="7 of 8 GPUs")
    checked = [msgspec.structs.replace(each, metrics=()) for each in measured]
    checked[1] = msgspec.structs.replace(checked[1], verdict=Status.FAIL, reasons=(why,))
    measured[3] = NodeReport(node=measured[3].node, outcome="timed-out")
    later = START + datetime.timedelta(hours=2)
    speed = write_run(tmp_path / "accept-speed", measured, later)
    folders = (write_run(tmp_path / "accept", checked, START), speed)
    for folder, question in zip(
        folders, (Question(policy="/s/site.toml"), Question(suite="quick")), strict=True
    ):
        names = tuple(each.node for each in measured)
        write_meta(folder, RunMeta(engine="exec", engine_reason="", wanted=names, question=question))
    return folders


@pytest.mark.parametrize("turn", [1, -1], ids=["in order", "the newer one first"])
def test_a_check_and_a_measurement_are_one_hand_over(tmp_path, capsys, turn):
    folders = two_runs(tmp_path)
    code, answer = output(capsys, "accept", *folders[::turn], "--format", "json")
    report = json.loads(answer)
    jsonschema.validate(report, json.loads(schema_for("fleet-accept")))
    assert (code, report["unfit"], report["silent"]) == (1, ["n1"], [])
    assert report["fit"] == ["n0", "n2", "n3"]
    (rates,) = report["rates"]
    assert rates["parts"] == 3 * 8, "n3 was not measured"
    gaps = " ".join(report["not_measured"])
    assert f"1 node gave no verdict in {folders[1]} (n3)." in gaps
    assert "1 node without any measurement (n3)" in gaps
    assert "nobody stated what was ordered" not in gaps
    assert report["asked"] == (
        "--tier quick, no --suite, --policy site.toml; then --tier quick, --suite quick, no --policy"
    )
    _, redacted = output(capsys, "accept", *folders, "--redact")
    assert str(tmp_path) not in redacted
    assert "gave no verdict in run 2" in redacted


@pytest.mark.parametrize("turn", [1, -1], ids=["measurement first", "check first"])
def test_a_hand_over_is_not_compared_with_its_own_measurement(tmp_path, turn):
    fleet = Fleet(4, 3, factor=lambda node, gpu: 0.9 if (node, gpu) == (1, 1) else 1.0)
    healthy, slow = Fleet(4, 3), fleet.run(with_faults=True)
    store = tmp_path / "fleet.sqlite"
    for number in range(5):
        add_run(store, f"old-{number}", START - datetime.timedelta(days=9 - number), healthy.run())
    checked = [msgspec.structs.replace(each, metrics=()) for each in slow]
    ages = dict(zip(("speed", "check")[::turn], (START, START + datetime.timedelta(hours=2)), strict=True))
    add_run(store, "speed", ages["speed"], slow)
    folders = (
        write_run(tmp_path / "speed", slow, ages["speed"]),
        write_run(tmp_path / "check", checked, ages["check"]),
    )
    outliers = stored_runs(folders, store).result.outliers
    (slower,) = {each.summary for each in outliers if each.kind == "slower-than-before"}
    assert "slower than in 5 earlier runs" in slower


def test_a_hand_over_without_a_policy_states_that_the_order_is_unknown(tmp_path, capsys):
    code, text = output(capsys, "accept", two_runs(tmp_path)[1])
    assert code == 3
    assert "nobody stated what was ordered" in text


def test_rates_without_a_value_in_the_catalogue_and_busy_parts_are_gaps(tmp_path, capsys):
    reports = Fleet(3, 1).run()
    busy = tuple(msgspec.structs.replace(metric, quality="busy") for metric in reports[2].metrics)
    reports[2] = msgspec.structs.replace(reports[2], metrics=busy)
    text = output(capsys, "accept", write_run(tmp_path / "run", reports, START))[1]
    assert r"gemm\_flops\_per\_s: the catalogue has no value" in text
    assert "8 measurements taken while others used the node" in text
    assert "| no value |" in text


def test_gaps_of_a_run_without_measurements(tmp_path, capsys):
    unknown = Reason(check_id="gpu-count", subject="host", status=Status.UNKNOWN, summary="no driver")
    reports = [
        NodeReport(node="n1", outcome="ok", verdict=Status.PASS),
        NodeReport(node="n2", outcome="ok", verdict=Status.UNKNOWN, reasons=(unknown,)),
        NodeReport(node="n3", outcome="ok", verdict=Status.PASS, unmeasured="gemm: the CPUs are busy"),
    ]
    text = output(capsys, "accept", write_run(tmp_path / "run", reports, START))[1]
    assert "2 nodes without any measurement (n1, n2): add --suite quick or full." in text
    assert "1 node without any measurement (n3): no benchmark gave a result there" in text
    assert "n3: gemm: the CPUs are busy" in text
    assert "gpu-count: could not be carried out on 1 node." in text
    assert "only required ones are named, among the first 20 reasons of each node" in text
    assert "No rack of any node is known" in text
    assert "No rate was measured." in text


def test_two_runs_are_compared(folder, tmp_path, capsys):
    later = write_run(
        tmp_path / "later", run_reports(slow=0.8, driver="590.2"), START + datetime.timedelta(days=1)
    )
    code, text = output(capsys, "compare", folder, later)
    assert code == 1
    assert "driver: 580.1 -> 590.2 on 19 nodes" in text
    assert "slower than the others: gpu044 GPU2" in " ".join(text.split())
    code, answer = output(capsys, "compare", folder, later, "--format", "json")
    jsonschema.validate(json.loads(answer), json.loads(schema_for("fleet-compare")))
    assert output(capsys, "compare", folder, folder)[0] == 0


def test_the_answers_conform_to_their_schemas(folder, capsys):
    for command, schema in (((*CHECK, "--out", folder), "fleet-check"), (("show", folder), "fleet-check")):
        jsonschema.validate(
            json.loads(output(capsys, *command, "--format", "json")[1]), json.loads(schema_for(schema))
        )
    history = json.loads(output(capsys, "history", NAMES[7], "--format", "json")[1])
    jsonschema.validate(history, json.loads(schema_for("fleet-history")))
    assert history["changes"]


@pytest.mark.parametrize(
    "command",
    [
        (*CHECK, "--out"),
        (*CHECK, "--format", "json", "--out"),
        ("show", "-v"),
        ("report",),
        ("report", "--format", "csv"),
        ("report", "--format", "json"),
        ("export",),
        ("export", "--format", "bad"),
        ("accept",),
        ("accept", "--format", "json"),
        ("compare", "FOLDER", "--format", "json"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_one_mapping_redacts_all_names_of_a_run(folder, tmp_path, capsys, command):
    output(capsys, *CHECK, "--out", folder)
    if "FOLDER" in command:
        second = write_run(tmp_path / "later", run_reports(driver="590.2"), START)
        command = tuple(second if word == "FOLDER" else word for word in command)
    _, text = output(capsys, *command, folder, "--redact")
    secrets = (
        *NAMES,
        "gpu[0",
        ADDRESS,
        SERIAL,
        UUID,
        OTHER,
        "secret-site",
        "hall-east",
        "imposter",
    )
    secrets += ("storage17", "c203:00ab")
    assert not [name for name in secrets if name in text]
    assert "node-0" in text


def test_a_node_has_the_same_placeholder_everywhere(folder, capsys):
    _, answer = output(capsys, "show", folder, "--redact", "--format", "json")
    result = json.loads(answer)
    assert result["wanted"] == [f"node-{number:03d}" for number in range(1, 21)]
    failed = result["nodes"][7]
    assert failed["reasons"][0]["summary"].startswith("node-008 and node-009-ib0 cannot reach ")
    assert failed["reasons"][0]["subject"] == "node-008"
    assert [each["subject"] for each in result["outliers"]] == ["node-005 GPU2"]


def test_names_that_look_like_placeholders_are_replaced_too(tmp_path, capsys):
    reports = [NodeReport(node=f"node-00{number}", outcome="ok", verdict=Status.PASS) for number in (3, 2, 1)]
    reports[0] = msgspec.structs.replace(reports[0], verdict=None, outcome="exit", detail="node-002 is down")
    folder = write_run(tmp_path / "run", reports, START)
    result = json.loads(output(capsys, "show", folder, "--redact", "--format", "json")[1])
    assert result["nodes"][0]["detail"] == "node-002 is down"  # the second node, as before
    reports.reverse()
    folder = write_run(tmp_path / "other", reports, START)
    result = json.loads(output(capsys, "show", folder, "--redact", "--format", "json")[1])
    assert [node["node"] for node in result["nodes"]] == ["node-001", "node-002", "node-003"]


def test_every_form_gives_a_slow_node_its_own_reason_and_good_nodes_none():
    nodes = ("n0", "n1", "n2", "n3")
    reports = tuple(NodeReport(node=node, outcome="ok", verdict=Status.PASS) for node in nodes)
    few, slower = "gemm: too few peers for a comparison (4 parts)", "n0 GPU1 is 9 % slower than before"
    findings = (
        FleetFinding(kind="few-peers", subject="gemm", nodes=nodes, summary=few),
        FleetFinding(kind="slower-than-before", subject="n0 GPU1", nodes=("n0",), summary=slower),
    )
    result = result_of(reports, findings, engine="ssh", engine_reason="")
    rows = list(csv.DictReader(io.StringIO(fleet_csv(result, reports))))
    assert [row["reason"] for row in rows] == [slower, "", "", ""]
    assert [row.reason for row in node_rows(result)] == ["GPU1 is 9 % slower than before", "", "", ""]
    page = text_of(fleet_page(result, ",".join, verbose=True), colour=False, width=200)
    assert re.search(rf"n0 +slow +{slower}", page)
    accepted = acceptance_markdown(acceptance_of(reports, result, run="", began=""), result)
    for text in (page, fleet_markdown(result), accepted):
        assert text.count(few) == 1
        assert re.search(rf"Too few to compare\s+-? ?{re.escape(few)}", text)


def test_nodes_are_shown_and_filtered_by_their_place(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = stored_run(folder).result
    assert len(matching(node_rows(result), "hall-east-7")) == len(NAMES)
    assert [row.node for row in matching(node_rows(result), "pdupdu-gpu044")] == ["gpu044"]
    assert "rack hall-east-7, pdu pdu-gpu044" in " ".join(output(capsys, "show", folder, "-v")[1].split())


def test_the_hand_over_escapes_names_of_attributes_and_takes_the_worst_time_as_the_best_side_says():
    hostile = "bios|<script>"
    metrics = tuple(
        Metric(
            part_kind="gpu",
            part_id=f"GPU-{number}",
            slot=f"GPU{number}",
            metric="latency",
            unit="ms",
            samples=(value,),
            is_larger_better=False,
        )
        for number, value in enumerate((2.0, 3.0, 7.0))
    )
    report = NodeReport(
        node="n1", outcome="ok", verdict=Status.PASS, attributes={hostile: "1"}, metrics=metrics
    )
    result = result_of((report,), (), engine="ssh", engine_reason="")
    accepted = acceptance_of((report,), result, run="", began="")
    (rate,) = accepted.rates
    assert (rate.worst, rate.best, rate.worst_part) == (7.0, 2.0, "n1 GPU2")
    text = acceptance_markdown(accepted, result)
    assert hostile not in text
    assert re.search(r"\| 7\S* ms \(n1 GPU2\) \| 3\S* ms \| 2\S* ms \|", text)


def test_the_metric_of_states_says_that_suspects_are_listed(folder, capsys):
    output(capsys, *CHECK, "--out", folder)
    text = output(capsys, "export", folder)[1]
    assert 'condition="suspect"' in text
    assert "# HELP rigtune_fleet_node_condition State of a node that is not healthy" in text
