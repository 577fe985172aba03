"""A node with the exported hooks, a rigtune that works or is broken, and a Slurm of two small scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import yaml

from recipes.launch.provision import ProvisionOptions, find_provision, render_provision

BAD = "RIGTUNE CRITICAL - nvlink-active GPU2: NVLinks are down (17 up; down: link 7) | failed=1;;0\nmore\n"
FIT = "RIGTUNE OK - fit to train, 1 passed | failed=0;;0\n"
BROKEN = {
    "the package is gone": f"#!{sys.executable} -IS\nimport rigtune_that_is_not_installed\n",
    "memory is low": f"#!{sys.executable} -IS\nraise MemoryError\n",
    "words on stdout": "#!/bin/sh\necho 'Traceback (most recent call last):'; exit 1\n",
    "a reason without proof": "#!/bin/sh\necho 'nvlink-active GPU2: NVLinks are down'; exit 1\n",
    "a verdict of another code": f"#!/bin/sh\nprintf '%s' '{BAD}'; exit 0\n",
    "silent success": "#!/bin/sh\nexit 0\n",
    "killed": "#!/bin/sh\nkill -KILL $$\n",
    "not there": "",
}
SCONTROL = """#!/bin/bash
# Keeps state and reason of one node as slurmctld does.
case $1 in
  show)
    reason=; [ -s {folder}/reason ] && reason="Reason=$(cat {folder}/reason) [root@$(cat {folder}/since)] "
    echo "NodeName=n1 State=$(cat {folder}/state) Partitions=main,test ${{reason}}Comment=none"
    ;;
  update)
    for word in "$@"; do
      case $word in
        State=RESUME) echo IDLE >{folder}/state; : >{folder}/reason ;;
        State=DRAIN) echo IDLE+DRAIN >{folder}/state ;;
        Reason=*) printf '%s' "${{word#Reason=}}" >{folder}/reason; date +%Y-%m-%dT%H:%M:%S >{folder}/since ;;
      esac
    done
    ;;
esac
"""


class Node:
    """A node with the exported hooks, whose rigtune and Slurm are scripts in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = folder / "run" / "prolog-failed-n1"
        self.script("scontrol", SCONTROL.format(folder=folder))
        self.crowd(marked=0, others=9)
        self.put("IDLE")
        options = ProvisionOptions(rigtune=str(folder / "rigtune"), expect_gpus=8)
        for kind in ("slurm-health", "slurm-prolog", "node-problem-detector"):
            for artifact in render_provision(find_provision(kind), options):
                text = artifact.text.replace("/run/rigtune", str(self.marker.parent))
                self.script(artifact.path, re.sub(r"(?m)^export PATH=", f"export PATH={folder}:", text))

    def script(self, name: str, text: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
            path.chmod(0o755)

    def judged(self, line: str, code: int) -> None:
        """Let rigtune give this verdict from now on."""
        self.script("rigtune", f"#!/bin/sh\ncat <<'END'\n{line}END\nexit {code}\n")

    def crowd(self, *, marked: int, others: int) -> None:
        """Let `sinfo` list `marked` nodes that rigtune drained and `others`; it fails if both are 0."""
        lines = [f"a{n} rigtune: x #1" for n in range(marked)] + [f"b{n} none" for n in range(others)]
        self.script(
            "sinfo",
            "#!/bin/sh\ncat <<'END'\n{}\nEND\n".format("\n".join(lines)) if lines else "#!/bin/sh\nexit 1\n",
        )

    def put(self, state: str, reason: str = "", *, drained: float | None = None) -> None:
        """Set the node's state as somebody else would, at the moment `drained`."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(drained))
        for name, text in (("state", state), ("reason", reason), ("since", moment)):
            (self.folder / name).write_text(text)

    def refused(self, moment: float) -> None:
        """Leave the marker of a job that our prolog refused at `moment`."""
        self.marker.parent.mkdir(exist_ok=True)
        self.marker.write_text("x\n")
        os.utime(self.marker, (moment, moment))

    def run(self, hook: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"SLURMD_NODENAME": "n1", "PATH": os.environ["PATH"], **variables}
        argv = (str(self.folder / hook), *arguments)
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)

    def health_twice(self) -> None:
        """Run the health check twice, because it acts only if two consecutive runs report the same fault."""
        for _ in range(2):
            self.run("rigtune-health")

    @property
    def state(self) -> str:
        return (self.folder / "state").read_text().strip()

    @property
    def reason(self) -> str:
        return (self.folder / "reason").read_text().strip()


def faulty(*faults: str) -> str:
    """Return a verdict with these faults, and a warning that does not count."""
    first, *others = (*faults, "nofile host: the limit is low (1024)")
    return "\n".join(
        (f"RIGTUNE CRITICAL - {first} (and more) | failed=1 blocking={len(faults)}", *others, "")
    )


GPU2, GPU3 = "nvlink-active GPU2: NVLinks are down (17 up)", "gpu-lost GPU3: the driver has lost this GPU"


def container(node: Node, kind: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the pod's container."""
    text = render_provision(find_provision(kind), ProvisionOptions(expect_gpus=8))[0].text
    spec = yaml.safe_load(text)["spec"]
    pod = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
    (described,) = pod.get("initContainers") or pod["containers"]
    argv = [*described["command"], *described["args"]]
    argv = [word.replace("/tmp/rigtune-report", str(node.folder / "report")) for word in argv]  # noqa: S108
    environment = {"PATH": f"{node.folder}:{os.environ['PATH']}", **variables}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
