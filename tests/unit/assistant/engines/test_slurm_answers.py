"""Test what the files and the error output of one srun show about each node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from assistant.engines import slurm_answers
from assistant.engines.slurm_answers import framed, report_answers
from probes.fleet.node_report import NodeEnd, NodeLine

NODES = ("g1", "g2")
DONE = "\n@rigtune-exit 0\n"


def reported(
    folder: Path, outputs: dict[str, str], stderr: str = "", *, errors: str = "", may_repeat: bool = True
) -> tuple[tuple[str, ...], list[NodeLine | NodeEnd]]:
    """Return the nodes to ask again and what is reported, for the outputs of tasks by number."""
    for number, text in outputs.items():
        (folder / f"{number}.out").write_text(text)
        (folder / f"{number}.err").write_text(errors)
    events: list[NodeLine | NodeEnd] = []
    again = report_answers(
        folder, NODES[: max(1, len(outputs))], stderr, events.append, may_repeat=may_repeat
    )
    return again, events


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("@rigtune-node g1\n@rigtune {}\n" + DONE, [NodeLine("g1", b"{}"), NodeEnd("g1", "ok", 0)]),
        ("@rigtune-node g1\n@rigtune 1\n@rigtune half" + DONE,
         [NodeLine("g1", b"1"), NodeLine("g1", b"half"), NodeEnd("g1", "ok", 0)]),
        ("@rigtune-node g1\n@rigtune 1\n@rigtune half",
         [NodeLine("g1", b"1"), NodeEnd("g1", "no-answer", None, "")]),
        ("@rigtune-node g1\n\n@rigtune-exit 7\n", [NodeEnd("g1", "exit", 7, "")]),
        ("@rigtune-node g1\n@rigtune-exit x\n12\n", [NodeEnd("g1", "no-answer", None, "")]),
        ("@rigtune-node g1", [NodeEnd("g1", "no-answer", None, "")]),
        ("noise\n@rigtune-node g1\n" + DONE, [NodeEnd("g1", "no-answer", None, "")]),
        ("g1\n" + DONE, [NodeEnd("g1", "no-answer", None, "")]),
    ],
)  # fmt: skip
def test_a_task_names_its_node_first_and_its_exit_code_last(tmp_path, text, events) -> None:
    assert reported(tmp_path, {"0": text}) == ((), events)


def test_the_shell_prints_the_frame(tmp_path) -> None:
    line = framed("printf '@rigtune {}'; code=3")
    done = subprocess.run(
        ("sh", "-c", line), env={"SLURMD_NODENAME": "g1"}, capture_output=True, text=True, check=True
    )
    assert reported(tmp_path, {"0": done.stdout})[1] == [NodeLine("g1", b"{}"), NodeEnd("g1", "exit", 3, "")]


@pytest.mark.parametrize(("most", "outcome"), [(1000, "ok"), (60, "ok"), (59, "exit")])
def test_an_output_that_reached_its_limit_was_cut_off(tmp_path, monkeypatch, most, outcome) -> None:
    text = "@rigtune-node g1\n@rigtune {}\n" + DONE
    text = text.replace("{}", "{" + " " * (57 - len(text)) + "}")
    assert len(text.encode()) == 57
    monkeypatch.setattr(slurm_answers, "MOST_OUTPUT_BYTES", most - 2)
    monkeypatch.setattr("assistant.engines.node_command.LONGEST_ANSWER_BYTES", 50)
    (end,) = [event for event in reported(tmp_path, {"0": text})[1] if isinstance(event, NodeEnd)]
    assert end.outcome == outcome


@pytest.mark.parametrize(
    ("stderr", "may_repeat", "again", "end"),
    [
        (
            "srun: error: g1: task 0: launch failed: no shell",
            True,
            (),
            ("no-answer", "launch failed: no shell"),
        ),
        ("srun: error: g10: task 0: launch failed", True, ("g1",), None),
        ("srun: Aborting, Launch failed", True, ("g1",), None),
        ("srun: Aborting, Launch failed", False, (), ("no-answer", "Launch failed")),
        ("srun: error: Unable to allocate resources", True, (), ("not-started", "Unable to allocate")),
        ("srun: error: g1 is busy\nthe last line", True, (), ("not-started", "the last line")),
        ("srun: error: g1: the node died\nother", True, (), ("no-answer", "g1: the node died")),
        ("one\ntwo", True, (), ("no-answer", "two")),
        ("", True, (), ("no-answer", "")),
    ],
)
def test_a_node_without_an_end_is_explained_by_the_error_output(
    tmp_path, stderr, may_repeat, again, end
) -> None:
    result, events = reported(tmp_path, {}, stderr, may_repeat=may_repeat)
    assert result == again
    assert [(event.outcome, end[1] in event.detail) for event in events] == ([(end[0], True)] if end else [])


@pytest.mark.parametrize(("code", "again"), [(137, ("g1",)), (143, ("g1",)), (1, ()), (0, ())])
def test_a_command_that_slurm_ended_because_of_another_node_is_repeated(tmp_path, code, again) -> None:
    text = f"@rigtune-node g1\n\n@rigtune-exit {code}\n"
    assert reported(tmp_path, {"0": text}, "srun: error: launch failed on g9")[0] == again
    assert reported(tmp_path, {"0": text}, "srun: error: something else")[0] == ()
    assert reported(tmp_path, {"0": text}, "launch failed", may_repeat=False)[0] == ()


def test_the_last_words_of_a_task_are_the_reason(tmp_path) -> None:
    text = "@rigtune-node g1\n\n@rigtune-exit 2\n"
    assert reported(tmp_path, {"0": text}, errors="first\nno driver\n")[1] == [
        NodeEnd("g1", "exit", 2, "no driver")
    ]
