"""The launchers to which a recipe can be exported. To add a launcher, write its file and a row here."""

from probes.base.table_rows import Row
from recipes.launch.program_files import Processes


class LauncherRow(Row, kw_only=True):
    """One launcher; its module has two pure functions.

    - `render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]` returns the launcher's own files
      of the export folder; the first file starts the job.
    - `start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]` returns the command
      that starts them from the absolute path of that folder, with extra arguments for the program.

    Both raise UsageError if the recipe cannot be exported to this launcher.
    """

    starts: tuple[Processes, ...] = ("rank",)
    """Kinds of programs that the launcher can start."""
    software: str = ""
    """Python module that every program of the launcher uses; empty if the launcher starts any program."""
    needs: tuple[str, ...] = ()
    """Slots without which the launcher cannot write its files."""
    has_one_node: bool = False
    """True if the launcher starts jobs of one node only."""
    enters_images: bool = False
    """True if the script starts its processes in any container image; other scripts do so only with .sif."""
    batch_system: str = ""
    """Batch system that the launcher needs, as a value of `Scheduler.kind`; empty if it needs none."""
    asks_address: bool = False
    """True if several nodes without host names need MASTER_ADDR, unless MPI lets the ranks meet."""
    is_usual: bool = False
    """True if `auto` writes its files when the user names no launcher."""


LAUNCHERS: tuple[LauncherRow, ...] = (
    LauncherRow(
        id="torchrun",
        is_usual=True,
        title="torchrun on one or several nodes",
        module="recipes.launch.launchers.torchrun",
        starts=("rank", "node", "job"),
    ),
    LauncherRow(
        id="torchrun-elastic",
        title="torchrun with restarts, for nodes that may fail and come back",
        module="recipes.launch.launchers.torchrun_elastic",
    ),
    LauncherRow(
        id="slurm",
        is_usual=True,
        title="Slurm, one torchrun per node",
        module="recipes.launch.launchers.slurm",
        batch_system="slurm",
        enters_images=True,
        starts=("rank", "node", "job"),
    ),
    LauncherRow(
        id="slurm-ranks",
        title="Slurm, one task per rank without torchrun",
        module="recipes.launch.launchers.slurm_ranks",
        batch_system="slurm",
        enters_images=True,
        starts=("rank", "task"),
    ),
    LauncherRow(
        id="accelerate",
        title="accelerate launch on one or several nodes",
        module="recipes.launch.launchers.accelerate",
    ),
    LauncherRow(
        id="deepspeed",
        title="DeepSpeed's launcher on one or several nodes",
        module="recipes.launch.launchers.deepspeed",
    ),
    LauncherRow(
        id="mpi",
        is_usual=True,
        title="mpirun of Open MPI, MPICH or Intel MPI",
        module="recipes.launch.launchers.mpi",
        asks_address=True,
        starts=("rank", "task"),
    ),
    LauncherRow(
        id="horovodrun",
        title="horovodrun, for Horovod on one or several nodes",
        module="recipes.launch.launchers.horovodrun",
        starts=("task",),
        software="horovod",
    ),
    LauncherRow(
        id="ray",
        title="a Ray cluster of the job's own, over ssh or in a Slurm allocation",
        module="recipes.launch.launchers.ray",
        starts=("job",),
        software="ray",
    ),
    LauncherRow(
        id="kubernetes-job",
        title="Kubernetes, an indexed Job",
        module="recipes.launch.launchers.kubernetes_job",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="pytorchjob",
        title="Kubernetes, PyTorchJob of Kubeflow's training operator",
        module="recipes.launch.launchers.pytorchjob",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="trainjob",
        title="Kubernetes, TrainJob of Kubeflow's Trainer 2",
        module="recipes.launch.launchers.trainjob",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="jobset",
        title="Kubernetes, JobSet",
        module="recipes.launch.launchers.jobset",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="mpijob",
        title="Kubernetes, MPIJob of Kubeflow's MPI operator",
        module="recipes.launch.launchers.mpijob",
        starts=("rank", "task"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="docker",
        title="Docker, a container per node",
        module="recipes.launch.launchers.docker",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="podman",
        title="Podman, a container per node",
        module="recipes.launch.launchers.podman",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="compose",
        title="Docker compose, a service per node",
        module="recipes.launch.launchers.compose",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="lxd",
        title="LXD, a profile and a container on one node",
        module="recipes.launch.launchers.lxd",
        has_one_node=True,
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="skypilot",
        title="SkyPilot, a task for any cloud",
        module="recipes.launch.launchers.skypilot",
        starts=("rank", "node"),
        needs=("container_image",),
    ),
    LauncherRow(
        id="sagemaker",
        title="SageMaker, version 3 of its SDK",
        module="recipes.launch.launchers.sagemaker",
        starts=("rank", "node"),
        needs=("container_image", "role", "instance_type"),
    ),
)
