"""Add the id of the commit to a wheel or archive when it is built."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Writer of `assistant/COMMIT`, which `assistant/formats/build.py` reads if there is no checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("build", Path(self.root) / "assistant/formats/build.py")
        if spec is None or spec.loader is None:
            raise ImportError("assistant/formats/build.py is missing")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if version == "editable" or (Path(self.root) / "assistant" / "COMMIT").exists():
            return
        self._folder = tempfile.TemporaryDirectory(prefix="rigtune-build-")  # until the end of the build
        file = Path(self._folder.name) / "COMMIT"
        file.write_text(f"{module.commit()}\n", "ascii")
        folder = "rigtune/_app/assistant" if self.target_name == "wheel" else "assistant"
        build_data["force_include"][str(file)] = f"{folder}/COMMIT"
