"""Grammars of launchers' command lines: options with values, and the start of the inner command.

Source of each: the manual page of srun, mpirun (Open MPI, MPICH, Intel MPI), docker, podman, apptainer,
enroot, and the argument parsers of torchrun, accelerate, deepspeed, horovodrun, torchx.
"""

from typing import Literal

from probes.base.record import Record

Rest = Literal["command", "script", "image-command", "after-dashes", "nothing"]


class Grammar(Record, kw_only=True):
    """The command line of one program."""

    rest: Rest = "nothing"
    """Meaning of the first word that is not an option.

    The word begins a command, a script with arguments, or an image and then a command. `after-dashes`: a
    command follows `--`.
    """
    switches: frozenset[str] = frozenset()
    """Long names of options without a value. In a launcher, every other option has a value."""
    short: dict[str, str] = {}
    """Long name of each option with a short name; the key is the letter."""
    pairs: frozenset[str] = frozenset()
    """Options with two values: `--mca btl tcp`."""
    lists: frozenset[str] = frozenset()
    """Options that are repeated to make a list."""
    variables: frozenset[str] = frozenset()
    """Options that set `NAME=value` for the inner command."""
    verbs: frozenset[str] = frozenset()
    """Words that precede the options: `run` of docker."""
    needs_verb: bool = False
    is_long_single: bool = False
    """True if `-bind-to` means `--bind-to`."""
    modules: frozenset[str] = frozenset()
    """Switches after which the word for the script is the name of a Python module."""
    abbreviates: frozenset[str] = frozenset()
    """All long names, if the program accepts a unique beginning of a name (as argparse does); else empty."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _letters(words: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in words.split())


_SRUN = Grammar(
    rest="command",
    switches=_set(
        "exclusive kill-on-bad-exit label unbuffered overlap pty multi-prog quiet verbose preserve-env "
        "disable-status no-kill contiguous overcommit oversubscribe whole spread-job use-min-nodes "
        "no-container-mount-home container-mount-home container-writable container-readonly "
        "container-remap-root no-container-remap-root container-entrypoint no-container-entrypoint exact "
        "external-launcher propagate immediate test-only help usage version nvmps reboot no-allocate "
        "resv-ports send-libs requeue no-requeue hold bcast compress nice quit-on-interrupt x11"
    ),
    short=_letters(
        "n=ntasks N=nodes c=cpus-per-task G=gpus p=partition t=time A=account J=job-name w=nodelist "
        "x=exclude o=output e=error i=input D=chdir m=distribution C=constraint L=licenses q=qos "
        "d=dependency b=begin T=threads W=wait B=extra-node-info r=relative S=core-spec M=clusters "
        "K=kill-on-bad-exit l=label u=unbuffered Q=quiet v=verbose E=preserve-env X=disable-status k=no-kill "
        "O=overcommit s=oversubscribe I=immediate Z=no-allocate V=version h=help H=hold F=nodefile"
    ),
)
_MPIRUN = Grammar(
    rest="command",
    is_long_single=True,
    switches=_set(
        "report-bindings allow-run-as-root oversubscribe nooversubscribe tag-output display-map "
        "display-allocation quiet verbose q v V genvall envall nolocal pernode merge-stderr-to-stdout "
        "timestamp-output debug-daemons leave-session-attached bycore bynode byslot bind-to-none "
        "bind-to-core bind-to-socket no-local use-hwthread-cpus enable-recovery disable-recovery "
        "do-not-launch forward-signals stream-buffering xterm-all l print-all-exitcodes index-argv-by-rank "
        "continuous display-topo display-devel-map do-not-resolve noprefix novm preload-binary show-progress "
        "set-cwd-to-session-dir get-stack-traces xml tv debug d help h version"
    ),
    short=_letters("n=np c=np H=host N=npernode f=hostfile"),
    pairs=_set("mca gmca pmixmca prtemca genv env omca"),
    lists=_set("x mca gmca pmixmca prtemca genv env omca"),
    variables=_set("x genv env"),
)
TORCHRUN_OPTIONS = _set(
    "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone max-restarts "
    "monitor-interval start-method event-log-handler role module no-python run-path log-dir redirects tee "
    "local-ranks-filter node-rank master-addr master-port local-addr logs-specs numa-binding "
    "virtual-local-rank duplicate-stdout-filters duplicate-stderr-filters shutdown-timeout signals-to-handle "
    "log-line-prefix-template print-completion help use-env"
)
"""Long names of torchrun's options.

Source: pytorch/pytorch, torch/distributed/run.py of 1.9 to 2.10, and --use-env of torch.distributed.launch.
"""
DEEPSPEED_OPTIONS = _set(
    "hostfile include exclude num-nodes num-gpus num-accelerators master-port master-addr node-rank launcher "
    "launcher-args module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid "
    "enable-each-rank-log autotuning elastic-training min-elastic-nodes max-elastic-nodes bind-cores-to-rank "
    "bind-core-list ssh-port venv-script log-level quiet help"
)
"""Source: deepspeedai/DeepSpeed, deepspeed/launcher/runner.py of 0.6 to 0.19."""
TENSORFLOW_NODE = "tensorflow_node.py"
"""The file with which rigtune's launch files start TensorFlow on each node."""
_TENSORFLOW = Grammar(rest="script", switches=_set("module"), short={"m": "module"}, modules=_set("module"))
_TORCHRUN = Grammar(
    rest="script",
    abbreviates=TORCHRUN_OPTIONS,
    switches=_set("standalone module no-python run-path virtual-local-rank use-env help"),
    short=_letters("m=module r=redirects t=tee h=help"),
    modules=_set("module"),
)
_ACCELERATE = Grammar(
    rest="script",
    verbs=_set("launch test config env estimate-memory merge-weights tpu-config to-fsdp2"),
    switches=_set(
        "multi-gpu cpu tpu use-fsdp use-deepspeed use-megatron-lm use-xpu use-mps-device mps fp16 quiet "
        "debug module no-python same-network enable-cpu-affinity use-parallelism-config dynamo-use-dynamic "
        "dynamo-use-fullgraph tpu-use-cluster tpu-use-sudo tpu-cluster no-tpu-cluster use-cpu ipex help "
        "dynamo-use-regional-compilation downcast-bf16 no-hf-args fp8-use-autocast-during-eval"
    ),
    short=_letters("m=module q=quiet h=help t=tee"),
    modules=_set("module"),
)
_DEEPSPEED = Grammar(
    rest="script",
    switches=_set(
        "no-ssh no-ssh-check no-python module no-local-rank force-multi save-pid elastic-training "
        "bind-cores-to-rank quiet help"
    ),
    abbreviates=DEEPSPEED_OPTIONS,
    short=_letters("H=hostfile i=include e=exclude q=quiet h=help"),
    modules=_set("module"),
)
_COMPOSER = Grammar(
    rest="script",
    abbreviates=_set(
        "nproc stdout stderr verbose module-mode command-mode world-size base-rank node-rank master-addr "
        "master-port version help"
    ),
    switches=_set("verbose module-mode command-mode version help"),
    short=_letters("n=nproc v=verbose m=module-mode c=command-mode h=help"),
    modules=_set("module-mode"),
)
"""Source: mosaicml/composer, composer/cli/launcher.py."""
_HOROVODRUN = Grammar(
    rest="command",
    is_long_single=True,
    switches=_set(
        "verbose gloo mpi jsrun disable-cache autotune check-build cb no-hierarchical-allreduce "
        "hierarchical-allreduce v hierarchical-allgather no-hierarchical-allgather timeline-mark-cycles tcp "
        "prefix-output-with-timestamp version"
    ),
    short=_letters("H=hosts p=ssh-port n=np"),
)
_DOCKER = Grammar(
    rest="image-command",
    verbs=_set("run exec create container"),
    needs_verb=True,
    switches=_set(
        "interactive tty detach rm privileged init read-only no-healthcheck oom-kill-disable publish-all "
        "quiet help sig-proxy replace env-host no-hosts tls disable-content-trust no-hostname systemd-off rmi"
    ),
    short=_letters(
        "i=interactive t=tty d=detach e=env v=volume w=workdir u=user p=publish P=publish-all h=hostname "
        "m=memory c=cpu-shares l=label q=quiet a=attach"
    ),
    lists=_set(
        "env volume mount device ulimit cap-add cap-drop security-opt publish env-file tmpfs annotation "
        "add-host label"
    ),
    variables=_set("env"),
)
_APPTAINER = Grammar(
    rest="image-command",
    verbs=_set("exec run shell"),
    needs_verb=True,
    switches=_set(
        "nv rocm nvccli contain containall cleanenv writable writable-tmpfs fakeroot no-home ipc pid net "
        "userns uts unsquash compat no-init no-umask no-eval disable-cache debug quiet no-https allow-setuid "
        "keep-privs no-privs help"
    ),
    short=_letters(
        "c=contain C=containall e=cleanenv w=writable f=fakeroot i=ipc p=pid n=net u=userns "
        "B=bind H=home o=overlay W=workdir S=scratch"
    ),
    lists=_set("env bind mount"),
    variables=_set("env"),
)
_ENROOT = Grammar(
    rest="image-command",
    verbs=_set("start exec"),
    needs_verb=True,
    switches=_set("root rw help"),
    short=_letters("r=root w=rw e=env m=mount c=conf"),
    lists=_set("env mount"),
    variables=_set("env"),
)
_KUBECTL = Grammar(
    rest="after-dashes",
    verbs=_set("exec run apply create delete get logs debug"),
    switches=_set("stdin tty quiet rm help attach it ti"),
    short=_letters("i=stdin t=tty n=namespace c=container f=filename l=selector q=quiet"),
    lists=_set("env filename"),
    variables=_set("env"),
)
_RAY = Grammar(
    rest="after-dashes",
    verbs=_set("start job submit stop up down exec status"),
    switches=_set(
        "head block no-wait ray-debugger-external disable-usage-stats no-monitor verbose force help"
    ),
    short=_letters("v=verbose h=help"),
)
_TORCHX = Grammar(
    rest="nothing",
    verbs=_set("run"),
    switches=_set("dryrun wait log tee-logs help"),
    short=_letters("s=scheduler j=j h=h m=m"),
    lists=_set("env"),
    variables=_set("env"),
)
_SUBMITTED = Grammar(
    rest="after-dashes",
    verbs=_set(
        "submit submit-mpi submit-pytorch submit-dist training workspace pytorch mpi pytorchjob mpijob"
    ),
    switches=_set("interactive large-shm host-ipc host-network attach command preemptible stdin tty"),
    short=_letters("e=environment g=gpu i=image p=project"),
    lists=_set("environment environment-variable env"),
    variables=_set("environment environment-variable env"),
)
"""Source: Run:AI, runai submit; kubeflow/arena, arena submit."""
_SIMPLE = Grammar(rest="command")

GRAMMARS: dict[str, Grammar] = {
    "srun": _SRUN,
    "mpirun": _MPIRUN,
    "mpiexec": _MPIRUN,
    "mpiexec.hydra": _MPIRUN,
    "orterun": _MPIRUN,
    "prterun": _MPIRUN,
    "torchrun": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "accelerate-launch": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "composer": _COMPOSER,
    TENSORFLOW_NODE: _TENSORFLOW,
    "horovodrun": _HOROVODRUN,
    "docker": _DOCKER,
    "podman": _DOCKER,
    "nerdctl": _DOCKER,
    "apptainer": _APPTAINER,
    "singularity": _APPTAINER,
    "enroot": _ENROOT,
    "kubectl": _KUBECTL,
    "oc": _KUBECTL,
    "ray": _RAY,
    "torchx": _TORCHX,
    "sbatch": Grammar(
        rest="script",
        switches=_SRUN.switches | _set("parsable wait get-user-env ignore-pbs"),
        short={**_SRUN.short, "a": "array", "W": "wait"},
    ),
    "salloc": _SRUN,
    "shifter": Grammar(
        rest="command",
        switches=_set("clearenv verbose help"),
        short=_letters("E=clearenv v=verbose h=help V=volume e=env w=workdir m=module"),
        lists=_set("env volume module"),
        variables=_set("env"),
    ),
    "podman-hpc": _DOCKER,
    "sarus": Grammar(
        rest="image-command",
        verbs=_set("run"),
        needs_verb=True,
        switches=_set("mpi glibc tty init ssh"),
        short=_letters("e=env t=tty w=workdir"),
        lists=_set("env mount device"),
        variables=_set("env"),
    ),
    "runai": _SUBMITTED,
    "arena": _SUBMITTED,
    "axolotl": Grammar(
        rest="nothing",
        verbs=_set("train preprocess evaluate inference merge-lora merge-sharded-fsdp-weights fetch lm-eval"),
        needs_verb=True,
    ),
    "nohup": _SIMPLE,
    "setpriv": Grammar(rest="command", switches=_set("clear-groups keep-groups no-new-privs reset-env dump")),
    "setsid": Grammar(rest="command", switches=_set("ctty fork wait c f w")),
    "time": Grammar(rest="command", switches=_set("p v portability verbose append a")),
    "exec": Grammar(rest="command", switches=_set("c l")),
    "command": Grammar(rest="command", switches=_set("p v V")),
    "builtin": _SIMPLE,
    "nice": Grammar(rest="command", short={"n": "adjustment"}),
    "ionice": Grammar(rest="command", short={"c": "class", "n": "classdata"}),
    "stdbuf": Grammar(rest="command", short={"o": "output", "e": "error", "i": "input"}),
    "numactl": Grammar(
        rest="command",
        switches=_set("localalloc l all a show s hardware H balancing"),
        short={"N": "cpunodebind", "m": "membind", "C": "physcpubind", "i": "interleave", "p": "preferred"},
    ),
    "sudo": Grammar(
        rest="command",
        switches=_set("preserve-env non-interactive E n H i s login set-home stdin S"),
        short={"u": "user", "g": "group"},
    ),
    "nsys": Grammar(
        rest="command",
        verbs=_set("profile launch"),
        needs_verb=True,
        short={
            "o": "output",
            "t": "trace",
            "f": "force-overwrite",
            "s": "sample",
            "w": "show-output",
            "c": "capture-range",
            "x": "stop-on-exit",
            "d": "duration",
            "e": "env-var",
            "y": "delay",
        },
    ),
    "ncu": Grammar(
        rest="command",
        switches=_set("force-overwrite f"),
        short={"o": "export", "k": "kernel-name", "c": "launch-count", "s": "launch-skip"},
    ),
    "catchsegv": _SIMPLE,
    "tini": Grammar(rest="command", switches=_set("s g v w")),
    "dumb-init": Grammar(rest="command", switches=_set("c v single-child verbose")),
    "gosu": Grammar(rest="image-command"),
    "uv": Grammar(
        rest="command",
        verbs=_set("run"),
        needs_verb=True,
        switches=_set("no-sync frozen isolated no-project active locked offline quiet"),
    ),
    "poetry": Grammar(rest="command", verbs=_set("run"), needs_verb=True),
    "pixi": Grammar(rest="command", verbs=_set("run"), needs_verb=True, short={"e": "environment"}),
    "conda": Grammar(
        rest="command",
        verbs=_set("run"),
        needs_verb=True,
        switches=_set("no-capture-output live-stream"),
        short={"n": "name", "p": "prefix"},
    ),
    "mamba": Grammar(
        rest="command",
        verbs=_set("run"),
        needs_verb=True,
        switches=_set("no-capture-output live-stream"),
        short={"n": "name", "p": "prefix"},
    ),
    "timeout": Grammar(
        rest="image-command",
        switches=_set("preserve-status foreground verbose v f p"),
        short={"s": "signal", "k": "kill-after"},
    ),
    "taskset": Grammar(rest="image-command", switches=_set("c cpu-list p pid a all-tasks")),
    "chrt": Grammar(rest="image-command", switches=_set("f r o b i")),
}
"""Grammars by the base name of the program."""

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
REMOTE = frozenset({"ssh", "pdsh", "clush", "mosh"})
"""Programs that pass the words of a command line to a shell on another machine."""
REMOTE_VALUES = frozenset("bcDEeFIiJLlmOopQRSWwfgtux")
"""Letters of options of these programs that take a value."""
PER_TASK = frozenset({
    "SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID", "SLURMD_NODENAME", "SLURM_TASK_PID", "HOSTNAME", "RANK",
    "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMIX_RANK",
    "PMI_LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_NODE_RANK", "JOB_COMPLETION_INDEX",
})  # fmt: skip
"""Variables that differ between the processes or nodes of a job."""
