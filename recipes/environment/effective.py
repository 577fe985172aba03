"""The merged view of environment variables: which setting wins, and which settings it hides.

The plan's script overrides the environment of the calling process. NCCL reads the environment of the process
first, then `$NCCL_CONF_FILE` (or else `~/.nccl.conf`), then `/etc/nccl.conf`, and a file never replaces a
variable that is set (NVIDIA/nccl, src/misc/param.cc). A plugin sets a variable only if nobody has
set the variable (aws/aws-ofi-nccl, src/platform-aws.cpp).
"""

from collections.abc import Sequence

from probes.base.grouping import grouped
from probes.facts import EnvironmentVariable
from recipes.environment.environment_plan import EffectiveVariable, EnvVar

_PREFIXES = ("NCCL_", "TORCH_NCCL_", "PYTORCH_", "CUDA_", "OMP_", "GLOO_", "FI_", "OFI_", "UCX_", "OMPI_MCA_")
_NOT_A_CHOICE = ("CUDA_HOME", "CUDA_CACHE_PATH")


def effective_view(
    exported: Sequence[EnvVar],
    standing: Sequence[EnvironmentVariable],
    presets: Sequence[EnvVar],
    advised: dict[str, str],
) -> tuple[EffectiveVariable, ...]:
    """Return every variable once, with the setting that wins, sorted by name.

    Variables that only the machine sets are left out unless they belong to a library that training uses.
    `standing` are the settings of the process and of configuration files, the highest priority first.
    The `source` of a preset names the software that sets the variable. `advised` has the values that rigtune
    recommends for variables to which the machine's own setting applies.
    """
    settings = [
        *((variable.name, variable.value, "plan") for variable in exported),
        *((variable.name, variable.value, variable.origin) for variable in standing if _is_shown(variable)),
        *((variable.name, variable.value, variable.source) for variable in presets),
    ]
    by_name = grouped((name, (value, origin)) for name, value, origin in settings)
    return tuple(_merged(name, by_name[name], advised.get(name, "")) for name in sorted(by_name))


def _is_shown(variable: EnvironmentVariable) -> bool:
    return variable.name.startswith(_PREFIXES) and variable.name not in _NOT_A_CHOICE


def _merged(name: str, settings: list[tuple[str, str]], advised: str) -> EffectiveVariable:
    value, origin = settings[0]
    hidden = tuple(f"{owner}: {other}" for other, owner in settings[1:] if other != value)
    return EffectiveVariable(
        name=name,
        value=value,
        origin=origin,
        overridden=hidden,
        advised=advised if advised != value else "",
    )
