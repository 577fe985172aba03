"""Measurements as records: most of the full suite on eight H100s, one of them slow, and one case on a CPU.

The findings on the measurements of the H100s are here too.
"""

from __future__ import annotations

from probes.compare.measurement_judgement import Comparison, Judgement
from probes.facts.measurements import BenchFailure, Measurement, MeasurementSet, Parameter
from probes.judging.findings import Finding, Status


def _gemm() -> list[Measurement]:
    """Return matrix products of two dtypes and two sizes on eight GPUs, of which GPU5 is slow."""
    rates = {("bf16", 4096): 6.4e14, ("bf16", 8192): 7.05e14, ("fp32", 4096): 5.1e13, ("fp32", 8192): 5.2e13}
    return [
        Measurement(
            bench_id="gemm",
            subject=f"GPU{index}",
            metric="gemm_flops_per_s",
            unit="flop/s",
            samples=tuple(rate * (0.82 if index == 5 else 1.0) * factor for factor in (0.99, 1.0, 1.01)),
            parameters={"dtype": dtype, "m": size, "n": size, "k": size},
        )
        for (dtype, size), rate in rates.items()
        for index in range(8)
    ]


def _copies() -> list[Measurement]:
    """Return copies within the memory, and copies to and from the host, for which GPU5 has half the lanes."""
    rates = {"device_to_device": 2.6e12, "host_to_device": 5.4e10, "device_to_host": 5.3e10}
    return [_copy(direction, rate, index) for direction, rate in rates.items() for index in range(8)]


def _copy(direction: str, rate: float, index: int) -> Measurement:
    is_local = direction == "device_to_device"
    reached = rate * (0.5 if index == 5 and not is_local else 1.0)
    to_host: dict[str, Parameter] = {
        "pinned": True,
        "concurrent": False,
        "near": True,
        "numa_node": index // 4,
    }
    return Measurement(
        bench_id="memory-copy" if is_local else "host-device",
        subject=f"GPU{index}",
        metric="memory_bandwidth_bytes_per_s",
        unit="byte/s",
        samples=(reached, reached * 1.01),
        parameters={
            "direction": direction,
            "bytes": 512 * 1024**2,
            **({"operation": "copy"} if is_local else to_host),
        },
    )


def _all_reduce() -> list[Measurement]:
    """Return all-reduce results by size, computed from a latency and 370 GB/s."""
    measurements = []
    for size in (1024 * 4**power for power in range(11)):
        time_s = 3e-5 + 1.75 * size / 370e9
        parameters = {"collective": "all_reduce", "bytes": size, "world_size": 8, "backend": "nccl"}
        for metric, unit, value in (
            ("collective_time_s", "s", time_s),
            ("algorithm_bandwidth_bytes_per_s", "byte/s", size / time_s),
            ("bus_bandwidth_bytes_per_s", "byte/s", 1.75 * size / time_s),
        ):
            samples = tuple(value * factor for factor in (0.98, 1.0, 1.01))
            measurements.append(
                Measurement(
                    bench_id="collectives",
                    subject="8 ranks",
                    metric=metric,
                    unit=unit,
                    samples=samples,
                    parameters=parameters,
                )
            )
    return measurements


def _pairs() -> list[Measurement]:
    return [
        Measurement(
            bench_id="peer-copy",
            subject=f"GPU{min(sender, receiver)}-GPU{max(sender, receiver)}",
            metric="peer_bandwidth_bytes_per_s",
            unit="byte/s",
            samples=(2.1e11 if 3 in (sender, receiver) else 2.8e11,),
            parameters={
                "from": f"GPU{sender}",
                "to": f"GPU{receiver}",
                "bytes": 512 * 1024**2,
                "both_ways": False,
            },
        )
        for sender in range(8)
        for receiver in range(8)
        if sender != receiver
    ]


def _steps() -> list[Measurement]:
    measurements = []
    for micro_batch, rate in ((1, 2.6e5), (4, 3.3e5)):
        parameters = {
            "model": "tinyllama-1.1b",
            "strategy": "ddp",
            "micro_batch": micro_batch,
            "sequence_length": 2048,
        }
        for metric, unit, value in (
            ("step_time_s", "s", 8 * micro_batch * 2048 / rate),
            ("tokens_per_s", "token/s", rate),
            ("peak_memory_bytes", "byte", 2.1e10 + 6e9 * micro_batch),
            ("model_flops_per_s", "flop/s", 1.2e9 * rate),
        ):
            measurements.append(
                Measurement(
                    bench_id="train-step",
                    subject="8 ranks",
                    metric=metric,
                    unit=unit,
                    samples=(value, value * 1.02),
                    parameters={**parameters, "precision": "bf16", "world_size": 8},
                )
            )
    return measurements


def _sustained() -> list[Measurement]:
    """Return sustained rates: GPU5 clocks down as it warms up."""
    return [
        Measurement(
            bench_id="sustained",
            subject=f"GPU{index}",
            metric="gemm_flops_per_s",
            unit="flop/s",
            samples=tuple(rate * clock / 1.98e9 for clock in clocks),
            parameters={"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192},
            series={"sm_clock_hz": clocks, "elapsed_s": tuple(2.0 * step for step in range(len(clocks)))},
        )
        for index in range(8)
        for rate in (7.0e14,)
        for clocks in (
            tuple(1.98e9 - (3.2e7 * min(step, 12) if index == 5 else 1e6 * (step % 3)) for step in range(20)),
        )
    ]


def measured_on_gpus() -> MeasurementSet:
    """Return most of the full suite on H100s, with one failure."""
    return MeasurementSet(
        suite="full",
        started="2026-11-21T14:27:39Z",
        interpreter="/opt/venv/bin/python",
        machine="node-17",
        measurements=(*_gemm(), *_copies(), *_pairs(), *_sustained(), *_all_reduce(), *_steps()),
        failures=(
            BenchFailure(
                bench_id="storage",
                subject="host",
                kind="timeout",
                message="no answer within 60 s",
                log_tail="NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\nNCCL WARN Timeout waiting for mlx5_3\n",
                command="/opt/venv/bin/python -m torch.distributed.run --nproc-per-node 8 -m rigtune_worker "
                "storage",
            ),
        ),
    )


_REFERENCES = {
    "gemm": (7.945e14, "H100 SXM, best bf16 GEMM of a search over shapes (ml-engineering, 2025-06)")
}


def judged_on_gpus() -> Judgement:
    """Return the findings on `measured_on_gpus`."""
    findings = []
    for entry in measured_on_gpus().measurements:
        is_slow = entry.subject == "GPU5" and entry.bench_id in ("gemm", "host-device")
        beside = {
            "bench_id": entry.bench_id,
            "subject": entry.subject,
            "metric": entry.metric,
            "parameters": entry.parameters,
        }
        if entry.bench_id == "gemm" and entry.parameters["dtype"] == "bf16" and entry.parameters["m"] == 8192:
            value, source = _REFERENCES["gemm"]
            share = entry.median / value
            status = Status.FAIL if share < 0.75 else Status.WARN if share < 0.9 else Status.PASS
            findings.append(
                Comparison(**beside, to="reference", value=value, share=share, status=status, source=source)
            )
        if entry.bench_id in ("gemm", "host-device"):
            usual = entry.median / (0.82 if is_slow and entry.bench_id == "gemm" else 0.5 if is_slow else 1.0)
            share = entry.median / usual
            status = Status.WARN if is_slow else Status.PASS
            findings.append(
                Comparison(
                    **beside, to="peers", value=usual, share=share, status=status, source="7 other GPUs"
                )
            )
        if entry.bench_id in ("gemm", "collectives"):
            source = "run of 2026-11-20T21:14:03Z"
            findings.append(
                Comparison(
                    **beside, to="previous", value=entry.median, share=1.0, status=Status.PASS, source=source
                )
            )
    slow_link = Finding(
        check_id="measured-host-device",
        subject="GPU5",
        status=Status.FAIL,
        summary="copies to and from the host at 27 GB/s, half of what PCIe 5 x16 gives; its link has x8",
    )
    slow_product = Finding(
        check_id="measured-compute",
        subject="GPU5",
        status=Status.WARN,
        summary="bf16 GEMM at 578 TFLOP/s, 82 % of the other GPUs; its clock falls from 1980 to 1596 MHz "
        "under load",
    )
    return Judgement(findings=(slow_link, slow_product), comparisons=tuple(findings))


def measured_on_cpu() -> MeasurementSet:
    return MeasurementSet(
        interpreter="/home/ada/project/.venv/bin/python",
        measurements=(
            Measurement(
                bench_id="gemm",
                subject="CPU",
                metric="gemm_flops_per_s",
                unit="flop/s",
                samples=(8.1e10, 8.4e10),
                parameters={"dtype": "fp32"},
            ),
        ),
    )
