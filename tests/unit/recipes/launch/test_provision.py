"""Files for provisioning: valid in their own formats, with the site's paths in them, and safe against strange
ones.
"""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess

import pytest
import yaml

from probes.base.errors import UsageError
from recipes.launch.provision import PROVISIONS, ProvisionOptions, find_provision, render_provision
from recipes.launch.recipe import Artifact

ODD = ProvisionOptions(program="/opt/tools@1.0/bin/rigtune", policy="/policy.toml", expect="dgx-h100", gpus=4)
OPTIONS = [ProvisionOptions(expect_gpus=8), ProvisionOptions(policy="/etc/rigtune/policy.toml"), ODD]
KINDS = [row.id for row in PROVISIONS]
CHECKING = [row.id for row in PROVISIONS if row.runs_check]


def files(kind: str, options: ProvisionOptions) -> dict[str, Artifact]:
    return {artifact.path: artifact for artifact in render_provision(find_provision(kind), options)}


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "policy", "other paths"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_parse_in_their_formats(kind: str, options: ProvisionOptions) -> None:
    for path, artifact in files(kind, options).items():
        if path.endswith(".yaml"):
            assert yaml.safe_load(artifact.text)
        elif path.endswith((".service", ".timer")):
            unit = configparser.ConfigParser(interpolation=None, strict=False)
            unit.optionxform = str  # type: ignore[assignment,method-assign]
            unit.read_string(artifact.text)
            assert "Unit" in unit
        elif path != "Dockerfile":
            assert artifact.mode == (0o644 if path.endswith(".nhc") else 0o755)
            subprocess.run(("bash", "-n"), input=artifact.text, text=True, check=True)


@pytest.mark.parametrize("kind", ["slurm-health", "slurm-prolog", "nhc"])
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "policy", "other paths"])
def test_scripts_have_no_complaints(kind: str, options: ProvisionOptions) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    for artifact in files(kind, options).values():
        done = subprocess.run(
            ("shellcheck", "--shell=bash", "-"),
            input=artifact.text,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.stdout == ""


def test_the_policy_reaches_every_check() -> None:
    for kind in CHECKING:
        text = "".join(artifact.text for artifact in files(kind, OPTIONS[1]).values())
        assert "--policy" in text
        assert "/etc/rigtune/policy.toml" in text
        assert "--policy" not in "".join(artifact.text for artifact in files(kind, OPTIONS[0]).values())


@pytest.mark.parametrize("kind", CHECKING)
def test_every_check_knows_its_mode_and_what_a_node_must_have(kind: str) -> None:
    text = next(iter(files(kind, ODD).values())).text
    if kind == "systemd":
        text = files(kind, ODD)["rigtune-check.service"].text
    is_live = kind in ("slurm-health", "slurm-prolog", "nhc", "kubernetes-init", "systemd")
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
    (container,) = yaml.safe_load(files("kubernetes-job", ODD)["rigtune-job.yaml"].text)["spec"]["template"][
        "spec"
    ]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": "rigtune"}, "no absolute path"),
        ({"program": "/opt/a\nb"}, "may misread"),
        ({"program": "/opt/$HOME/rigtune"}, "may misread"),
        ({"policy": "/etc/a b.toml"}, "may misread"),
        ({"policy": "policy.toml"}, "no absolute path"),
        ({"slurm_conf": "slurm.conf"}, "no absolute path"),
        ({"image": "two words"}, "no container image"),
        ({"gpus": 0}, "checks nothing"),
        ({"expect_gpus": None}, "a node without GPUs would pass"),
        ({"expect_gpus": -1}, "no node has -1 GPUs"),
        ({"expect": "dgx-h10"}, "no catalogue machine"),
    ],
)
def test_options_that_no_node_can_follow(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        render_provision(PROVISIONS[0], ProvisionOptions(**{"expect_gpus": 8, **changes}))  # type: ignore[arg-type]


def test_a_misspelt_kind_is_guessed() -> None:
    with pytest.raises(UsageError) as error:
        find_provision("slurm-helth")
    assert "slurm-health" in error.value.hint
