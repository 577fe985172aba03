"""Test with arbitrary measurements that no judgement raises an error, and that each problem has a remedy."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.usecases.check import judge_measurements
from probes.base.record import to_json
from probes.bench.benchmark_table import BENCHMARKS
from probes.compare.measurement_judgement import Judgement
from probes.facts.measurements import Baseline, BenchFailure, Measurement, MeasurementSet
from probes.judging.findings import Status
from tests.support.any_facts import any_of
from tests.support.check_case import BOX, NODE, TIMEOUT
from tests.support.machines import h100_node

METRICS = (
    "gemm_flops_per_s", "attention_flops_per_s", "memory_bandwidth_bytes_per_s", "peer_bandwidth_bytes_per_s",
    "bus_bandwidth_bytes_per_s", "collective_time_s", "pair_bandwidth_bytes_per_s",
    "tcp_bandwidth_bytes_per_s", "rank_compute_s", "sustained_fraction", "memory_errors", "read_rate_per_s",
    "batch_rate_per_s", "images_per_s", "model_flops_per_s", "peak_memory_bytes", "step_time_s",
    "recommended_workers",
)  # fmt: skip
UNITS = ("flop/s", "byte/s", "s", "byte", "1", "1/s", "image/s", "")
SUBJECTS = (
    "GPU0",
    "GPU1",
    "GPU2",
    "GPU99",
    "GPU0-GPU1",
    "GPU1-GPU2",
    "rank 0-rank 1",
    "a->b",
    "b->c",
    "8 ranks",
    "CPU rank 0",
    "",
)
NAMES = (
    "dtype", "m", "n", "k", "bytes", "collective", "world_size", "backend", "layers", "nodes", "direction",
    "pass", "head_dim", "sequence_length", "numa_node", "near", "pinned", "concurrent", "num_workers",
    "batch_size", "block_bytes", "pattern",
)  # fmt: skip
VALUES = (
    "bf16",
    "all_reduce",
    "nccl",
    "all",
    "nic",
    "nvlink",
    "forward",
    "host_to_device",
    0,
    1,
    2,
    8,
    8192,
    2**30,
    -5,
    1.5,
    True,
    False,
)
SAMPLES = st.one_of(st.floats(1e-6, 1e15), st.sampled_from((0.0, -1.0, 1e-300, 1e300)))
CONDITIONS = (
    "host_busy",
    "others_cpu_share",
    "throttle_reasons",
    "gpu_shared_with",
    "nccl_version",
    "torch_version",
    "device_name",
)
measurements = st.lists(
    st.builds(
        Measurement,
        bench_id=st.sampled_from([row.id for row in BENCHMARKS]),
        subject=st.sampled_from(SUBJECTS),
        metric=st.sampled_from(METRICS),
        unit=st.sampled_from(UNITS),
        samples=st.lists(SAMPLES, max_size=8).map(tuple),
        parameters=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=8),
        conditions=st.dictionaries(
            st.sampled_from(CONDITIONS), st.sampled_from((*VALUES, "hw_slowdown, x", "2.27")), max_size=4
        ),
        series=st.dictionaries(
            st.sampled_from(("sm_clock_hz", "temperature_c")), st.lists(SAMPLES, max_size=9).map(tuple)
        ),
    ),
    max_size=6,
).map(tuple)
runs = st.builds(
    MeasurementSet, measurements=measurements, failures=st.lists(any_of(BenchFailure), max_size=2).map(tuple)
)
MACHINES = {
    "node": NODE,
    "no GPU": BOX,
    "GPUs unread": h100_node(gpus=TIMEOUT),
    "GPUs alone": h100_node(nics=(), links=(), environment=()),
}


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(runs, runs, st.sampled_from(sorted(MACHINES)))
def test_no_measurement_breaks_a_judgement(
    measured: MeasurementSet, before: MeasurementSet, machine: str
) -> None:
    judgement = judge_measurements(MACHINES[machine], measured, (Baseline(kind="pinned", measured=before),))
    for finding in judgement.findings:
        assert not finding.summary.startswith("the result of the check"), finding.observed
        if finding.status in (Status.WARN, Status.FAIL):
            assert finding.expected
            assert finding.observed
            assert finding.remedy is not None
        if finding.status is Status.PASS:
            assert measured.measurements
    assert msgspec.json.decode(to_json(judgement), type=Judgement).findings == judgement.findings
