"""Test that results of another machine and edited files are refused, and that both machines are named."""

from __future__ import annotations

import json

import msgspec
import pytest

from assistant.cli import command_line
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.base.record import to_json
from probes.collect.collecting import CollectOptions
from probes.facts.measurements import MeasuredMachine, MeasurementSet
from probes.sources.choose import open_source
from recipes.machine import measured_on

CPU = {"device_name": "AMD EPYC 7763", "hostname": "node5", "threads": 4, "cpu_capability": "AVX2"}
H100 = {"device_name": "NVIDIA H100 80GB HBM3", "hostname": "node7", "device_memory_bytes": 85520809984}


def _gemm(subject: str, conditions: dict[str, object]) -> dict[str, object]:
    return {
        "bench_id": "gemm",
        "subject": subject,
        "metric": "gemm_flops_per_s",
        "unit": "flop/s",
        "samples": [6.5e14, 6.6e14],
        "parameters": {"dtype": "bf16"},
        "conditions": conditions,
    }


def _file(path, *rows, taken_on=None):
    document = {"schema_version": 1, "measurements": rows or [_gemm("GPU0", {})]}
    if taken_on is not None:
        document["taken_on"] = msgspec.to_builtins(taken_on)
    path.write_text(json.dumps(document))
    return str(path)


ELSEWHERE = (
    (
        {"taken_on": MeasuredMachine(hostname="node5", cpu="AMD EPYC 7763", cores=64)},
        "node5 (CPU, 64 cores of",
    ),
    ({"taken_on": MeasuredMachine(gpus=("NVIDIA H100 80GB HBM3",) * 4)}, "(4 x NVIDIA H100 80GB HBM3)"),
    ({"taken_on": MeasuredMachine(gpus=("NVIDIA A100-SXM4-80GB",) * 8)}, "(8 x NVIDIA A100-SXM4-80GB)"),
    ({"taken_on": MeasuredMachine(gpus=("NVIDIA H100 PCIe",) * 8)}, "(8 x NVIDIA H100 PCIe)"),
    ({"rows": [_gemm("CPU", CPU)]}, "node5 (CPU, AMD EPYC 7763)"),
    ({"rows": [_gemm("GPU0", {**H100, "device_name": "Tesla T4"})]}, "node7 (Tesla T4)"),
)
LIKE = (
    ({"taken_on": MeasuredMachine(gpus=("NVIDIA H100 80GB HBM3",) * 8)}, ""),
    ({"taken_on": MeasuredMachine(gpus=("NVIDIA h100 80gb hbm3",) * 8)}, ""),
    ({"taken_on": MeasuredMachine(gpus=("",) * 8)}, ""),
    ({"rows": [_gemm("GPU0", H100), {**_gemm("CPU", CPU), "bench_id": "cpu-gemm"}]}, ""),
    ({"rows": [_gemm("GPU0", {})]}, "does not state which machine was measured"),
)
COMMANDS = (
    ["plan", "llama-3-8b", "--machine", "dgx-h100"],
    ["predict", "--set", "model=llama-3-8b", "--machine", "dgx-h100"],
    ["check", "--machine", "dgx-h100"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(("file", "words"), ELSEWHERE)
def test_measurements_of_another_machine_are_refused(tmp_path, capsys, command, file, words):
    path = _file(tmp_path / "m.json", *file.get("rows", ()), taken_on=file.get("taken_on"))
    assert command_line([*command, "--measurements", path]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert "catalogue machine dgx-h100 (8 x NVIDIA H100 80GB HBM3)" in message


@pytest.mark.parametrize(("file", "words"), LIKE)
def test_measurements_of_a_machine_like_this_are_used(tmp_path, capsys, file, words):
    path = _file(tmp_path / "m.json", *file.get("rows", ()), taken_on=file.get("taken_on"))
    assert command_line([*COMMANDS[0], "--measurements", path]) == 0
    message = capsys.readouterr().err
    assert words in message if words else not message


def test_a_run_of_another_host_of_the_same_kind_is_mentioned(tmp_path, capsys, monkeypatch):
    theirs = MeasuredMachine(hostname="node7", gpus=("NVIDIA H100 80GB HBM3",) * 8)
    mine = MeasuredMachine(hostname="node1", gpus=("NVIDIA H100 80GB HBM3",) * 8)
    monkeypatch.setattr(measured_on, "measured_machine", lambda _: mine)
    path = _file(tmp_path / "m.json", taken_on=theirs)
    assert command_line([*COMMANDS[0], "--measurements", path]) == 0
    assert (
        "measured on node7 (8 x NVIDIA H100 80GB HBM3), of the same kind as node1" in capsys.readouterr().err
    )


def test_cases_on_other_gpus_do_not_ignore_measurements_silently(tmp_path, capsys):
    path = _file(tmp_path / "m.json", taken_on=MeasuredMachine(gpus=("NVIDIA H100 80GB HBM3",) * 8))
    options = ["--machine", "dgx-h100", "--measurements", path]
    case = ["predict", "--set", "model=gpt2", "--set", "n_gpus=1"]
    assert command_line([*case, "--set", "gpu=A100-SXM4-80GB", *options]) == 2
    assert "8 x NVIDIA H100 80GB HBM3), but the case runs on A100" in capsys.readouterr().err
    assert command_line([*case, "--set", "gpu=H100-SXM-80GB", *options]) == 0
    table = tmp_path / "cases.csv"
    table.write_text("case_id,model,gpu,n_gpus\na,gpt2,,1\nb,gpt2,A100-SXM4-80GB,1\n")
    capsys.readouterr()
    assert command_line(["predict", str(table), *options]) == 0
    assert "not used for 1 case on other GPUs" in capsys.readouterr().err


def test_a_benchmark_file_states_its_machine(tmp_path):
    *_, probed = probe_machine(open_source((), "dgx-h100"), CollectOptions())
    facts = probed.result
    *_, ended = measure_machine(facts, MeasureOptions(python="/does/not/exist"))
    measured: MeasurementSet = ended.result
    assert measured.taken_on.gpus == ("NVIDIA H100 80GB HBM3",) * 8
    assert msgspec.json.decode(to_json(measured), type=MeasurementSet).taken_on == measured.taken_on


def test_one_folder_never_holds_runs_of_two_machines(tmp_path, capsys):
    auto = ["auto", "gpt2", "-q", "--out", str(tmp_path / "run"), "--machine"]
    assert command_line([*auto, "dgx-h100"]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert command_line([*auto, "dgx-a100"]) == 2
    message = capsys.readouterr().err
    assert "dgx-h100 (8 x NVIDIA H100 80GB HBM3)" in message
    assert "dgx-a100 (8 x NVIDIA A100-SXM4-80GB)" in message
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert command_line([*auto, "dgx-h100"]) == 0
    assert command_line([*auto, "dgx-a100", "--overwrite"]) == 0


@pytest.mark.parametrize("damage", ["{", "[]", '{"gpus": 1e999}', "\ud800"])
def test_a_run_that_cannot_be_read_is_not_replaced(tmp_path, damage):
    (tmp_path / "facts.json").write_bytes(damage.encode("utf-8", "surrogatepass"))
    assert command_line(["auto", "gpt2", "-q", "--out", str(tmp_path), "--machine", "dgx-h100"]) == 2


@pytest.mark.parametrize("edited", ["recipe.toml", "launch/launch.sh"])
def test_auto_keeps_what_a_person_edited(tmp_path, edited):
    auto = ["auto", "gpt2", "-q", "--out", str(tmp_path), "--machine", "dgx-h100"]
    assert command_line(auto) == 0
    with (tmp_path / edited).open("a") as file:
        file.write("# mine\n")
    assert command_line(auto) == 2
    assert (tmp_path / edited).read_text().endswith("# mine\n")
    assert command_line([*auto, "--overwrite"]) == 0
    assert not (tmp_path / edited).read_text().endswith("# mine\n")


@pytest.mark.parametrize(
    ("was", "becomes"), [("micro_batch = ", "micro_batch = 1"), ("sha256 ", "sha256 0"), ("", "\r\n")]
)
def test_plan_keeps_an_edited_recipe(tmp_path, was, becomes):
    recipe = tmp_path / "recipe.toml"
    plan = ["plan", "gpt2", "-q", "--machine", "dgx-h100", "-o", str(recipe)]
    assert command_line(plan) == 0
    assert command_line(plan) == 0
    text = recipe.read_text()
    recipe.write_text(text.replace(was, becomes, 1))
    changed = recipe.read_bytes()
    assert command_line(plan) == 2
    assert recipe.read_bytes() == changed
    assert command_line([*plan, "--overwrite"]) == 0
    assert recipe.read_text() == text


def test_plan_keeps_a_file_that_is_no_recipe(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    plan = ["plan", "gpt2", "-q", "--machine", "dgx-h100", "-o"]
    assert command_line([*plan, str(tmp_path / "train.py")]) == 2
    assert command_line([*plan, "/dev/null"]) == 0
