"""Test `rigtune list strategies` and `plan --why-not`: the JSON conforms, and wrong questions are refused."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from assistant.cli import command_line
from assistant.formats.schemas import schema_for
from recipes.strategies.strategy_table import load_strategies

SLOW = ("--gpu", "H100", "--gpus", "8", "--nodes", "2", "--network", "10 Gb/s Ethernet")


def answer(capsysbinary: pytest.CaptureFixture, schema: str, *arguments: str) -> Any:
    assert command_line([*arguments, "--format", "json"]) == 0
    data = json.loads(capsysbinary.readouterr().out)
    data.setdefault("rigtune", {"version": "", "commit": ""})
    jsonschema.validate(data, json.loads(schema_for(schema)))
    return data


def test_strategies_are_listed(capsysbinary: pytest.CaptureFixture) -> None:
    rows = answer(capsysbinary, "list-strategies", "list", "strategies")["strategies"]
    assert [row["id"] for row in rows] == list(load_strategies())
    assert {"title", "how", "chosen_when", "not_when", "settings", "source", "date"} <= set(rows[0])


def test_strategies_are_listed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["list", "strategies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(load_strategies())
    assert "Chosen when: fp32 gradients travel over a slow network." in "\n".join(lines)


def test_verdicts_are_answered_first(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--why-not", "bf16", "--why-not", "PowerSGD", "--why-not", "hsdp")
    assert command_line(["plan", "llama-3-8b", *SLOW, *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("bf16-compression: worth an experiment: saves 26.3 % of the step (1 min 22 s")
    assert any(line.startswith("powersgd: not applicable: it needs the whole gradient") for line in lines)
    assert any(line.startswith("hsdp: the plan uses it: HSDP over 2 × 8 GPUs") for line in lines)
    assert lines[-1].startswith("Compared with HSDP over 2 × 8 GPUs: 1 min 22 s per step")


def test_verdicts_conform(capsysbinary: pytest.CaptureFixture) -> None:
    arguments = [word for name in load_strategies() for word in ("--why-not", name)]
    data = answer(capsysbinary, "plan-why-not", "plan", "llama-3-8b", *SLOW, *arguments)
    assert [row["strategy"] for row in data["verdicts"]] == list(load_strategies())


def test_plan_on_a_slow_network_names_experiments(capsysbinary: pytest.CaptureFixture) -> None:
    plan = answer(capsysbinary, "plan", "plan", "llama-3-8b", *SLOW)
    assert [row["strategy"] for row in plan["experiments"]] == ["diloco", "bf16-compression"]
    assert {row["ranks"] for row in plan["experiments"]} == {16}
    assert command_line(["plan", "llama-3-8b", *SLOW]) == 0
    words = " ".join(capsysbinary.readouterr().out.decode().split())
    assert "experiment: diloco saves 47.7 % of the step (40.4 s on all 16 GPUs)" in words
    assert "bf16-compression saves 21.6 %; --why-not diloco explains" in words


def test_plan_on_one_node_names_none(capsysbinary: pytest.CaptureFixture) -> None:
    assert answer(capsysbinary, "plan", "plan", "llama-3-8b", "--machine", "dgx-h100")["experiments"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--why-not", "fp61"), "there is no strategy 'fp61' (hint: did you mean fp16-compression"),
        (("--why-not", "mig", "--sensitivity"), "--sensitivity and --why-not are two questions"),
        (("--why-not", "mig", "-o", "recipe.toml"), "--why-not and -o are two questions"),
    ],
)
def test_wrong_questions(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["plan", "llama-3-8b", "--machine", "dgx-h100", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_strategy_without_a_plan_keeps_the_exit_code_of_plans(capsys: pytest.CaptureFixture[str]) -> None:
    huge = ("llama-3-405b", "--gpu", "L4", "--gpus", "1", "--program", "own")
    assert command_line(["plan", *huge, "--why-not", "ddp"]) == 5
    assert "does not fit" in capsys.readouterr().err
