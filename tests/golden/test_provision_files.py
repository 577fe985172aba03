"""Compare the files for provisioning byte for byte.

After a wanted change, run RIGTUNE_UPDATE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recipes.launch.provision import PROVISIONS, ProvisionOptions, find_provision, render_provision

FOLDER = Path(__file__).parent / "provision"
SITE = {"expect": "dgx-h100", "nodes": 4, "version": "1.0.0", "commit": "0123456789ab"}
CASES = {row.id: (row.id, {}) for row in PROVISIONS} | {
    "job-without-gpus": ("kubernetes-job", {"gpus": 0, "policy": "/etc/rigtune/site.toml"}),
}


@pytest.mark.parametrize("case", CASES)
def test_files_are_as_they_were_read_and_approved(case: str) -> None:
    kind, changes = CASES[case]
    artifacts = render_provision(find_provision(kind), ProvisionOptions(**SITE, **changes))
    for artifact in artifacts:
        path = FOLDER / case / artifact.path
        if artifact.path == "Dockerfile":  # the same for each kind
            path = FOLDER / artifact.path
        if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(artifact.text)
        assert artifact.text == path.read_text()
