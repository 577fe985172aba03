"""The reference program as files of an export folder."""

from __future__ import annotations

import ast
import json

from recipes.launch.reference_files import reference_files


def siblings(text: str) -> set[str]:
    """Return the modules of its own package that a module imports, in any form of import."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.level]
    return {node.module or alias.name for node in nodes for alias in node.names}


def test_the_folder_contains_exactly_the_modules_that_the_program_imports(make_recipe):
    texts = {file.path: file.text for file in reference_files(make_recipe())}
    assert "rigtune_worker/train.py" in texts
    assert "rigtune_worker/vet.py" not in texts
    imported = {
        f"rigtune_worker/{name}.py"
        for text in texts.values()
        if "\nimport torch" in text
        for name in siblings(text)
    }
    assert imported | {"workload.json", "rigtune_worker/__init__.py", "rigtune_worker/train.py"} == set(texts)


def test_the_configuration_contains_the_recipes_fields(make_recipe):
    config = json.loads(reference_files(make_recipe())[0].text)
    assert config["parallelism"]["global_batch"] == 8
    assert config["model"]["hidden"] == 64
    rates = {name: config["convergence"][name] for name in ("learning_rate", "warmup_steps", "steps")}
    assert rates == {"learning_rate": 0.003, "warmup_steps": 2, "steps": 20}
    assert (config["convergence"]["schedule"], config["convergence"]["beta2"]) == ("cosine", 0.95)
    assert config["resources"]["backend"] == "gloo"
