"""Ready-made files that run `rigtune check` when machines are provisioned.

To add a kind, write a template and a row here.

Sources of what each scheduler expects of its hooks: Slurm's pages on prologs and HealthCheckProgram
(slurm.schedmd.com, read 2026-11), the Kubernetes reference on init containers, Jobs, CronJobs and DaemonSets
(kubernetes.io, read 2026-11), the configuration that kubernetes/node-problem-detector parses
(pkg/custompluginmonitor/types at 6632ca6, 2026-08), and the notes beside each template.
"""

import json
import posixpath
import re

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Record, StrictRecord, quoted
from probes.base.units import plural
from probes.catalogue.hardware import load_catalogue
from recipes.launch.recipe import Artifact
from recipes.launch.script_parts import templates

_ORIGIN = re.compile(r"Written by rigtune ([\w.+!-]{1,64}) \(commit (\w{1,40})\)")
_EARLIER_ORIGIN = re.compile(
    r"^# (?:Written by rigtune[.:]|.{1,99}, written by rigtune[.:]|An image with rigtune alone\.)",
    re.MULTILINE,
)
"""The first line of hooks that were exported before 2026-12."""
_PLAIN = re.compile(r"[A-Za-z0-9/._+@-]+")
REASON_TAG = "rigtune:"
"""Beginning of every reason that the health check writes; the check resumes only nodes with such a reason."""
MOST_DRAINED_PERCENT = 25
"""Percentage of a partition; if the health check has drained more nodes than this, it drains no further node.

The number is a choice, not a measurement; the script states it in its first lines.
"""
QUICK_S = 5
"""Budget of a prolog in seconds: a prolog delays every job, and Slurm recommends that it be short."""
DEEP_S = 30
"""Budget of a health check in seconds: slurmd kills it after 60 s, including the report to Slurm."""

EVERY_MIN = 15
"""Minutes between two runs of the timer; the alerts wait for two runs."""
LONGEST_S = 45
"""Seconds after which hooks end a check from outside. A check usually ends earlier by itself, although a
driver that must wake its GPUs gets 35 s, regardless of the budget.
"""
NPD_S = 2 * (LONGEST_S + 5) + 10
"""Time limit in seconds of the plugin of node-problem-detector, which checks twice before it reports a
problem; a killed check takes 5 s more.
"""


class ProvisionOptions(StrictRecord, kw_only=True):
    """Settings that differ from site to site."""

    rigtune: str = "/opt/rigtune/bin/rigtune"
    """Absolute path of the command on the nodes. Slurm runs its hooks without a search path."""
    policy: str | None = None
    """Absolute path of the policy file on the nodes."""
    expect: str | None = None
    """Machine of the catalogue that each node must be."""
    expect_gpus: int | None = None
    """Number of GPUs that each node must have."""
    slurm_conf: str | None = None
    """Absolute path of slurm.conf if it is not Slurm's default: slurmd does not pass it to its hooks."""
    image: str | None = None
    """Container image that contains rigtune; by default the image of this version."""
    gpus: int = 8
    """GPUs of a node that a pod requests. With 0, a Job reads all GPUs and occupies none."""
    nodes: int = 1
    """Number of nodes that a CronJob checks."""
    version: str = "unknown"
    """Version of the rigtune that writes the files."""
    commit: str = "unknown"
    """Commit of that rigtune."""


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
        install="Copy the script to every node and run it there with --dry-run. Set HealthCheckProgram to "
        "its path, HealthCheckInterval=300, HealthCheckNodeState=ANY,CYCLE (CYCLE: not all nodes at once) in "
        "slurm.conf, and `scontrol reconfigure`.",
    ),
    _row(
        "slurm-prolog",
        "Slurm Prolog: refuses a job on a bad node within seconds",
        ("rigtune-prolog", 0o755),
        install="Copy the script to every node and set Prolog to its path, PrologFlags=Alloc in slurm.conf; "
        "then `scontrol reconfigure`. If rigtune-health is also used, the drained node gets its reason, and "
        "is resumed after the repair.",
    ),
    _row(
        "kubernetes-init",
        "Kubernetes: an init container that prevents a training pod from starting on a bad node",
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
        "kubernetes-daemonset",
        "Kubernetes: a DaemonSet that watches each GPU node without requesting a GPU",
        ("rigtune-daemonset.yaml", 0o644),
        ("Dockerfile", 0o644),
        install="Build and push the image, then `kubectl apply -f rigtune-daemonset.yaml`; "
        "`kubectl get pods -l app.kubernetes.io/name=rigtune-watch -o wide` shows bad nodes as 0/1.",
    ),
    _row(
        "kubernetes-cronjob",
        "Kubernetes: a CronJob that checks N nodes every night without requesting a GPU",
        ("rigtune-cronjob.yaml", 0o644),
        ("Dockerfile", 0o644),
        install="Build and push the image, then `kubectl apply -f rigtune-cronjob.yaml`; --nodes sets the "
        "number of nodes. `kubectl create job --from=cronjob/rigtune-nightly try` tries it at once.",
    ),
    _row(
        "node-problem-detector",
        "Kubernetes: a plugin of node-problem-detector that sets a condition of the node",
        ("rigtune-npd", 0o755),
        ("rigtune-npd.json", 0o644),
        install="Put rigtune-npd beside rigtune where node-problem-detector runs (the node, or an image "
        "with both), and add the path of rigtune-npd.json to --config.custom-plugin-monitor.",
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
        "Ansible: tasks that install rigtune, check the node and stop the play on a bad node",
        ("rigtune-tasks.yaml", 0o644),
        install="Set rigtune_package to the wheel's address and use `import_tasks: rigtune-tasks.yaml` in "
        "your play.",
    ),
    _row(
        "cloud-init",
        "cloud-init: checks the machine at its first boot and leaves the verdict",
        ("rigtune-user-data.yaml", 0o644),
        install="Set the wheel's address in the file, then use it as user data or add it to your user data.",
    ),
)


def find_provision(kind: str) -> ProvisionRow:
    """Return the row of a kind. Raises UsageError, which names the nearest kind, for an unknown kind."""
    for row in PROVISIONS:
        if row.id == kind:
            return row
    ids = [row.id for row in PROVISIONS]
    raise UsageError(
        f"there is no kind {quoted(kind)} of provisioning",
        did_you_mean(kind, ids, f"kinds: {', '.join(ids)}", cutoff=0.4),
    )


def render_provision(row: ProvisionRow, options: ProvisionOptions) -> tuple[Artifact, ...]:
    """Return the files of `row`. Raises UsageError for options that no node can follow."""
    _require_plain("the path of rigtune", options.rigtune)
    for what, path in (("the policy", options.policy), ("slurm.conf", options.slurm_conf)):
        if path is not None:
            _require_plain(what, path)
    expected = _expectations(options) if row.runs_check else ()
    if options.gpus < 0:
        raise UsageError(
            f"no pod requests {options.gpus} GPUs", "give the number of GPUs of a node, such as 8"
        )
    if options.gpus == 0 and row.id == "kubernetes-init":
        raise UsageError(
            "an init container with 0 GPUs checks nothing",
            "give the number of GPUs of a node, such as 8; kubernetes-job checks without requesting any",
        )
    if options.nodes < 1:
        raise UsageError(f"a check of {options.nodes} nodes checks nothing", "give the number of GPU nodes")
    image = f"rigtune:{options.version.replace('+', '-')}" if options.image is None else options.image
    if not image.strip() or any(character.isspace() for character in image):
        raise UsageError(
            f"{image!r} is not a container image", "give one such as registry.example.org/rigtune:1.0"
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
                image=image,
                tag=REASON_TAG,
                most_drained_percent=MOST_DRAINED_PERCENT,
                quick_s=QUICK_S,
                deep_s=DEEP_S,
                longest_s=LONGEST_S,
                npd_s=NPD_S,
                nodes=plural(options.nodes, "node"),
                script=posixpath.join(posixpath.dirname(options.rigtune), "rigtune-npd"),
                origin=origin(options.version, options.commit),
                every_min=EVERY_MIN,
                quoted=json.dumps,
            ),
        )
        for file in row.files
    )


def origin(version: str, commit: str) -> str:
    """Return the words in a hook that `origin_of` reads."""
    return f"Written by rigtune {version} (commit {commit})"


def origin_of(head: str) -> tuple[str, str] | None:
    """Return the version and the commit of the rigtune that wrote a hook, from the hook's first lines.

    Both are empty for a hook of an older rigtune, which states neither. None if the text is not a hook.
    """
    if match := _ORIGIN.search(head):
        return match[1], match[2]
    return ("", "") if _EARLIER_ORIGIN.search(head) else None


def _expectations(options: ProvisionOptions) -> tuple[str, ...]:
    """Return the options of `rigtune check` that state what a node must be.

    Raises UsageError if there are none, because a node that has lost its GPUs would then pass the check.
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
            f"{what} {path!r} is not an absolute path", "hooks run without a search path or working directory"
        )
    if not _PLAIN.fullmatch(path):
        raise UsageError(
            f"{what} {path!r} has characters that hooks may misread",
            "use only letters, digits and / . _ + @ -",
        )
