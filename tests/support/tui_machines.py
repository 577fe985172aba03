"""Three machines as records: a server with faults, a machine without a GPU, and an unknown machine."""

from __future__ import annotations

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.base.units import GIB
from probes.facts import (
    Container,
    Cpu,
    Gpu,
    GpuProcess,
    Interface,
    Limits,
    Link,
    MachineFacts,
    Memory,
    Nic,
    NumaNode,
    NvLink,
    PcieLink,
    Scheduler,
    Software,
    TrainingPython,
)
from probes.judging.findings import Finding, Remedy, Status
from probes.judging.verdict import Verdict, judge

H100 = "NVIDIA H100 80GB HBM3"


def faulty_server(gpu_count: int = 8) -> MachineFacts:
    """Return a server of H100s with faults.

    The PCIe link of GPU5 has 8 lanes, GPU2 has no persistence mode, GPU6 is busy, and mlx5_3 is down.
    """
    gpus = tuple(
        Gpu(
            index=index,
            name=H100,
            memory_bytes=80 * 1024**3,
            memory_used_bytes=0,
            pci_bus_id=f"0000:{index + 27:02x}:00.0",
            driver_version="570.133.20",
            compute_capability="9.0",
            pcie=PcieLink(generation=5, generation_max=5, width=8 if index == 5 else 16, width_max=16),
            numa_node=index // (gpu_count // 2),
            nvlinks=tuple(NvLink(index=port, active=True, remote="switch") for port in range(18)),
            persistence_mode=index != 2,
            temperature_c=33 + index % 4,
            power_w=71.0 + index,
            power_limit_w=700.0,
            utilization_percent=97 if index == 6 else 0,
            processes=(GpuProcess(pid=4242, name="/opt/venv/bin/python3", memory_bytes=21 * GIB),)
            if index == 6
            else (),
        )
        for index in range(gpu_count)
    )
    nics = tuple(
        Nic(
            name=f"mlx5_{index}",
            link_layer="InfiniBand",
            state="DOWN" if index == 3 else "ACTIVE",
            physical_state="Polling" if index == 3 else "LinkUp",
            rate_gbps=400.0,
            numa_node=index // 4,
        )
        for index in range(8)
    )
    pairs = [(a, b) for a in range(gpu_count) for b in range(a + 1, gpu_count)]
    return MachineFacts(
        hostname="node-17",
        source="live",
        gpus=gpus,
        nics=nics,
        links=tuple(Link(a=f"GPU{a}", b=f"GPU{b}", kind="NVLINK", nvlink_count=18) for a, b in pairs),
        interfaces=(
            Interface(name="eth0", up=True, speed_gbps=100.0, mtu=9000, is_virtual=False),
            Interface(name="docker0", up=True, is_virtual=True),
        ),
        cpu=Cpu(
            model="Intel(R) Xeon(R) Platinum 8480C",
            sockets=2,
            physical_cores=112,
            logical_cpus=224,
            allowed_cpus=224,
        ),
        numa_nodes=(NumaNode(index=0), NumaNode(index=1)),
        memory=Memory(total_bytes=2048 * GIB, available_bytes=1900 * GIB, limit_bytes=None),
        limits=Limits(memlock_bytes=65536, nofile=1024, stack_bytes=8 * 1024**2, shm_bytes=1024 * GIB),
        software=Software(
            operating_system="Ubuntu 22.04.5 LTS",
            kernel="5.15.0-1074-nvidia",
            driver_version="570.133.20",
            cuda_driver_version="12.8",
            cuda_toolkit_version=None,
            nccl_version=None,
            mpi_version="Open MPI 4.1.7",
            slurm_version="23.11.10",
            fabric_manager="active",
            peermem_loaded=True,
        ),
        training=TrainingPython(
            path="/opt/venv/bin/python",
            found_by="VIRTUAL_ENV",
            python_version="3.11.9",
            torch_version="2.9.0",
            torch_cuda_version="12.8",
            nccl_version="2.27.5",
        ),
        container=Container(runtime=None, virtualization=None),
        scheduler=Scheduler(kind="slurm", job_id="90210", node_count=4),
    )


def cpu_box(*, torch_version: str | None = "2.9.0") -> MachineFacts:
    """Return a virtual machine with two cores and no GPU."""
    return MachineFacts(
        hostname="devbox",
        source="live",
        gpus=(),
        pci_gpus=(),
        nics=(),
        links=(),
        interfaces=(Interface(name="eth0", up=True, speed_gbps=10.0, is_virtual=False),),
        cpu=Cpu(model="AMD EPYC 7B13", sockets=1, physical_cores=1, logical_cpus=2, allowed_cpus=2),
        numa_nodes=(NumaNode(index=0),),
        memory=Memory(total_bytes=8 * GIB, available_bytes=6 * GIB, limit_bytes=4 * GIB),
        limits=Limits(
            memlock_bytes="unlimited", nofile=1048576, stack_bytes=8 * 1024**2, shm_bytes=64 * 1024**2
        ),
        software=Software(
            operating_system="Debian GNU/Linux 12 (bookworm)",
            kernel="6.1.0",
            driver_version=None,
            cuda_toolkit_version=None,
            nccl_version=None,
            mpi_version=None,
            slurm_version=None,
            fabric_manager=None,
        ),
        training=TrainingPython(
            path=None if torch_version is None else "/home/ada/project/.venv/bin/python",
            found_by="./.venv",
            python_version="3.11.9",
            torch_version=torch_version,
            torch_cuda_version=None,
            nccl_version=None,
        ),
        container=Container(runtime="docker", virtualization="kvm"),
        scheduler=Scheduler(kind=None, job_id=None),
    )


def unknown_machine() -> MachineFacts:
    """Return a machine of which nothing could be read."""
    return MachineFacts(source="recording empty.json")


SEE = (EvidenceRef(source="file", key="/sys/class/infiniband/mlx5_3/ports/1/state", detail="1: DOWN"),)


def faulty_verdict() -> Verdict:
    """Return a verdict with two failures, three warnings, one unknown result, eight passes and one skip."""
    findings = [
        Finding(
            check_id="pcie-link",
            subject="GPU5",
            status=Status.FAIL,
            summary="PCIe link is x8, the slot allows x16",
            expected="Gen5 x16",
            observed="Gen5 x8",
            why="Half the lanes halve the copies between host and GPU: data loading, offload and "
            "checkpoints suffer.",
            remedy=Remedy(
                text="Reseat the GPU or its riser, then look at the link again.",
                command="nvidia-smi -q -d PCIE -i 5",
            ),
            evidence=(EvidenceRef(source="nvml", key="nvmlDeviceGetCurrPcieLinkWidth(5)", detail="8"),),
        ),
        Finding(
            check_id="nic-state",
            subject="mlx5_3",
            status=Status.FAIL,
            summary="port 1 is DOWN (Polling)",
            expected="ACTIVE",
            observed="DOWN, physical state Polling",
            why="A rail without link makes every all-reduce across nodes wait for the remaining ones.",
            remedy=Remedy(
                text="Check cable and switch port, then the subnet manager.",
                command="ibstat mlx5_3",
                needs_root=True,
            ),
            evidence=SEE,
        ),
        Finding(
            check_id="persistence-mode",
            subject="GPU2",
            status=Status.WARN,
            summary="persistence mode is off",
            expected="on",
            observed="off",
            why="Without it the driver unloads between jobs.",
            remedy=Remedy(text="Switch it on.", command="sudo nvidia-smi -i 2 -pm 1", needs_root=True),
        ),
        Finding(
            check_id="memlock",
            subject="host",
            status=Status.WARN,
            summary="locked memory is limited to 64 KiB",
            expected="unlimited",
            observed="64 KiB",
            remedy=Remedy(text="Raise it in /etc/security/limits.d and log in again."),
        ),
        Finding(
            check_id="nofile",
            subject="host",
            status=Status.WARN,
            summary="1024 open files are few",
            expected="65536",
            observed="1024",
            remedy=Remedy(text="ulimit -n 65536", command="ulimit -n 65536"),
        ),
        Finding(
            check_id="fabric-manager",
            subject="host",
            status=Status.UNKNOWN,
            summary="the state of the fabric manager could not be read",
            observed="unknown (permission)",
        ),
    ]
    findings += [
        Finding(
            check_id="ecc-uncorrected",
            subject=f"GPU{index}",
            status=Status.PASS,
            summary="no uncorrected errors",
        )
        for index in range(8)
    ]
    findings.append(
        Finding(check_id="mig-mode", subject="host", status=Status.SKIP, summary="MIG is not in use")
    )
    return judge(findings, (), hostname="node-17", source="live")


def clean_verdict() -> Verdict:
    """Return the verdict of a CPU box on which everything that applies has passed."""
    findings = [
        Finding(check_id="nofile", subject="host", status=Status.PASS, summary="1048576 open files"),
        Finding(check_id="memlock", subject="host", status=Status.PASS, summary="locked memory is unlimited"),
        Finding(
            check_id="shm-size", subject="host", status=Status.PASS, summary="shared memory holds 64 MiB"
        ),
        Finding(check_id="pcie-link", subject="host", status=Status.SKIP, summary="there is no GPU"),
    ]
    return judge(findings, (), hostname="devbox", source="live")


def many_findings(number: int) -> Verdict:
    """Return a verdict of many findings whose texts look like those of hostile files."""
    findings = [
        Finding(
            check_id=f"check-{index}",
            subject=f"GPU{index}" if index % 3 else "a subject with a very long name indeed",
            status=(Status.FAIL, Status.WARN, Status.PASS)[index % 3],
            summary=f"finding number {index} [bold]not markup[/] \x1b[31mnot red\x1b[0m "
            + "and very many words " * 5,
            remedy=Remedy(text="one", command=f"echo {index}"),
        )
        for index in range(number)
    ]
    return judge(findings, (), hostname="node-17", source="live")


NOTHING = Unknown(Reason.TOOL_MISSING, "libnvidia-ml.so.1 was not found")
