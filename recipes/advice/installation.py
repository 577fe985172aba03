"""Software to install on a machine for training, and the versions that fit together."""

import datetime
import re
from typing import Literal

from probes.base.errors import UsageError
from probes.base.record import Record, Unknown, quoted
from probes.base.rows import load_rows
from probes.base.versions import at_least, numbers_of
from probes.catalogue.hardware import GpuModel, Vendor
from probes.catalogue.thresholds import Cited
from probes.facts import MachineFacts
from recipes.advice.hardware_plan import Hardware, parts_of_plan, remarks_on
from recipes.advice.power import PowerBudget, power_budget

SCHEMA_VERSION = 1

CONTAINER_GUIDE = (
    "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
)
TOOLKIT_GUIDE = "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/"


class Branch(Cited, kw_only=True):
    """A branch (release series) of NVIDIA's data center drivers."""

    branch: int
    kind: Literal["long-term support", "production", "new feature"]
    end_of_life: str
    """Year and month in which support with fixes ends."""


class Architecture(Cited, kw_only=True):
    """Driver and CUDA versions that a GPU architecture requires."""

    architecture: str
    modules: Literal["open", "proprietary"]
    """Kind of the kernel modules to install."""
    only_open: bool = False
    """True if the proprietary modules do not support the architecture at all."""
    first_branch: int
    last_branch: int | None = None
    cuda_first: str
    cuda_last: str | None = None


class OtherMaker(Cited, kw_only=True):
    """A GPU vendor whose drivers are not in rigtune's tables."""

    vendor: Vendor
    maker: str
    guide: str
    """The address of the vendor's own installation guide."""


class Toolkit(Cited, kw_only=True):
    """A CUDA toolkit with the oldest driver that supports it and the torch releases built with it."""

    cuda: str
    driver: str
    torch: str


class Distribution(Cited, kw_only=True):
    """The commands of a Linux distribution."""

    id: str
    title: str
    """Name that people use."""
    names: tuple[str, ...]
    repository: str
    headers: tuple[str, ...]
    driver_open: tuple[str, ...]
    driver_proprietary: tuple[str, ...]
    fabric_manager: tuple[str, ...]
    subnet_manager: tuple[str, ...]
    imex: tuple[str, ...]
    toolkit: tuple[str, ...]
    container_toolkit: tuple[str, ...]


class Step(Record, kw_only=True):
    """One component to install, or to leave unchanged."""

    title: str
    because: str
    commands: tuple[str, ...] = ()
    """Commands to run as root, in order; empty if there is nothing to do."""
    source: str


class Compatibility(Record, kw_only=True):
    """A CUDA version with the driver and torch that fit it."""

    cuda: str
    oldest_driver: str
    torch: str
    fits: bool
    """True if the chosen driver and these GPUs support this CUDA version."""
    source: str


class InstallationAdvice(Record, kw_only=True):
    """The output of `rigtune advise install --format json`."""

    schema_version: int = SCHEMA_VERSION
    operating_system: str | Unknown
    gpus: str
    """Number and model of the GPUs, as text."""
    steps: tuple[Step, ...]
    compatibility: tuple[Compatibility, ...]
    power: PowerBudget
    remarks: tuple[str, ...]
    """Remarks on slots and on the connections between the GPUs."""


def advise_installation(
    facts: MachineFacts, hardware: Hardware, *, today: datetime.date, supplies_w: float | None = None
) -> InstallationAdvice:
    """Return the steps that install the software for training, with the versions that fit, power and remarks.

    The chosen driver branch gets fixes on the day `today`. Raises UsageError if the distribution is unknown,
    if rigtune has no row for it or for the GPUs' architecture, or if no driver branch for these GPUs gets
    fixes any more.
    """
    architecture = _architecture(hardware.model)
    branch = _branch(architecture, today)
    distribution = _distribution(facts)
    toolkits = load_rows("recipes", "toolkits", Toolkit, file="advice/installation")
    newest = [row for row in toolkits if _allows(row, architecture, branch)][-1]
    steps = [
        _driver_step(facts, architecture, branch, distribution),
        *_fabric_steps(facts, hardware, branch, distribution),
        _toolkit_step(facts, newest, distribution),
        _container_step(facts, distribution),
    ]
    return InstallationAdvice(
        operating_system=facts.software.operating_system,
        gpus=f"{hardware.count} x {hardware.model.title}",
        steps=tuple(steps),
        compatibility=tuple(
            Compatibility(
                cuda=row.cuda,
                oldest_driver=row.driver,
                torch=row.torch,
                fits=_allows(row, architecture, branch),
                source=f"{row.source} ({row.date})",
            )
            for row in toolkits
        ),
        power=power_budget(parts_of_plan(facts, hardware, supplies_w)),
        remarks=remarks_on(facts, hardware),
    )


def _architecture(model: GpuModel) -> Architecture:
    for row in load_rows("recipes", "architectures", Architecture, file="advice/installation"):
        if row.architecture == model.architecture:
            return row
    makers = load_rows("recipes", "other_makers", OtherMaker, file="advice/installation")
    maker = next((row for row in makers if row.vendor == model.vendor), None)
    what = f"{maker.maker}'s {model.architecture} GPUs" if maker else f"the architecture {model.architecture}"
    guide = maker.guide if maker else "its maker's installation guide"
    raise UsageError(f"there is no installation advice for {what}", f"Follow {guide}.")


def _branch(architecture: Architecture, today: datetime.date) -> Branch:
    """Return the best branch that still gets fixes and supports the GPU.

    Long-term support branches have precedence over production branches; among branches of the same kind, the
    branch with the longest support is chosen.
    """
    month = today.strftime("%Y-%m")
    usable = [
        row
        for row in load_rows("recipes", "branches", Branch, file="advice/installation")
        if architecture.first_branch <= row.branch <= (architecture.last_branch or row.branch)
        and row.end_of_life >= month
    ]
    if not usable:
        raise UsageError(
            f"no driver branch that rigtune knows supports {architecture.architecture} GPUs in {month}",
            "The table may be out of date; see docs.nvidia.com/datacenter/tesla/drivers.",
        )
    order = ("long-term support", "production", "new feature")
    return min(usable, key=lambda row: (order.index(row.kind), -int(row.end_of_life.replace("-", ""))))


def _distribution(facts: MachineFacts) -> Distribution:
    name = facts.software.operating_system
    rows = load_rows("recipes", "distributions", Distribution, file="advice/installation")
    if isinstance(name, Unknown):
        raise UsageError(
            f"the distribution is unknown ({name.words})", "State it with --os, such as --os 'Ubuntu 24.04'."
        )
    for row in rows:
        if any(re.fullmatch(pattern, name.strip(), re.IGNORECASE) for pattern in row.names):
            return row
    raise UsageError(
        f"there is no installation advice for {quoted(name)}",
        f"Known: {'; '.join(row.title for row in rows)}. State a similar distribution with --os, such as "
        "--os 'Ubuntu 24.04'.",
    )


def _allows(row: Toolkit, architecture: Architecture, branch: Branch) -> bool:
    major = numbers_of(row.cuda)[:1]
    too_old = not at_least(row.cuda, architecture.cuda_first)
    too_new = architecture.cuda_last is not None and major > numbers_of(architecture.cuda_last)[:1]
    return not too_old and not too_new and numbers_of(row.driver)[:1] <= (branch.branch,)


def _driver_step(
    facts: MachineFacts, architecture: Architecture, branch: Branch, distribution: Distribution
) -> Step:
    life = f"branch {branch.branch} ({branch.kind}, until {branch.end_of_life})"
    only = "; its proprietary modules do not support these GPUs" if architecture.only_open else ""
    because = (
        f"{life} supports {architecture.architecture} GPUs; the {architecture.modules} kernel modules suit "
        f"them{only}"
    )
    source = f"{branch.source}; {architecture.source} ({branch.date})"
    installed = facts.software.driver_version
    if isinstance(installed, str) and numbers_of(installed)[:1] == (branch.branch,):
        return Step(title=f"Driver: keep {installed}", because=f"it belongs to {life}", source=source)
    commands = distribution.driver_open if architecture.modules == "open" else distribution.driver_proprietary
    title = f"Driver: branch {branch.branch}" + (
        f" in place of {installed}" if isinstance(installed, str) else ""
    )
    if distribution.repository:
        because += f". First add NVIDIA's package repository: {distribution.repository}"
    return Step(
        title=title,
        because=because,
        commands=_filled(
            (*distribution.headers, *commands, "systemctl enable --now nvidia-persistenced", "reboot"), branch
        ),
        source=f"{source}; {distribution.source}",
    )


def _fabric_steps(
    facts: MachineFacts, hardware: Hardware, branch: Branch, distribution: Distribution
) -> list[Step]:
    if hardware.model.id.startswith("gb"):  # superchips in a rack
        return [
            Step(
                title="IMEX service",
                because="the GPUs of the rack share memory over NVLink only while IMEX runs on every node; "
                "the Fabric Manager runs in the rack's switches, not here. First write the addresses of all "
                "nodes to IMEX's nodes_config.cfg",
                commands=_filled((*distribution.imex, "systemctl enable --now nvidia-imex"), branch),
                source="NVIDIA IMEX service guide; NVIDIA Fabric Manager user guide (2026-11)",
            )
        ]
    if not hardware.has_switch:
        return []
    # fifth-generation NVLink
    fifth = hardware.model.architecture == "blackwell"
    commands = (*distribution.fabric_manager, *(distribution.subnet_manager if fifth else ()))
    version = facts.software.fabric_manager_version
    running = facts.software.fabric_manager == "active" and (
        isinstance(version, str) and version == facts.software.driver_version
    )
    because = (
        "NVSwitches connect the GPUs: CUDA starts only if the Fabric Manager runs in the driver's version"
    )
    if fifth:
        because += (
            "; on these boards it also needs the NVLink subnet manager, which comes from NVIDIA's package "
            "repository, and the module ib_umad"
        )
    return [
        Step(
            title="Fabric Manager: keep it" if running else "Fabric Manager, in the driver's version",
            because="it runs, and has the same version as the driver" if running else because,
            commands=()
            if running
            else _filled((*commands, "systemctl enable --now nvidia-fabricmanager"), branch),
            source="NVIDIA Fabric Manager user guide (2026-11)",
        )
    ]


def _toolkit_step(facts: MachineFacts, toolkit: Toolkit, distribution: Distribution) -> Step:
    dashed = toolkit.cuda.replace(".", "-")
    installed = facts.software.cuda_toolkit_version
    note = f" (here: {installed})" if isinstance(installed, str) else ""
    return Step(
        title=f"CUDA toolkit {toolkit.cuda}, only to compile extensions{note}",
        because="torch contains its own CUDA libraries; the toolkit is for extensions compiled here, "
        f"such as flash-attn. It comes from NVIDIA's package repository: {TOOLKIT_GUIDE}",
        commands=tuple(command.format(cuda=dashed) for command in distribution.toolkit),
        source=f"{toolkit.source} ({toolkit.date})",
    )


def _container_step(facts: MachineFacts, distribution: Distribution) -> Step:
    version = facts.software.container_toolkit_version
    source = "NVIDIA container toolkit, installation guide (2026-11)"
    if isinstance(version, str):
        return Step(title=f"Container toolkit: keep {version}", because="it is installed", source=source)
    return Step(
        title="Container toolkit, if training runs in containers",
        because="containers need it to use GPUs and driver libraries. It comes from NVIDIA's repository: "
        f"{CONTAINER_GUIDE}",
        commands=(
            *distribution.container_toolkit,
            "nvidia-ctk runtime configure --runtime=docker",
            "systemctl restart docker",
        ),
        source=source,
    )


def _filled(commands: tuple[str, ...], branch: Branch) -> tuple[str, ...]:
    return tuple(command.replace("{branch}", str(branch.branch)) for command in commands)
