"""Test logs that are read as they grow: rotated, truncated, and redacted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from assistant.usecases.events import Event, Progress, StageFinished
from assistant.usecases.explain import explain_logs
from probes.logs.diagnosis import Explanation

DUPLICATE = (
    "gpu07:4001:4008 [0] init.cc:497 NCCL WARN Duplicate GPU detected : "
    "rank 2 and rank 0 both on CUDA device 1000\n"
)
NO_SHM = "gpu07:1:2 [0] shm.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-a1 to 9637892 bytes\n"
LOST = "kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"


def followed(path: Path, *steps: Callable[[], object], redacting: bool = False) -> list[Event]:
    """Return the events while the steps are done; each step waits until the log was read a few times."""
    rest = [step for each in steps for step in (each, *[lambda: None] * 4)]

    def is_over() -> bool:
        if rest:
            rest.pop(0)()
        return not rest

    return list(explain_logs([str(path)], following=True, is_over=is_over, redacting=redacting))


def causes(events: list[Event]) -> set[str]:
    result = next(event.result for event in events if isinstance(event, StageFinished))
    assert isinstance(result, Explanation)
    return {diagnosis.cause_id for diagnosis in result.diagnoses}


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_following_goes_on_in_the_file_that_took_the_name(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(DUPLICATE + "a line that is not at its e")

    def rotate() -> None:
        path.rename(tmp_path / "job.1")
        path.write_text(NO_SHM)

    assert causes(followed(path, lambda: None, rotate)) == {"duplicate-gpu", "shm-too-small"}


def test_the_last_lines_of_the_file_that_was_put_aside_are_read(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(DUPLICATE)

    def rotate() -> None:
        path.rename(tmp_path / "job.1")
        append(tmp_path / "job.1", LOST)
        path.write_text(NO_SHM)

    assert causes(followed(path, lambda: None, rotate)) >= {"duplicate-gpu", "gpu-lost", "shm-too-small"}


def test_a_file_that_was_cut_off_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(DUPLICATE * 3)
    assert causes(followed(path, lambda: None, lambda: path.write_text(NO_SHM))) == {
        "duplicate-gpu",
        "shm-too-small",
    }


def test_news_hold_no_names_with_redaction(tmp_path: Path) -> None:
    path = tmp_path / "gpu07.log"
    path.write_text("srun: error: gpu07: task 3: Out Of Memory\n")
    messages = [
        event.message for event in followed(path, lambda: None, redacting=True) if isinstance(event, Progress)
    ]
    assert any("oom-killer" in words for words in messages)
    assert not any("gpu07" in words for words in messages)
