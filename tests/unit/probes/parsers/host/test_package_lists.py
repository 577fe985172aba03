"""Lists of installed software: loader cache, packages, units, modules, and mentioned versions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.parsers.host import package_lists, version_outputs
from probes.parsers.host.package_lists import (
    library_version,
    parse_efa_packages,
    parse_imex,
    parse_ld_cache,
    parse_mentioned,
    parse_packages,
    parse_units,
)

LSMOD = """Module                  Size  Used by
nvidia_uvm           1515520  4
nvidia-drm  77824 0
ib_core  434176 9 rdma_cm,ib_uverbs
"""
CACHE = (
    b"ld.so-1.7.0\0glibc-ld.so.cache1.1\0\1libnccl.so.2\0/usr/lib/libnccl.so.2\0/lib/libm.so.6\0"
    b"/opt/x/libnccl-net.so\0"
)


def test_libraries_in_the_loaders_cache() -> None:
    assert parse_ld_cache(CACHE, "libnccl") == ("/usr/lib/libnccl.so.2", "/opt/x/libnccl-net.so")
    assert parse_ld_cache(b"", "libnccl") == ()
    assert library_version("/usr/lib/libdcgm.so.4.2.3") == "4.2.3"
    assert isinstance(library_version("/usr/lib/libx.so"), Unknown)


def test_packages_and_units() -> None:
    assert parse_packages("libnccl2 2.26.2-1+cuda12.8\npackage gdrcopy is not installed\n") == {
        "libnccl2": "2.26.2-1+cuda12.8"
    }
    text = (
        "Id=munge.service\nLoadState=loaded\nActiveState=failed\n\nId=x.service\nLoadState=not-found\n"
        "ActiveState=inactive\n"
    )
    assert parse_units(text) == {"munge": "failed"}


def test_imex_and_efa() -> None:
    assert parse_imex("Nodes From\\To  0\nDomain State: UP\n") == "UP"
    assert isinstance(parse_imex("connection refused"), Unknown)
    assert (
        parse_efa_packages("# EFA installer version: 1.34.0\nlibfabric-aws-1.22.0amzn4.0-1.el7.x86_64\n")
        == "1.22.0amzn4.0"
    )


def test_modules() -> None:
    assert package_lists.recognise_lsmod(LSMOD)
    assert package_lists.is_whole(LSMOD)
    part = "mlx5_ib   458752  0\nib_core   356352  8 rdma_cm,mlx5_ib\n"
    assert package_lists.recognise_lsmod(part)
    assert not package_lists.is_whole(part)
    assert not package_lists.recognise_lsmod("Module\nnothing")
    assert package_lists.parse_lsmod(LSMOD) == ("nvidia_uvm", "nvidia_drm", "ib_core")
    assert package_lists.parse_lsmod("efa 40960 1 - Live 0x0000000000000000\n") == ("efa",)


def test_the_module_of_the_driver() -> None:
    text = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12\n"
    )
    assert version_outputs.recognise_driver(text)
    assert not version_outputs.recognise_driver(f"[ 7.1] {text}")
    module = version_outputs.parse_driver_module(text)
    assert not isinstance(module, Unknown)
    assert (module.version, module.is_open) == ("570.86.15", True)


def test_versions_that_texts_mention() -> None:
    smi = parse_mentioned(
        "Driver Version                            : 570.86.15\n"
        "CUDA Version                              : 12.8\n"
    )
    assert (smi.driver, smi.cuda, smi.library) == ("570.86.15", "12.8", None)
    assert (
        parse_mentioned("Failed to initialize NVML: mismatch\nNVML library version: 580.1\n").library
        == "580.1"
    )
    log = parse_mentioned(
        "[    0.0] Linux version 6.8.0-45-generic (b@x) #45\n"
        "[    9.0] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n"
    )
    assert (log.driver, log.driver_open, log.kernel) == ("560.35.03", True, "6.8.0-45-generic")


@given(
    st.one_of(st.text(), st.text(alphabet="Module Size\nnvidia0123.=:IdActiveState-", max_size=300)),
    st.binary(max_size=200),
)
def test_nothing_breaks_and_nothing_is_invented(text: str, data: bytes) -> None:
    package_lists.recognise_lsmod(text)
    version_outputs.recognise_driver(text)
    version_outputs.parse_driver_module(text)
    assert all(name.replace("_", "-") in text.replace("_", "-") for name in package_lists.parse_lsmod(text))
    assert all(name in text for name in parse_packages(text))
    parse_units(text)
    parse_imex(text)
    parse_efa_packages(text)
    versions = parse_mentioned(text)
    assert all(
        value is None or value in text
        for value in (versions.driver, versions.cuda, versions.library, versions.kernel)
    )
    parse_ld_cache(data, "libnccl")
    library_version(text)
