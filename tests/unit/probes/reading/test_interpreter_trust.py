"""Test who may have written an interpreter, with real folders, links and owners."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from probes.base.record import Unknown
from probes.reading.pythons import caller_uid, refusal
from probes.sources.live import LiveSource
from tests.support.fake_source import FakeSource

ME = os.geteuid()
STRANGER = 54321
needs_root = pytest.mark.skipif(ME != 0, reason="only root can give files away")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program two folders deep in the private folder of the test."""
    tmp_path.chmod(0o700)
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    path = folder / "python"
    path.write_text("#!/bin/sh\n")
    for each in (tmp_path / "a", folder, path):
        each.chmod(0o755)
    return path


def refused(path: Path, caller: int = ME) -> str:
    reason = refusal(LiveSource(), str(path), caller)
    assert isinstance(reason, str)
    return reason


def test_the_callers_own_file_may_be_started(program: Path) -> None:
    assert refused(program) == ""


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o757, "everybody")])
def test_a_path_that_everybody_can_write_is_refused(program: Path, level: int, mode: int, who: str) -> None:
    place = [program, *program.parents][level]
    place.chmod(mode)
    assert refused(program) == f"{who} can write {place}"


@needs_root
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_group_that_can_write_is_refused(program: Path, level: int) -> None:
    place = [program, *program.parents][level]
    place.chmod(0o775)
    assert refused(program) == f"group {place.stat().st_gid} can write {place}"


@needs_root
def test_a_group_of_the_callers_own_is_the_caller() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, program = Path(name), Path(name) / "python"
        program.write_text("")
        for place in (folder, program):
            os.chown(place, STRANGER, STRANGER)
            place.chmod(0o775)
        assert refused(program, STRANGER) == ""
        os.chown(folder, STRANGER, STRANGER + 1)
        assert refused(program, STRANGER) == f"group {STRANGER + 1} can write {folder}"


@needs_root
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_path_of_another_user_is_refused(program: Path, level: int) -> None:
    place = [program, *program.parents][level]
    os.chown(place, STRANGER, STRANGER)
    assert refused(program) == f"{place} belongs to user {STRANGER}"


def test_a_sticky_folder_is_accepted_only_with_a_child_of_the_callers(program: Path) -> None:
    program.parent.chmod(0o1777)
    assert refused(program) == ""
    assert refused(program, STRANGER) != ""


@needs_root
def test_roots_child_of_a_sticky_folder_is_not_the_callers(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("")
    tmp_path.chmod(0o1777)
    assert "everybody can write" in refused(tmp_path / "python", STRANGER)


@needs_root
@pytest.mark.parametrize("where", ["target", "folder of the target", "link", "second link"])
def test_every_step_of_a_link_is_looked_at(program: Path, tmp_path: Path, where: str) -> None:
    first, second = tmp_path / "first", tmp_path / "c" / "second"
    second.parent.mkdir()
    second.symlink_to("../a/b/python")
    first.symlink_to(second)
    assert refused(first) == ""
    place = {"target": program, "folder of the target": program.parent, "link": first, "second link": second}[
        where
    ]
    os.chown(place, STRANGER, STRANGER, follow_symlinks=False)
    reason = refused(first)
    assert os.path.realpath(os.path.dirname(reason.split(" ")[0])) == str(place.parent)  # noqa: PTH120 - the link itself stays
    assert reason.endswith(f"{place.name} belongs to user {STRANGER}")


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "too many links" in refused(tmp_path / "a")


def test_a_linked_folder_is_followed(program: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(program.parent)
    assert refused(tmp_path / "linked" / "python") == ""
    program.parent.chmod(0o777)
    assert "everybody" in refused(tmp_path / "linked" / "python")


def test_a_path_whose_owner_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert isinstance(refusal(LiveSource(), str(tmp_path / "gone"), ME), Unknown)
    assert isinstance(
        refusal(FakeSource(commands={"stat -c %u %g %f -- / /x": "0 0 q\n"}), "/x", ME), Unknown
    )


def test_the_caller_is_the_effective_user() -> None:
    assert caller_uid(LiveSource()) == ME
    assert caller_uid(FakeSource(files={"/proc/self/status": "Name:\tx\nUid:\t1000\t0\t0\t0\n"})) == 0
    for text in ("Uid:\n", "Uid:\tx\ty\n", ""):
        assert isinstance(caller_uid(FakeSource(files={"/proc/self/status": text})), Unknown)
