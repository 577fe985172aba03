"""Test counting the user's own modules: each counts once, and a failing interpreter gives one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.usecases.events import StageFinished
from assistant.usecases.own_module import count_modules
from probes.base.errors import ExitCode, InputError, InterpreterError, RigtuneError, WorkerError
from probes.collect.collecting import CollectOptions
from probes.sources.choose import open_source
from recipes.job.workload import VisionModel
from tests.support.own_module import counted_answer

VET = {"executable": "x", "python": "3.11.7", "torch": "2.13.0", "gloo": True, "nccl": False}
WRITES = f"cat > \"$5\" <<'END'\n{json.dumps(counted_answer())}\nEND"


def stand_in(folder: Path, count: str, **vetted: object) -> str:
    """Return an interpreter whose workers give prepared answers; `calls` lists their arguments."""
    path = folder / "python"
    path.write_text(
        "#!/bin/sh\n"
        "if [ \"$2\" = rigtune_worker.vet ]; then cat <<'END'\n"
        f"{json.dumps({**VET, **vetted})}\nEND\nexit; fi\n"
        f'echo "$3" >> "{folder}/calls"\n{count}\n'
    )
    path.chmod(0o755)
    return str(path)


def counted(python: str, folder: Path, *targets: str, deadline_s: float = 60.0) -> dict[str, VisionModel]:
    options = CollectOptions(python=python, directory=str(folder))
    with open_source((), None) as source:
        *_, last = count_modules(targets, source, options, deadline_s=deadline_s)
    assert isinstance(last, StageFinished)
    models: dict[str, VisionModel] = last.result
    return models


def test_each_module_is_counted_once(tmp_path: Path) -> None:
    models = counted(stand_in(tmp_path, WRITES), tmp_path, "a.py:f", "b.py:f", "a.py:f")
    assert {name: model.parameters for name, model in models.items()} == {"a.py:f": 1000, "b.py:f": 1000}
    assert (tmp_path / "calls").read_text().split() == ["a.py:f", "b.py:f"]


@pytest.mark.parametrize(
    ("count", "kind", "words"),
    [
        ("kill -9 $$", WorkerError, "a.py:f was killed by signal 9"),
        ("echo Segmented; exit 3", WorkerError, "exit code 3 and no answer: Segmented"),
        (': > "$5"', WorkerError, "exit code 0 and no answer"),
        ('echo half > "$5"', InputError, "a.py:f is unreadable"),
        (
            'echo \'{"event": "failure", "message": "ValueError: odd (a.py:7)"}\' > "$5"',
            InputError,
            "ValueError: odd (a.py:7)",
        ),
    ],
)
def test_a_count_that_fails_states_how(
    count: str, kind: type[RigtuneError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        counted(stand_in(tmp_path, count), tmp_path, "a.py:f")
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == (ExitCode.WORKER if kind is WorkerError else ExitCode.USAGE)


def test_a_count_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"a\.py:f did not end within"):
        counted(stand_in(tmp_path, "exec tail -f /dev/null"), tmp_path, "a.py:f", deadline_s=0.3)


def test_an_interpreter_without_torch_counts_nothing(tmp_path: Path) -> None:
    python = stand_in(tmp_path, WRITES, torch=None)
    with pytest.raises(InterpreterError, match="has no torch") as caught:
        counted(python, tmp_path, "a.py:f")
    assert caught.value.hint == f"{python} -m pip install torch"
    assert not (tmp_path / "calls").exists()
