"""Test files for provisioning: their formats are valid, and they use and quote the site's paths."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from probes.base.errors import UsageError
from recipes.launch.provision import (
    PROVISIONS,
    ProvisionOptions,
    find_provision,
    origin_of,
    render_provision,
)
from recipes.launch.recipe import Artifact
from recipes.lint.reading import read_document
from tests.support.linting import judge

ODD = ProvisionOptions(rigtune="/opt/tools@1.0/bin/rigtune", policy="/policy.toml", expect="dgx-h100", gpus=4)
OPTIONS = [ProvisionOptions(expect_gpus=8), ProvisionOptions(policy="/etc/rigtune/policy.toml"), ODD]
NO_GPUS = ProvisionOptions(expect="dgx-h100", gpus=0, nodes=4)
KINDS = [row.id for row in PROVISIONS]
CHECKING = [row.id for row in PROVISIONS if row.runs_check]


def pod_of(artifact: Artifact) -> dict[str, Any]:
    """Return the pod in a Job, a CronJob, a DaemonSet or a patch of a Deployment."""
    spec = yaml.safe_load(artifact.text)["spec"]
    spec = spec.get("jobTemplate", {"spec": spec})["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


def files(kind: str, options: ProvisionOptions) -> dict[str, Artifact]:
    return {artifact.path: artifact for artifact in render_provision(find_provision(kind), options)}


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "policy", "other paths"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_parse_in_their_formats(kind: str, options: ProvisionOptions) -> None:
    for path, artifact in files(kind, options).items():
        if path.endswith(".yaml"):
            assert yaml.safe_load(artifact.text)
        elif path.endswith(".json"):
            assert json.loads(artifact.text)
        elif path.endswith((".service", ".timer")):
            unit = configparser.ConfigParser(interpolation=None, strict=False)
            unit.optionxform = str  # type: ignore[assignment,method-assign]
            unit.read_string(artifact.text)
            assert "Unit" in unit
        elif path != "Dockerfile":
            assert artifact.mode == (0o644 if path.endswith(".nhc") else 0o755)
            subprocess.run(("bash", "-n"), input=artifact.text, text=True, check=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "policy", "other paths"])
def test_scripts_have_no_complaints(kind: str, options: ProvisionOptions) -> None:
    """Check also the scripts that containers run."""
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    for path, artifact in files(kind, options).items():
        words = ("-",)
        text = artifact.text
        if path.endswith(".yaml") and kind.startswith("kubernetes"):
            (container,) = pod_of(artifact)["initContainers" if "init" in kind else "containers"]
            words, text = ("--shell=sh", "-"), container["command"][2]
        elif path.endswith(".nhc"):
            words = ("--shell=bash", "-")
        elif artifact.mode != 0o755:
            continue
        done = subprocess.run(("shellcheck", *words), input=text, text=True, capture_output=True, check=False)
        assert done.stdout == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [*OPTIONS, NO_GPUS], ids=["plain", "policy", "other paths", "no GPUs"])
def test_the_project_s_own_rules_have_no_complaints(kind: str, options: ProvisionOptions) -> None:
    if kind == "kubernetes-init" and not options.gpus:
        pytest.skip("an init container needs GPUs")
    documents = [read_document(path, artifact.text) for path, artifact in files(kind, options).items()]
    assert judge(*filter(None, documents)) == ()


def test_the_policy_reaches_every_check() -> None:
    for kind in CHECKING:
        text = "".join(artifact.text for artifact in files(kind, OPTIONS[1]).values())
        assert "--policy" in text
        assert "/etc/rigtune/policy.toml" in text
        assert "--policy" not in "".join(artifact.text for artifact in files(kind, OPTIONS[0]).values())


@pytest.mark.parametrize("kind", CHECKING)
def test_every_check_has_a_mode_and_the_expected_gpus(kind: str) -> None:
    text = next(iter(files(kind, ODD).values())).text
    if kind == "systemd":
        text = files(kind, ODD)["rigtune-check.service"].text
    is_live = kind not in ("kubernetes-job", "ansible", "cloud-init")
    assert re.search(rf"--mode[ =]{'monitor' if is_live else 'accept'}", text)
    assert "--expect=dgx-h100" in text
    assert "--expect-gpus=8" in "".join(artifact.text for artifact in files(kind, OPTIONS[0]).values())


def test_no_file_installs_whatever_an_index_has_under_our_name() -> None:
    for kind in KINDS:
        for artifact in files(kind, OPTIONS[0]).values():
            assert not re.search(r"pip\S*[ ,]+install\b.*\brigtune\W*$", artifact.text, re.MULTILINE), (
                artifact.path
            )
            assert "default('rigtune')" not in artifact.text


def test_pods_ask_for_the_gpus_of_the_node() -> None:
    (container,) = pod_of(files("kubernetes-job", ODD)["rigtune-job.yaml"])["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}


@pytest.mark.parametrize("kind", ["job", "cronjob", "daemonset"])
def test_a_pod_can_read_gpus_that_it_does_not_request(kind: str) -> None:
    pod = pod_of(files(f"kubernetes-{kind}", NO_GPUS)[f"rigtune-{kind}.yaml"])
    (container,) = pod["containers"]
    assert "nvidia.com/gpu" not in str(container["resources"])
    assert pod["runtimeClassName"] == "nvidia"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    assert container["securityContext"]["privileged"]
    assert {mount["name"] for mount in container["volumeMounts"]} <= {
        volume["name"] for volume in pod["volumes"]
    }


@pytest.mark.parametrize("options", [*OPTIONS, NO_GPUS], ids=["plain", "policy", "other paths", "no GPUs"])
@pytest.mark.parametrize("version", ["1.29.0", "1.37.0"])
@pytest.mark.parametrize("kind", ["job", "cronjob", "daemonset"])
def test_kubernetes_knows_every_field(kind: str, version: str, options: ProvisionOptions) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    text = files(f"kubernetes-{kind}", options)[f"rigtune-{kind}.yaml"].text
    validator.validate(yaml.safe_load(text), version.rpartition(".")[0], strict=True)


def test_a_cronjob_visits_each_node_once() -> None:
    spec = yaml.safe_load(files("kubernetes-cronjob", NO_GPUS)["rigtune-cronjob.yaml"].text)["spec"]
    job = spec["jobTemplate"]["spec"]
    assert (job["completions"], job["parallelism"], job["maxFailedIndexes"]) == (4, 4, 4)
    (rule,) = job["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert rule["labelSelector"]["matchLabels"].items() <= job["template"]["metadata"]["labels"].items()


def test_node_problem_detector_accepts_its_configuration() -> None:
    """Repeat the rules of `ApplyConfiguration` and `Validate` of pkg/custompluginmonitor/types/config.go."""
    hooks = files("node-problem-detector", ODD)
    config = json.loads(hooks["rigtune-npd.json"].text)
    assert set(config) - {"_comment"} == {
        "plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules",
    }  # fmt: skip
    assert config["plugin"] == "custom"
    times = config["pluginConfig"]
    assert set(times) <= {
        "invoke_interval", "timeout", "max_output_length", "concurrency",
        "enable_message_change_based_condition_update", "skip_initial_status",
    }  # fmt: skip
    assert seconds(times["invoke_interval"]) > seconds(times["timeout"]) > 2 * 45
    assert isinstance(times["max_output_length"], int)
    (rule,) = config["rules"]
    assert set(rule) <= {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"}
    assert seconds(rule["timeout"]) <= seconds(times["timeout"])
    assert rule["type"] == "permanent"
    (condition,) = config["conditions"]
    assert set(condition) == {"type", "reason", "message"}
    assert condition["type"] == rule["condition"]
    # A condition's reason must match this pattern (Kubernetes, NodeCondition and Condition).
    assert all(
        re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", row["reason"]) for row in (rule, condition)
    )
    assert rule["path"] == "/opt/tools@1.0/bin/rigtune-npd"
    assert hooks["rigtune-npd"].mode == 0o755


def seconds(duration: str) -> int:
    """Return the seconds of a duration as Go writes them."""
    match = re.fullmatch(r"(\d+)(s|m)", duration)
    assert match is not None
    return int(match[1]) * {"s": 1, "m": 60}[match[2]]


def test_an_image_is_pinned_and_copies_only_wheels() -> None:
    lines = files("kubernetes-job", ODD)["Dockerfile"].text.splitlines()
    assert re.fullmatch(
        r"ARG BASE=python:\d+\.\d+\.\d+-slim-\w+", next(x for x in lines if x.startswith("ARG"))
    )
    assert [line for line in lines if line.startswith(("COPY", "ADD"))] == [
        "COPY wheelhouse /wheelhouse",
        "COPY --from=build /opt/rigtune /opt/rigtune",
    ]
    text = "\n".join(lines)
    assert "--no-index --require-hashes" in text
    (packages,) = re.findall(r"--no-install-recommends (.*?) &&", text)
    assert all("=" in package for package in packages.split())


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_names_the_version_that_wrote_it(kind: str) -> None:
    options = ProvisionOptions(expect_gpus=8, version="1.2.0+local", commit="0123456789ab")
    for artifact in files(kind, options).values():
        assert origin_of("".join(artifact.text.splitlines(keepends=True)[:3])) == (
            "1.2.0+local",
            "0123456789ab",
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rigtune": "rigtune"}, "not an absolute path"),
        ({"rigtune": "/opt/a\nb"}, "may misread"),
        ({"rigtune": "/opt/$HOME/rigtune"}, "may misread"),
        ({"policy": "/etc/a b.toml"}, "may misread"),
        ({"policy": "policy.toml"}, "not an absolute path"),
        ({"slurm_conf": "slurm.conf"}, "not an absolute path"),
        ({"image": "two words"}, "not a container image"),
        ({"gpus": -1}, "no pod requests -1 GPUs"),
        ({"nodes": 0}, "checks nothing"),
        ({"expect_gpus": None}, "a node without GPUs would pass"),
        ({"expect_gpus": -1}, "no node has -1 GPUs"),
        ({"expect": "dgx-h10"}, "no catalogue machine"),
    ],
)
def test_options_that_no_node_can_follow(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        render_provision(PROVISIONS[0], ProvisionOptions(**{"expect_gpus": 8, **changes}))  # type: ignore[arg-type]


def test_an_init_container_sees_only_the_gpus_that_it_requests() -> None:
    with pytest.raises(UsageError, match="checks nothing"):
        files("kubernetes-init", NO_GPUS)


def test_a_misspelt_kind_is_guessed() -> None:
    with pytest.raises(UsageError) as error:
        find_provision("slurm-helth")
    assert "slurm-health" in error.value.hint
