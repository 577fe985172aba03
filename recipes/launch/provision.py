"""Ready-made files that run `rigtune check` when machines are provisioned.

To add a kind, write a template and a row here.

What each scheduler expects of its hooks: Slurm's pages on prologs and HealthCheckProgram (slurm.schedmd.com,
read 2026-11), the Kubernetes reference on init containers and Jobs (kubernetes.io, read 2026-11), and the
notes beside each template.
"""

import difflib
import json
import posixpath
import re

from probes.base.errors import UsageError
from probes.base.record import Record, StrictRecord
from probes.catalogue.hardware import load_catalogue
from recipes.launch.recipe import Artifact
from recipes.launch.script_parts import templates

_PLAIN = re.compile(r"[A-Za-z0-9/._+@-]+")
REASON_TAG = "rigtune:"
"""Beginning of every reason that the health check writes; it resumes only nodes with this reason."""
MOST_DRAINED_PERCENT = 25
"""Share of a partition that the health check drains by itself. A choice, not a measurement; the script states
it at its top.
"""
QUICK_S = 5
"""A prolog holds up every job; Slurm's own advice is to keep it short."""
DEEP_S = 30
"""slurmd kills a HealthCheckProgram after 60 s, and reporting to Slurm may take some of them."""

EVERY_MIN = 15
"""Minutes between two runs of the timer; the alerts wait for two of them."""
LONGEST_S = 45
"""rigtune ends earlier by itself: a driver that has to wake its GPUs gets 35 s, whatever the budget is."""


class ProvisionOptions(StrictRecord, kw_only=True):
    """Settings that differ from site to site."""

    program: str = "/opt/rigtune/bin/rigtune"
    """Absolute path of the command on the nodes. Slurm runs its hooks without a search path."""
    policy: str | None = None
    """Absolute path of the policy file on the nodes."""
    expect: str | None = None
    """Machine of the catalogue that each node must be."""
    expect_gpus: int | None = None
    """Number of GPUs that each node must have."""
    slurm_conf: str | None = None
    """Absolute path of slurm.conf if it is not Slurm's default: slurmd does not pass it to its hooks."""
    image: str = "rigtune:latest"
    """Container image that holds rigtune."""
    gpus: int = 8
    """GPUs of a node that a pod asks for."""


class ProvisionFile(Record, kw_only=True):
    path: str
    template: str
    mode: int = 0o644


class ProvisionRow(Record, kw_only=True):
    """A way to run `rigtune check` when nodes are provisioned."""

    id: str
    title: str
    files: tuple[ProvisionFile, ...]
    install: str
    """Steps for the administrator."""
    runs_check: bool = True
    """False for files that only read what a check wrote."""


def _row(
    kind: str, title: str, *files: tuple[str, int], install: str, runs_check: bool = True
) -> ProvisionRow:
    return ProvisionRow(
        id=kind,
        title=title,
        files=tuple(
            ProvisionFile(path=path, template=f"provision/{path}.j2", mode=mode) for path, mode in files
        ),
        install=install,
        runs_check=runs_check,
    )


PROVISIONS: tuple[ProvisionRow, ...] = (
    _row(
        "slurm-health",
        "Slurm HealthCheckProgram: drains a bad node with one line of reason, resumes what it drained itself",
        ("rigtune-health", 0o755),
        install="Put it on every node and run it there with --dry-run. Then set HealthCheckProgram to its "
        "path, HealthCheckInterval=300 and HealthCheckNodeState=ANY,CYCLE (CYCLE: not all nodes at once) in "
        "slurm.conf, and `scontrol reconfigure`.",
    ),
    _row(
        "slurm-prolog",
        "Slurm Prolog: refuses a job on a bad node within seconds",
        ("rigtune-prolog", 0o755),
        install="Put it on every node and set Prolog to its path and PrologFlags=Alloc in slurm.conf; then "
        "`scontrol reconfigure`. With rigtune-health beside it, the drain gets its reason and is lifted "
        "after the repair.",
    ),
    _row(
        "kubernetes-init",
        "Kubernetes: an init container that keeps a training pod from starting on a bad node",
        ("rigtune-init.yaml", 0o644),
        ("Dockerfile", 0o644),
        install="Build and push the image, then `kubectl patch` your Deployment or merge it into your pod "
        "template.",
    ),
    _row(
        "kubernetes-job",
        "Kubernetes: a Job that checks one node",
        ("rigtune-job.yaml", 0o644),
        ("Dockerfile", 0o644),
        install="Build and push the image, set the node's name in the Job, then `kubectl apply -f "
        "rigtune-job.yaml`.",
    ),
    _row(
        "systemd",
        "systemd: a timer that writes the verdict for Prometheus' node_exporter and to the journal",
        ("rigtune-check.service", 0o644),
        ("rigtune-check.timer", 0o644),
        install="Copy both to /etc/systemd/system, then `systemctl enable --now rigtune-check.timer`.",
    ),
    _row(
        "prometheus",
        "Prometheus: alerts and recording rules for the metrics that the systemd timer writes",
        ("rigtune-alerts.yaml", 0o644),
        ("rigtune-rules.yaml", 0o644),
        install="Name both under rule_files in prometheus.yml, run `promtool check rules` on them and "
        "reload Prometheus. The metrics come from `rigtune export --provision systemd` on the nodes.",
        runs_check=False,
    ),
    _row(
        "nhc",
        "LBNL Node Health Check: a check that hands rigtune's reason on to NHC",
        ("rigtune.nhc", 0o644),
        install="Copy it to /etc/nhc/scripts on every node, add `* || check_rigtune` to /etc/nhc/nhc.conf, "
        "and set TIMEOUT=60 in /etc/sysconfig/nhc: the check gets the time that NHC leaves.",
    ),
    _row(
        "ansible",
        "Ansible: tasks that install rigtune, check the node and stop the play on a bad one",
        ("rigtune-tasks.yaml", 0o644),
        install="Set rigtune_package to the wheel's address and use `import_tasks: rigtune-tasks.yaml` in "
        "your play.",
    ),
    _row(
        "cloud-init",
        "cloud-init: checks the machine at its first boot and leaves the verdict",
        ("rigtune-user-data.yaml", 0o644),
        install="Set the wheel's address in it, then give it as user data or merge it into yours.",
    ),
)


def find_provision(kind: str) -> ProvisionRow:
    """Return the row of a kind. Raises UsageError that names the nearest."""
    for row in PROVISIONS:
        if row.id == kind:
            return row
    ids = [row.id for row in PROVISIONS]
    near = difflib.get_close_matches(kind.lower(), ids, n=1, cutoff=0.4)
    guess = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no kind {kind[:80]!r} of provisioning", f"{guess}kinds: {', '.join(ids)}")


def render_provision(row: ProvisionRow, options: ProvisionOptions) -> tuple[Artifact, ...]:
    """Return the files of `row`. Raises UsageError for options that no node can follow."""
    _require_plain("the program", options.program)
    for what, path in (("the policy", options.policy), ("slurm.conf", options.slurm_conf)):
        if path is not None:
            _require_plain(what, path)
    expected = _expectations(options) if row.runs_check else ()
    if options.gpus < 1:
        raise UsageError(
            f"a pod with {options.gpus} GPUs checks nothing", "give the number of GPUs of a node, such as 8"
        )
    if not options.image.strip() or any(character.isspace() for character in options.image):
        raise UsageError(
            f"{options.image!r} is no container image", "give one such as registry.example.org/rigtune:1.0"
        )
    return tuple(
        Artifact(
            path=file.path,
            mode=file.mode,
            text=templates()
            .get_template(file.template)
            .render(
                options=options,
                expected=expected,
                tag=REASON_TAG,
                most_drained_percent=MOST_DRAINED_PERCENT,
                quick_s=QUICK_S,
                deep_s=DEEP_S,
                longest_s=LONGEST_S,
                every_min=EVERY_MIN,
                quoted=json.dumps,
            ),
        )
        for file in row.files
    )


def _expectations(options: ProvisionOptions) -> tuple[str, ...]:
    """Return the options of `rigtune check` that state what a node must be.

    Raises UsageError without any: a node that has lost its GPUs would be fit.
    """
    machine = None if options.expect is None else load_catalogue().named_machine(options.expect).id
    if options.expect_gpus is not None and options.expect_gpus < 0:
        raise UsageError(
            f"no node has {options.expect_gpus} GPUs", "give the number of GPUs of a node, such as 8"
        )
    stated = {"--policy": options.policy, "--expect": machine, "--expect-gpus": options.expect_gpus}
    words = tuple(f"{option}={value}" for option, value in stated.items() if value is not None)
    if not words:
        raise UsageError(
            "the check does not know what a node must have, and a node without GPUs would pass",
            "add --expect MACHINE, --expect-gpus N or --policy PATH",
        )
    return words


def _require_plain(what: str, path: str) -> None:
    """Raise UsageError for a path that systemd, YAML and shells would quote in different ways."""
    if not posixpath.isabs(path):
        raise UsageError(
            f"{what} {path!r} is no absolute path", "hooks run without a search path or working directory"
        )
    if not _PLAIN.fullmatch(path):
        raise UsageError(
            f"{what} {path!r} has characters that hooks may misread",
            "use letters, digits and / . _ + @ - alone",
        )
