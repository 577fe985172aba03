"""Test manifests of every kind of job against Kubernetes' own schemas and the projects' custom resources.

None of the schemas is part of this repository. `RIGTUNE_KUBERNETES_PYTHON` names an interpreter that has
kubernetes-validate; `RIGTUNE_COMPOSE_SCHEMA` names the compose-spec.json of compose-spec/compose-spec;
`RIGTUNE_SKYPILOT_PYTHON` and `RIGTUNE_SAGEMAKER_PYTHON` name interpreters with SkyPilot and with version 3 of
SageMaker's SDK; `RIGTUNE_CRDS` names a folder with the CustomResourceDefinitions of kubeflow/trainer,
kubeflow/training-operator (v1.9), kubernetes-sigs/jobset and kubeflow/mpi-operator as YAML files.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from recipes.launch.launch_files import launch_files
from tests.support.manifests import H100, KUBERNETES, SMALL, documents, templates

pytestmark = pytest.mark.slow
CORE = ("ConfigMap", "Service", "Job")
CASES = {
    "four nodes": H100,
    "one node": SMALL,
    "host network": {**H100, "slots": {**H100["slots"], "pod_networks": "host", "memory": "1800Gi"}},
    "folders of the node": {**SMALL, "slots": {**SMALL["slots"], "container_mounts": "/data:/data"}},
}
VERSIONS = ("1.30", "1.34")


@pytest.fixture(scope="module")
def python() -> str:
    given = os.environ.get("RIGTUNE_KUBERNETES_PYTHON", "")
    if not given:
        pytest.skip("RIGTUNE_KUBERNETES_PYTHON names no interpreter with kubernetes-validate")
    return given


@pytest.fixture(scope="module")
def definitions() -> dict[tuple[str, str], Any]:
    """Return the strict schema of each version and kind."""
    folder = os.environ.get("RIGTUNE_CRDS", "")
    if not folder:
        pytest.skip("RIGTUNE_CRDS names no folder with CustomResourceDefinitions")
    schemas = {}
    for path in Path(folder).glob("*.yaml"):
        spec = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
            schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = strict(schema)
    return schemas


def strict(schema: Any) -> Any:
    """Return the schema without room for unknown fields, because the API server silently drops them."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    fields = {key: strict(value) for key, value in schema.items()}
    is_closed = "properties" in schema and isinstance(schema["properties"], dict)
    if is_closed and "type" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        fields.setdefault("additionalProperties", False)
    return fields


def validate_core(python: str, folder: Path, parts: list[dict[str, Any]]) -> None:
    for number, part in enumerate(parts):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(part))
    names = sorted(str(path) for path in folder.glob("*.yaml"))
    for version in VERSIONS:
        command = (python, "-m", "kubernetes_validate", "--strict", "-k", version, *names)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_objects_and_pods_are_valid_in_kubernetes(make_recipe, python, tmp_path, case):
    parts = []
    for launcher in KUBERNETES:
        for document in documents(make_recipe(**CASES[case]), launcher):
            if document["kind"] in CORE:
                parts.append(document)
            else:
                parts += [
                    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
                    for template in templates(document)
                ]
    validate_core(python, tmp_path, parts)


def test_kubernetes_refuses_a_field_that_it_does_not_know(make_recipe, python, tmp_path):
    """Guard the test above: a validation that accepts unknown fields would prove nothing."""
    (job,) = [each for each in documents(make_recipe(**SMALL), "kubernetes-job") if each["kind"] == "Job"]
    job["spec"]["completionmode"] = "Indexed"
    with pytest.raises(AssertionError, match="completionmode"):
        validate_core(python, tmp_path, [job])


@pytest.mark.parametrize("launcher", [kind for kind in KUBERNETES if kind != "kubernetes-job"])
@pytest.mark.parametrize("case", CASES)
def test_custom_resources_fit_their_definitions(make_recipe, definitions, case, launcher):
    judged = 0
    for document in documents(make_recipe(**CASES[case]), launcher):
        if document["kind"] not in CORE:
            jsonschema.validate(document, definitions[document["apiVersion"], document["kind"]])
            judged += 1
    assert judged >= 1


def test_a_definition_refuses_a_field_that_it_does_not_know(make_recipe, definitions):
    """Guard the test above: a definition that accepts unknown fields would prove nothing."""
    for document in documents(make_recipe(**SMALL), "jobset"):
        if document["kind"] == "JobSet":
            document["spec"]["failurepolicy"] = {}
            with pytest.raises(jsonschema.ValidationError, match="failurepolicy"):
                jsonschema.validate(document, definitions[document["apiVersion"], document["kind"]])


def checked_by(variable: str, code: str, file: Path, **variables: str) -> str:
    """Run Python code on a file with the interpreter that the variable names; return the last line."""
    interpreter = os.environ.get(variable, "")
    if not interpreter:
        pytest.skip(f"{variable} names no interpreter with the package")
    environment = {**os.environ, **variables}
    command = (interpreter, "-c", code, str(file))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


_SKY = """
import sys
import sky
import yaml
config = yaml.safe_load(open(sys.argv[1]))
task = sky.Task.from_yaml_config(config, {"RIGTUNE_FOLDER": sys.argv[2]})
(resources,) = task.resources
print(task.num_nodes, resources.accelerators, resources.network_tier, task.file_mounts, task.run)
"""


def test_skypilot_reads_its_task(make_recipe, tmp_path):
    recipe = make_recipe(**{**H100, "slots": {**H100["slots"], "bucket": "s3://mine/run"}})
    for file in launch_files(recipe, "skypilot"):
        (tmp_path / file.path).write_text(file.text)
    code = _SKY.replace("sys.argv[2]", repr(str(tmp_path)))
    words = checked_by("RIGTUNE_SKYPILOT_PYTHON", code, tmp_path / "sky.yaml", HOME=str(tmp_path))
    assert words.startswith("4 {'H100': 8} NetworkTier.BEST")
    assert f"'~/rigtune': '{tmp_path}'" in words
    assert words.endswith("bash ~/rigtune/sky-node.sh")


_SAGE = """
import runpy
import sys
from sagemaker.train.model_trainer import ModelTrainer

def check(self, context):
    # the checks of the constructor that do not ask AWS
    self._validate_training_image_and_algorithm_name(self.training_image, self.algorithm_name)
    self._validate_source_code(self.source_code)

ModelTrainer.model_post_init = check
made = runpy.run_path(sys.argv[1], run_name="read")["trainer"]
print(made.compute.instance_count, made.compute.instance_type, made.source_code.command,
      made.stopping_condition.max_runtime_in_seconds, made.checkpoint_config.s3_uri)
"""


def test_sagemaker_reads_its_script(make_recipe, tmp_path):
    more = {
        "bucket": "s3://mine/run",
        "role": "arn:aws:iam::123456789012:role/T",
        "instance_type": "ml.p5.48xlarge",
    }
    recipe = make_recipe(**{**H100, "slots": {**H100["slots"], **more}})
    for file in launch_files(recipe, "sagemaker"):
        (tmp_path / file.path).write_text(file.text)
    script = tmp_path / "sagemaker_job.py"
    words = checked_by("RIGTUNE_SAGEMAKER_PYTHON", _SAGE, script, AWS_DEFAULT_REGION="us-east-1")
    node = "bash /opt/ml/input/data/rigtune/sagemaker-node.sh"
    assert words == f"4 ml.p5.48xlarge {node} 131400 s3://mine/run"


@pytest.mark.parametrize("case", CASES)
def test_a_compose_file_fits_the_specification(make_recipe, case):
    path = os.environ.get("RIGTUNE_COMPOSE_SCHEMA", "")
    if not path:
        pytest.skip("RIGTUNE_COMPOSE_SCHEMA names no compose-spec.json of compose-spec/compose-spec")
    judge = jsonschema.Draft7Validator(json.loads(Path(path).read_text()))
    (document,) = documents(make_recipe(**CASES[case]), "compose")
    judge.validate(document)
    document["services"]["train"]["comand"] = []
    with pytest.raises(jsonschema.ValidationError, match="comand"):
        judge.validate(document)
