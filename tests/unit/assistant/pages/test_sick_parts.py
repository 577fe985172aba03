"""Test that each sick part has one sentence and a remedy."""

from __future__ import annotations

from assistant.pages.measured.bench_page import sick_parts
from probes.judging.findings import Finding, Judge, Remedy

JUDGE = Judge(check_id="measured-gemm", why="It matters.")
CAP = Remedy(text="Raise the limit.", command="nvidia-smi -pl 700")
LOOK = Remedy(text="Look at it.")


def failed(subject: str, summary: str, remedy: Remedy = CAP) -> Finding:
    return JUDGE.failed(subject, summary, expected="", observed="", remedy=remedy)


def warned(subject: str, summary: str, remedy: Remedy = CAP) -> Finding:
    return JUDGE.warned(subject, summary, expected="", observed="", remedy=remedy)


def test_other_findings_of_a_gpu_follow_its_worst_without_the_repeated_cause() -> None:
    worst = failed("GPU3", "products are slow: its limit is 400 W")
    parts = sick_parts(
        [
            warned("GPU3", "takes longer: its limit is 400 W"),
            worst,
            warned("GPU3", "is hot"),
            warned("GPU3", "is hot"),
        ]
    )
    assert [(part.finding, part.also) for part in parts] == [(worst, ("takes longer", "is hot"))]


def test_failures_of_any_part_come_before_warnings_of_others() -> None:
    parts = sick_parts([warned("GPU0", "a"), failed("GPU1", "b"), warned("GPU1", "c")])
    assert [part.finding.subject for part in parts] == ["GPU1", "GPU0"]


def test_findings_about_the_host_or_all_ranks_are_not_joined() -> None:
    assert (
        len(sick_parts([warned(subject, words) for subject in ("host", "8 ranks") for words in ("a", "b")]))
        == 4
    )


def test_a_remedy_is_reported_once() -> None:
    parts = sick_parts([failed("GPU0", "a"), failed("GPU1", "b"), failed("GPU2", "c", LOOK)])
    assert [part.shows_remedy for part in parts] == [True, False, True]
