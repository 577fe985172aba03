"""The exported pods and the plugin of node-problem-detector, with a rigtune that works or is broken."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from recipes.launch.provision import ProvisionOptions, find_provision, render_provision
from tests.support.provisioned_node import BAD, BROKEN, FIT, GPU2, GPU3, Node, container, faulty


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_image_keeps_no_pod_from_starting(node: Node, broken: str) -> None:
    node.script("rigtune", broken)
    assert container(node, "kubernetes-init").returncode == 0


def test_a_pod_does_not_start_on_a_bad_node(node: Node) -> None:
    node.judged(BAD, 1)
    done = container(node, "kubernetes-init")
    assert (done.returncode, done.stdout) == (1, BAD)
    node.judged(FIT, 0)
    assert container(node, "kubernetes-init").returncode == 0


@pytest.mark.parametrize(
    "broken", [text for name, text in BROKEN.items() if name != "a verdict of another code"]
)
def test_a_job_without_a_report_ends_with_a_code_of_its_own(node: Node, broken: str) -> None:
    node.script("rigtune", broken)
    assert container(node, "kubernetes-job").returncode == 2


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_job_prints_its_report_and_ends_as_rigtune_does(node: Node, code: int) -> None:
    node.script(
        "rigtune", f'#!/bin/sh\nfor word; do :; done\necho report >"${{word#--output=}}"\nexit {code}\n'
    )
    done = container(node, "kubernetes-job")
    assert (done.returncode, done.stdout) == (code, "report\n")


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_condition_is_unknown_where_rigtune_is_broken(node: Node, broken: str) -> None:
    node.script("rigtune", broken)
    done = node.run("rigtune-npd")
    assert done.returncode == 2
    assert re.fullmatch(r"rigtune gave no verdict \(exit code \d+\)\n", done.stdout)


@pytest.mark.parametrize(
    ("line", "code", "answer"),
    [
        (FIT, 0, (0, "fit to train\n")),
        (BAD, 1, (1, "nvlink-active GPU2: NVLinks are down (17 up; down: link 7)\n")),
        ("RIGTUNE UNKNOWN - gpus host: no answer | failed=0\n", 2, (2, "gpus host: no answer\n")),
        (BAD, 2, (2, "rigtune gave no verdict (exit code 2)\n")),
    ],
)
def test_a_condition_has_one_line_of_reason(
    node: Node, line: str, code: int, answer: tuple[int, str]
) -> None:
    node.judged(line, code)
    done = node.run("rigtune-npd")
    assert (done.returncode, done.stdout) == answer


def test_a_condition_needs_the_same_fault_twice(node: Node) -> None:
    """Let two runs report different parts, and a third the part of the second."""
    script = "#!/bin/sh\ncd {0}; if rm new 2>/dev/null; then cat 1; else cat 2; fi; exit 1\n"
    node.script("rigtune", script.format(node.folder))
    (node.folder / "1").write_text(faulty(GPU2))
    (node.folder / "2").write_text(faulty(GPU3))
    (node.folder / "new").touch()
    first = node.run("rigtune-npd")
    assert first.returncode == 2
    assert first.stdout.startswith(f"two runs report different faults: {GPU3}")
    assert node.run("rigtune-npd").returncode == 1
    node.judged(FIT, 0)
    assert node.run("rigtune-npd").returncode == 0
    assert not list(node.marker.parent.iterdir())


@pytest.mark.parametrize(
    ("line", "code", "wanted"), [(FIT, 0, 0), (BAD, 1, 1), ("", 1, 2), ("RIGTUNE OK\n", 0, 2)]
)
def test_a_nightly_pod_ends_with_the_code_of_its_verdict(
    node: Node, line: str, code: int, wanted: int
) -> None:
    node.judged(line, code)
    done = container(node, "kubernetes-cronjob", STAY_S="0")
    assert done.returncode == wanted
    assert ("rigtune gave no verdict" in done.stdout) is (wanted == 2)


def test_a_watching_pod_is_ready_only_on_a_node_that_is_fit(node: Node) -> None:
    """Let one pod make seven checks, and note before the first and after each whether the pod is ready."""
    checks = [(BAD, 1), (FIT, 0), (faulty(GPU2), 1), (faulty(GPU3), 1), (faulty(GPU3), 1), (FIT, 0), ("", 1)]
    for number, (line, code) in enumerate(checks):
        (node.folder / f"check{number}").write_text(line)
        (node.folder / f"code{number}").write_text(str(code))
    counting = "n=$(wc -l <ready); if test -e fit; then echo yes; else echo no; fi >>ready"
    node.script(
        "rigtune",
        f'#!/bin/sh\ncd {node.folder} || exit\n{counting}\ncat "check$n" && exit "$(cat "code$n")"\n',
    )
    (node.folder / "ready").touch()
    text = render_provision(find_provision("kubernetes-daemonset"), ProvisionOptions(expect_gpus=8))[0].text
    (described,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    argv = [word.replace("/run/rigtune", str(node.folder)) for word in described["command"]]
    environment = {"PATH": f"{node.folder}:{os.environ['PATH']}", "INTERVAL_S": "0"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as pod:
        deadline = time.monotonic() + 30
        while (node.folder / "ready").read_text().count("\n") <= len(checks) and time.monotonic() < deadline:
            time.sleep(0.05)
        pod.terminate()
        words = pod.communicate(timeout=30)[0]
    ready = (node.folder / "ready").read_text().split()[: len(checks) + 1]
    assert ready == ["no", "no", "yes", "yes", "yes", "no", "yes", "no"]
    assert f"reported once; counts if the next check reports the same: {GPU2}" in words
    assert f"not fit to train: {GPU3}" in words
    assert "rigtune gave no verdict (exit code 1)\n" in words
