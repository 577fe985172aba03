"""Test that `rigtune predict` answers every case in order: predicted, or refused with a reason.

Output files are written completely or not at all.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from assistant.formats.predict_formats import COLUMNS
from assistant.formats.schemas import schema_for
from probes.base.errors import ExitCode
from recipes.predict.breakdowns import COMPUTE_TERMS, TIME_TERMS

ROOT = Path(__file__).resolve().parents[2]
SIZES = {
    "model": "llama-3-8b",
    "family": "dense",
    "n_layers": "32",
    "hidden": "4096",
    "n_heads": "32",
    "n_kv_heads": "8",
    "ffn_hidden": "14336",
    "vocab": "128256",
    "seq_len": "8192",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
    "sharding": "fsdp",
    "micro_batch": "1",
    "grad_accum": "2",
    "precision": "bf16-mixed",
    "activation_checkpointing": "full",
}
SCORED = (
    "case_id",
    "status",
    "reason",
    "fits",
    "step_time_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "peak_mem_gib",
)


def rigtune(
    *arguments: str | Path, cwd: Path, stdin: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(cwd / "state"),
        "COLUMNS": "100",
    }
    argv = [sys.executable, "-m", "assistant", "predict", *(str(argument) for argument in arguments)]
    done = subprocess.run(
        argv, cwd=cwd, env=environment, capture_output=True, input=stdin, check=False, timeout=120
    )
    return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())


def table(*cases: dict[str, str]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for case in cases for name in case)))
    writer.writeheader()
    writer.writerows(cases)
    return text.getvalue().encode()


def case(case_id: str, **changes: str) -> dict[str, str]:
    return {"case_id": case_id, **SIZES, **changes}


def answers(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_case_is_answered_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_bytes(
        table(case("b"), case("a", gpu="Abacus"), case("c", n_gpus="many"), case("b"))
    )
    done = rigtune("cases.csv", cwd=tmp_path)
    rows = answers(done.stdout)
    assert done.returncode == ExitCode.OK
    assert [(row["case_id"], row["status"]) for row in rows] == [
        ("b", "predicted"),
        ("a", "refused"),
        ("c", "refused"),
        ("b", "refused"),
    ]
    assert "Abacus" in rows[1]["reason"]
    assert rows[2]["reason"].startswith("n_gpus is 'many'")
    assert "line 2" in rows[3]["reason"]
    assert done.stderr == "4 cases: 1 predicted, 3 refused (gpu 1, n_gpus 1, case_id 1)\n"


def test_the_columns(tmp_path: Path) -> None:
    (row,) = answers(rigtune("-", cwd=tmp_path, stdin=table(case("a"))).stdout)
    assert tuple(row) == COLUMNS
    assert set(SCORED) <= set(COLUMNS)
    assert row["fits"] in ("true", "false")
    low, middle, high = (float(row[name]) for name in ("step_time_low_s", "step_time_s", "step_time_high_s"))
    assert 0 < low < middle < high
    low, middle, high = (
        float(row[name]) for name in ("peak_mem_low_gib", "peak_mem_gib", "peak_mem_high_gib")
    )
    assert 0 < low < middle < high
    assert float(row["samples_per_s"]) * float(row["step_time_s"]) == pytest.approx(
        float(row["global_batch"]), rel=1e-4
    )
    assert float(row["tokens_per_s_per_gpu"]) * 8 == pytest.approx(
        8192 * float(row["samples_per_s"]), rel=1e-4
    )
    parts = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead")
    assert sum(float(row[f"memory_{part}_gib"]) for part in parts) == pytest.approx(
        float(row["memory_total_gib"]), rel=1e-3
    )
    assert not row["time_data_s"], "nobody measured the storage of a published run"
    spent = [float(row[f"time_{name}_s"]) for name in TIME_TERMS if name != "data"]
    assert sum(spent) == pytest.approx(float(row["step_time_s"]), rel=1e-3)
    computed = [float(row[f"time_{name}_s"]) for name in COMPUTE_TERMS]
    assert sum(computed) == pytest.approx(float(row["time_compute_s"]), rel=1e-3)


def test_measured_columns_change_nothing(tmp_path: Path) -> None:
    measured = {
        "step_time_s": "1",
        "mfu": "0.9",
        "peak_mem_gib": "7",
        "oom": "true",
        "notes": "x",
        "raw_precision": "fp8",
    }
    plain = rigtune("-", cwd=tmp_path, stdin=table(case("a")))
    done = rigtune("-", cwd=tmp_path, stdin=table(case("a", **measured)))
    assert done.stdout == plain.stdout


def test_a_step_is_timed_only_where_its_batch_is_stated(tmp_path: Path) -> None:
    (row,) = answers(rigtune("-", cwd=tmp_path, stdin=table(case("a", grad_accum="", micro_batch=""))).stdout)
    assert row["step_time_s"] == row["step_time_low_s"] == ""
    assert float(row["tokens_per_s_per_gpu"]) > 0


def test_a_case_that_does_not_fit_has_a_speed_too(tmp_path: Path) -> None:
    huge = case("a", n_layers="320", micro_batch="8", sharding="ddp", activation_checkpointing="none")
    (row,) = answers(rigtune("-", cwd=tmp_path, stdin=table(huge)).stdout)
    assert (row["status"], row["fits"]) == ("predicted", "false")
    assert float(row["step_time_s"]) > 0


def test_the_output_file_is_written_whole(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_bytes(table(case("a")))
    done = rigtune("cases.csv", "-o", "out.csv", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("", 0)
    assert "wrote out.csv" in done.stderr
    assert [row["status"] for row in answers((tmp_path / "out.csv").read_text())] == ["predicted"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cases.csv", "out.csv"]


def test_json_conforms_and_has_the_predictions_of_the_csv(tmp_path: Path) -> None:
    cases = table(case("a"), case("b", gpu=""))
    report = json.loads(rigtune("-", "--format", "json", cwd=tmp_path, stdin=cases).stdout)
    jsonschema.validate(report, json.loads(schema_for("predict")))
    rows = answers(rigtune("-", cwd=tmp_path, stdin=cases).stdout)
    assert [one["status"] for one in report["cases"]] == [row["status"] for row in rows]
    assert report["cases"][0]["step_time_s"] == pytest.approx(float(rows[0]["step_time_s"]), rel=1e-5)
    empty = json.loads(rigtune("-", "--format", "json", cwd=tmp_path, stdin=b"case_id\n").stdout)
    assert {**empty, "rigtune": None} == {"schema_version": 1, "cases": [], "rigtune": None}


def test_collectives(tmp_path: Path) -> None:
    cases = (
        b"case_id,gpu,n_gpus,collective,bytes\n"
        b"a,H100-SXM-80GB,8,all_reduce,1073741824\nb,H100-SXM-80GB,8,hug,4\n"
    )
    rows = answers(rigtune("-", "--collectives", cwd=tmp_path, stdin=cases).stdout)
    assert [(row["case_id"], row["status"]) for row in rows] == [("a", "predicted"), ("b", "refused")]
    assert float(rows[0]["time_us"]) > 0
    report = json.loads(rigtune("-", "--collectives", "--format", "json", cwd=tmp_path, stdin=cases).stdout)
    jsonschema.validate(report, json.loads(schema_for("predict-collectives")))


def test_one_case_without_a_table(tmp_path: Path) -> None:
    settings = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
    done = rigtune(*settings, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Memory of the fullest GPU" in done.stdout
    assert "One step:" in done.stdout


CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
"""Fields of the file config.json of Llama 3 8B."""


def test_a_model_is_read_from_the_file_that_is_named_or_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(CONFIG))
    settings = (
        "--set",
        "gpu=H100-SXM-80GB",
        "--set",
        "n_gpus=8",
        "--set",
        "sharding=fsdp",
        "--set",
        "seq_len=4096",
    )
    models = ("mine/config.json", "mine", "llama-3-8b")
    runs = [rigtune("--set", f"model={name}", *settings, "--format", "csv", cwd=tmp_path) for name in models]
    read, folder, preset = (answers(one.stdout)[0] for one in runs)
    assert read["step_time_s"] == folder["step_time_s"] == preset["step_time_s"]
    assert read["memory_total_gib"] == preset["memory_total_gib"]
    assert "mine/config.json was read from your file: 8.03 billion parameters" in read["assumed"]


def test_a_table_reads_a_model_only_where_the_user_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(CONFIG))
    (tmp_path / "cases.csv").write_bytes(table(case("1", model="mine.json")))
    refused, read = (
        answers(rigtune("cases.csv", "-q", *flags, cwd=tmp_path).stdout)[0]
        for flags in ((), ("--model-file", "mine.json"))
    )
    assert refused["status"] == "refused"
    assert "--model-file" in refused["reason"]
    assert read["status"] == "predicted"


def test_one_case_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_bytes(table(case("a"), case("b", n_gpus="16")))
    done = rigtune("cases.csv", "--explain", "b", cwd=tmp_path)
    assert done.stdout.startswith("b\n")
    assert "16 x" in done.stdout
    assert done.stdout.count("One step:") == 1


def test_cases_that_name_no_gpu_run_on_the_named_machine(tmp_path: Path) -> None:
    cases = table(case("a", gpu="", n_gpus=""), case("b", gpu="this machine", n_gpus="16"), case("c"))
    rows = answers(rigtune("-", "--machine", "dgx-h100", cwd=tmp_path, stdin=cases).stdout)
    assert [row["status"] for row in rows] == ["predicted"] * 3
    assert [row["global_batch"] for row in rows] == ["16", "32", "16"]


def test_a_catalogue_machine_is_as_fast_as_its_gpus(tmp_path: Path) -> None:
    cases = table(case("machine", gpu="", n_gpus=""), case("gpu"))
    machine, _ = answers(rigtune("-", "--machine", "dgx-h100", cwd=tmp_path, stdin=cases).stdout)
    gpu = answers(rigtune("-", cwd=tmp_path, stdin=table(case("gpu"))).stdout)[0]
    for column in ("step_time_s", "time_elementwise_s", "time_optimizer_s", "peak_mem_gib"):
        assert float(machine[column]) == pytest.approx(float(gpu[column]), rel=0.01), column


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("no cases",)),
        (("missing.csv",), ("missing.csv", "no such file")),
        (("bad.csv",), ("bad.csv", "case_id")),
        ((".",), ("folder",)),
        (("good.csv", "-o", "bad.csv/out.csv"), ("bad.csv/out.csv", "not a directory")),
        (("good.csv", "-o", "."), ("is a directory",)),
        (("good.csv", "-o", "good.csv"), ("good.csv", "contains the cases")),
        (("good.csv", "--explain", "z"), ("'z'",)),
        (("good.csv", "--set", "tp=2"), ("--set",)),
        (("good.csv", "--measurements", "missing.json"), ("missing.json",)),
        (("--set", "tpp=2"), ("tpp", "did you mean tp")),
        (("--set", "model"), ("model", "COLUMN=VALUE")),
        (("--set", "sharding=bogus"), ("sharding is 'bogus'", "fsdp")),
        (("--set", "n_gpus=x", "--set", "model=m"), ("n_gpus is 'x'",)),
        (("good.csv", "--format", "xml"), ("xml",)),
        (("--set", "model=nets/net.py:build"), ("--set model 'nets/net.py:build'", "no file nets/net.py")),
        (("--set", "model=net.py"), ("net.py", "names no function")),
        (("good.csv", "--own-module", "net.py:build"), ("--own-module 'net.py:build'", "no file net.py")),
        (("good.csv", "--own-module", "net"), ("--own-module 'net'", "names no function")),
        (("good.csv", "--model-file", "net.json"), ("net.json", "no such file")),
        (("--set", "model=net.json"), ("net.json", "no such file")),
        (("good.csv", "--own-module", "net:build", "--collectives"), ("--own-module", "--collectives")),
    ],
)
def test_wrong_input_is_one_line(arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_bytes(table(case("a")))
    (tmp_path / "bad.csv").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = rigtune(*arguments, cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "hint: " in done.stderr
    for word in words:
        assert word in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_id_in_another_encoding_joins_both_tables(tmp_path: Path) -> None:
    name = "lauf-größe".encode("latin-1")
    (tmp_path / "cases.csv").write_bytes(table(case("ID")).replace(b"ID", name))
    rigtune("cases.csv", "-o", "out.csv", cwd=tmp_path)
    assert (tmp_path / "out.csv").read_bytes().splitlines()[1].startswith(name + b",predicted")


def test_a_reader_that_closes_the_pipe_causes_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_bytes(table(*(case(str(number)) for number in range(300))))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = ["sh", "-c", '"$0" -m assistant predict cases.csv | head -1', sys.executable]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.startswith("case_id,status")
    assert "Traceback" not in done.stderr


def test_unknown_columns_are_named_once(tmp_path: Path) -> None:
    cells = {"microbatch": "4", "zero": "3", "owner": "me"}
    measured = {"mfu": "0.4", "notes": "x", "source_id": "s", "raw_strategy": "ddp"}
    rows = table(case("a", **cells, **measured), case("b", **cells, **measured))
    done = rigtune("-", cwd=tmp_path, stdin=rows)
    warnings = [line for line in done.stderr.splitlines() if "are unknown" in line]
    assert done.returncode == ExitCode.OK
    names = "microbatch (did you mean micro_batch?), zero (did you mean zero_stage?), owner"
    assert warnings == [f"rigtune: ignored, because these columns are unknown: {names}"]
    assert "are unknown" not in rigtune("-", "-q", cwd=tmp_path, stdin=rows).stderr
    assert "are unknown" not in rigtune("-", cwd=tmp_path, stdin=table(case("a", **measured))).stderr
