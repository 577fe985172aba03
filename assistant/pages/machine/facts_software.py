"""Describe the software: versions, services, plugins, the training interpreter, NCCL variables."""

from assistant.pages.machine.facts_words import (
    Line,
    Part,
    Subject,
    cut,
    first,
    flag,
    joined,
    said,
    subject,
    unknown_subject,
)
from probes.base.grouping import grouped
from probes.base.record import Unknown, known, map_known, value_or
from probes.facts import MachineFacts

_VALUE_WIDTH = 40
_VARIABLES_SHOWN = 8
_EXTRAS = (
    ("gdrcopy_version", "GDRCopy"),
    ("ofed_version", "OFED"),
    ("dcgm_version", "DCGM"),
    ("libfabric_version", "libfabric"),
    ("container_toolkit_version", "container toolkit"),
)
"""Software that many machines do not need; it is shown only if it is installed."""


def sections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    return [
        subject("Software", [_versions(facts), *_libraries(facts, verbose=verbose)]),
        subject("Services", [_services(facts)]),
        _training(facts),
        _variables(facts, verbose=verbose),
    ]


def _versions(facts: MachineFacts) -> Line:
    software = facts.software
    has_driver = software.driver_version is not None
    parts: list[Part] = [
        ("operating system", said(software.operating_system)),
        ("kernel", said(software.kernel, "kernel {}")),
        ("driver", _driver(facts)),
        ("CUDA of the driver", said(software.cuda_driver_version, "up to CUDA {}") if has_driver else ""),
        ("CUDA toolkit", said(software.cuda_toolkit_version, "CUDA toolkit {}", "no CUDA toolkit")),
        ("NCCL", said(software.nccl_version, "NCCL {}", "no system NCCL")),
        ("MPI", said(software.mpi_version, "MPI {}", "no MPI")),
        ("Slurm", said(software.slurm_version, "Slurm {}", "no Slurm")),
        (
            "peermem",
            flag(
                software.peermem_loaded,
                yes="nvidia_peermem loaded",
                no="nvidia_peermem not loaded" if has_driver else "",
            ),
        ),
    ]
    parts += [(title, said(getattr(software, field), title + " {}")) for field, title in _EXTRAS]
    return joined(parts)


def _driver(facts: MachineFacts) -> str | Unknown:
    software = facts.software
    words = said(software.driver_version, "driver {}", "no NVIDIA driver")
    if isinstance(words, Unknown) or software.driver_version is None:
        return words
    library = software.driver_library_version
    if known(software.driver_open_module):
        words += f" ({'open' if software.driver_open_module else 'proprietary'} kernel module)"
    if isinstance(library, str) and library != software.driver_version:
        words += f" with libraries of {library}"
    return words


def _libraries(facts: MachineFacts, *, verbose: bool) -> list[Line]:
    """Return the NCCL plugins, and the NCCL libraries that the loader finds.

    A single library is left out unless `verbose` is set.
    """
    software = facts.software
    plugins, libraries = value_or(software.nccl_plugins, ()), value_or(software.nccl_libraries, ())
    names = [path.rpartition("/")[2] or path for path in plugins]
    lines = [Line(f"NCCL plugins: {', '.join(first(names, 4))}")] * bool(names)
    if len(libraries) > 1 or (verbose and libraries):
        words = [
            f"{each.path} ({value_or(each.version, '?')}{', ' * bool(each.found_by)}{each.found_by})"
            for each in libraries
        ]
        lines.append(Line(f"libnccl, the first is used: {', '.join(first(words, 4))}"))
    return lines


def _services(facts: MachineFacts) -> Line:
    """Return the units by state, active units last."""
    services = facts.software.services
    if isinstance(services, Unknown):
        return Line("", (("", services),))
    states = grouped(
        (service.value, service.name.removesuffix(".service"))
        for service in sorted(services, key=lambda service: service.value == "active")
    )
    text = "; ".join(f"{state}: {', '.join(names)}" for state, names in states.items())
    return Line(text, (), "caution" if "failed" in states else "")


def _training(facts: MachineFacts) -> Subject:
    training = facts.training
    if training.path is None:
        return subject("Training", [Line("no Python interpreter with torch was found", (), "caution")])
    by = f" ({training.found_by})" if training.found_by else ""
    has_torch = training.torch_version is not None
    line = joined(
        (
            ("interpreter", map_known(training.path, lambda path: path + by)),
            ("Python", said(training.python_version, "Python {}")),
            ("torch", said(training.torch_version, "torch {}", "no torch")),
            (
                "CUDA of torch",
                said(training.torch_cuda_version, "CUDA {}", "without CUDA") if has_torch else "",
            ),
            ("NCCL of torch", said(training.nccl_version, "NCCL {}", "without NCCL") if has_torch else ""),
        )
    )
    # If the path is unknown, the reason of the Unknown states why interpreters were refused.
    refused = value_or(training.refused, ()) if known(training.path) else ()
    return subject("Training", [line, *(Line(sentence, (), "caution") for sentence in refused)])


def _variables(facts: MachineFacts, *, verbose: bool) -> Subject:
    """Return the variables by their origin."""
    variables = facts.environment
    if isinstance(variables, Unknown):
        return unknown_subject("Variables", variables)
    origins = grouped(
        (
            variable.origin,
            f"{variable.name}={variable.value if verbose else cut(variable.value, _VALUE_WIDTH)}"
            + ("" if variable.is_effective else " (not effective)"),
        )
        for variable in variables
    )
    return subject(
        "Variables",
        [
            f"{origin}: {', '.join(settings if verbose else first(settings, _VARIABLES_SHOWN))}"
            for origin, settings in origins.items()
        ],
    )
