"""No plan for the machines of these tests exports a variable that is one of 40 known mistakes.

Each test has the number of its mistake. Mistakes that no variable can express (firewalls, limits, container
options ...) have no test here.
"""

from __future__ import annotations

import re

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.record import Unknown, items_of, value_or
from probes.base.versions import at_least
from probes.catalogue.nccl_variables import load_variables, misread
from probes.facts import MachineFacts
from probes.judging.rails import NOT_A_NETWORK, candidate_interfaces, default_interface, training_ports
from recipes.environment.choosing_variables import environment_of
from recipes.environment.environment_rows import load_platforms, load_rules
from recipes.environment.job_situation import Situation
from recipes.job.models.names import find_model
from tests.support.any_facts import any_of
from tests.support.clusters import case, h100_cluster, predicted_memory
from tests.support.worlds import World, worlds

ROWS = {
    **{f"{rule.variable} {number}": rule for number, rule in enumerate(load_rules())},
    **{f"{row.id} {rule.variable} {rule.value}": rule for row in load_platforms() for rule in row.rules},
}
EXPORTED_ROWS = {
    name: rule for name, rule in ROWS.items() if rule.tier != "experiment" and not rule.preset_by
}


def exporting(*names: str) -> list[tuple[World, str, str]]:
    """Return every job that exports one of the variables, with name and value."""
    return [
        (job, name, job.variables[name].value) for job in worlds() for name in names if name in job.variables
    ]


def never(*names: str) -> None:
    """Require that no job and no row exports the variables."""
    assert exporting(*names) == []
    assert not {rule.variable for rule in EXPORTED_ROWS.values()} & set(names)


def names_of(value: str) -> list[str]:
    return value.lstrip("=").split(",")


def documented(job: World, name: str) -> bool:
    """Return whether the platform of the job documents the variable."""
    platform = next((row for row in load_platforms() if row.id == job.plan.platform), None)
    return platform is not None and any(rule.variable == name for rule in platform.rules)


def test_mistake_01_ambiguous_control_interface():
    jobs = exporting("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
    assert jobs
    for job, _, value in jobs:
        present = {each.name for each in items_of(job.facts.interfaces)}
        assert set(names_of(value)) <= present
        assert not any(name.startswith(NOT_A_NETWORK) for name in names_of(value))
    ambiguous = [
        job
        for job in worlds()
        if job.cluster.nodes > 1
        and job.cluster.device == "cuda"
        and len(items_of(candidate_interfaces(job.facts))) > 1
        and default_interface(job.facts) is not None
    ]
    assert ambiguous
    for job in ambiguous:
        shown = {row.name for row in job.plan.effective}
        assert "NCCL_SOCKET_IFNAME" in shown, job.name


def test_mistake_02_exclusion_syntax_for_gloo():
    jobs = exporting("GLOO_SOCKET_IFNAME")
    assert jobs
    assert all(not re.search(r"[\^=,]", value) for _, _, value in jobs)


def test_mistake_03_host_name_on_the_loopback():
    facts = worlds()[0].facts
    looped = msgspec.structs.replace(
        facts, naming=msgspec.structs.replace(facts.naming, addresses=("127.0.1.1",))
    )
    exported, _ = environment_of(msgspec.structs.replace(worlds()[1].situation, facts=looped))
    assert {variable.name: variable.value for variable in exported}["GLOO_SOCKET_IFNAME"] == "ens32"
    for job, _, value in exporting("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        assert "lo" not in names_of(value), job.name


def test_mistake_05_a_name_that_another_node_may_lack():
    """A plan is for equal machines, so each named interface must exist on the machine of the job."""
    for job, _, value in exporting("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        present = {each.name for each in items_of(job.facts.interfaces)}
        assert present.issuperset(names_of(value)), job.name


def test_mistake_06_an_interface_beside_the_route_of_the_kernel():
    for job, name, value in exporting("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        default = default_interface(job.facts)
        assert documented(job, name) or (default is not None and names_of(value) == [default.name]), job.name


def test_mistake_07_a_constant_port():
    never("MASTER_PORT", "NCCL_COMM_ID")


def test_mistake_09_10_variables_of_slurm():
    never("SLURM_PROCID", "SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK")


def test_mistake_11_visible_devices_per_rank():
    never("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_GPU_BIND")


def test_mistake_12_13_14_15_addresses_and_ranks():
    never("MASTER_ADDR", "NODE_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE")


def test_mistake_19_silent_fallback_to_tcp():
    for job, _, value in exporting("NCCL_NET"):
        assert value.lower() != "socket"
        assert documented(job, "NCCL_NET") or value == job.facts.software.nccl_network, job.name
    for job, _, value in exporting("NCCL_NET_PLUGIN"):
        assert documented(job, "NCCL_NET_PLUGIN"), (job.name, value)


def test_mistake_19_a_network_that_a_job_has_used_is_pinned():
    job = next(job for job in worlds() if job.name == "bare-dgx, 2 nodes")

    def pinned(network: str) -> str | None:
        software = msgspec.structs.replace(job.facts.software, nccl_network=network)
        facts = msgspec.structs.replace(job.facts, software=software)
        exported, _ = environment_of(msgspec.structs.replace(job.situation, facts=facts))
        return next((variable.value for variable in exported if variable.name == "NCCL_NET"), None)

    assert (pinned("IB"), pinned("Socket"), job.values.get("NCCL_NET")) == ("IB", None, None)


def test_mistake_21_another_nccl_library():
    never("LD_PRELOAD", "LD_LIBRARY_PATH")


def test_mistake_22_dma_buf_or_gpudirect_turned_off():
    never("NCCL_DMABUF_ENABLE", "NCCL_NET_GDR_READ")


def test_mistake_23_distance_of_gpudirect_forced():
    for job, name, _ in exporting("NCCL_NET_GDR_LEVEL", "NCCL_TOPO_FILE", "NCCL_P2P_LEVEL"):
        assert documented(job, name), job.name


def test_mistake_24_peer_access_turned_off_on_bare_metal():
    never("NCCL_P2P_DIRECT_DISABLE", "NCCL_SHM_LOCALITY", "NCCL_IGNORE_DISABLED_P2P")


def test_mistake_25_peer_access_of_rtx_40_with_an_old_driver():
    old = {job.name: job.values.get("NCCL_P2P_DISABLE") for job in worlds() if job.name.startswith("rtx 40,")}
    assert old["rtx 40, 1 nodes"] == "1"
    assert old["rtx 40, new driver, 1 nodes"] is None


def test_mistake_26_p2p_or_ib_left_disabled():
    never("NCCL_IB_DISABLE")
    for job, name, value in exporting("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"):
        is_broken_board = "RTX 40" in str(value_or(items_of(job.facts.gpus)[0].name, ""))
        assert value == "0" or (name == "NCCL_P2P_DISABLE" and is_broken_board), job.name
        assert value == "0" or job.variables[name].tier == "workaround"
        assert value == "0" or job.variables[name].expires


def test_mistake_27_ports_of_different_kinds():
    jobs = exporting("NCCL_IB_HCA")
    assert jobs
    for job, _, value in jobs:
        ports = {f"{port.name}:{port.port}": port for port in items_of(training_ports(job.facts))}
        assert set(names_of(value)) == set(ports), job.name
        assert len({(port.link_layer, port.rate_gbps) for port in ports.values()}) == 1


def test_mistake_27_a_storage_port_is_left_out():
    job = next(job for job in worlds() if job.name == "storage port, 2 nodes")
    assert job.values["NCCL_IB_HCA"] == "=" + ",".join(f"mlx5_{n}:1" for n in range(8))


def test_mistake_28_a_prefix_instead_of_a_name():
    names = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
    for job, name, value in exporting(*names):
        assert value.startswith("="), (job.name, name, value)
    for title, rule in EXPORTED_ROWS.items():
        assert rule.variable not in names or rule.value.startswith("="), title


def test_mistake_29_a_fixed_gid_index():
    jobs = exporting("NCCL_IB_GID_INDEX")
    assert jobs
    for job, _, value in jobs:
        is_old = job.situation.nccl is not None and at_least(job.situation.nccl, "2.21") is False
        of_ports = {
            gid.index
            for port in items_of(training_ports(job.facts))
            for gid in items_of(port.gids)
            if gid.kind == "RoCE v2"
        }
        assert documented(job, "NCCL_IB_GID_INDEX") or (is_old and of_ports == {int(value)}), job.name


def test_mistake_30_a_traffic_class_of_another_network():
    for job, name, _ in exporting("NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_FIFO_TC"):
        assert documented(job, name), job.name
        assert job.cluster.transport == "roce", job.name


def test_mistake_31_rails_crossed():
    for job, _, value in exporting("NCCL_CROSS_NIC"):
        assert (value, documented(job, "NCCL_CROSS_NIC")) == ("0", True), job.name


def test_mistake_32_nvlink_sharp_forced_over_a_faulty_fabric():
    for job, _, _ in exporting("NCCL_NVLS_ENABLE"):
        assert documented(job, "NCCL_NVLS_ENABLE"), job.name


def test_mistake_33_nvlink_between_nodes_without_imex():
    jobs = exporting("NCCL_MNNVL_ENABLE")
    assert jobs
    for job, _, _ in jobs:
        assert "gb" in job.cluster.gpu
        assert isinstance(job.facts.software.imex, Unknown) or job.facts.software.imex == "UP"
    for name in ("aws-p6e", "oci-gb200", "coreweave-gb200", "gcp-a4x", "bare-nvl72"):
        job = next(job for job in worlds() if job.name == f"{name}, 2 nodes")
        for state in (None, "DOWN", "DEGRADED"):
            software = msgspec.structs.replace(job.facts.software, imex=state)
            facts = msgspec.structs.replace(job.facts, software=software)
            exported, _ = environment_of(msgspec.structs.replace(job.situation, facts=facts))
            assert "NCCL_MNNVL_ENABLE" not in {variable.name for variable in exported}


def test_mistake_35_watchdogs_turned_off():
    never(
        "TORCH_NCCL_ENABLE_MONITORING",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "NCCL_RAS_ENABLE",
    )


def test_mistake_36_one_connection_for_fsdp_or_blackwell():
    jobs = exporting("CUDA_DEVICE_MAX_CONNECTIONS")
    assert {job.situation.program for job, _, _ in jobs} == {"megatron"}
    for job, _, value in jobs:
        assert value == "1"
        assert (job.situation.sharding, job.cluster.architecture) == ("none", job.cluster.architecture)
        assert job.cluster.architecture in ("volta", "ampere", "ada", "hopper"), job.name


FORCED = {
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NCHANNELS_PER_NET_PEER",
}  # fmt: skip


def test_mistake_37_choices_of_nccl_forced():
    for job, name, _ in exporting(*sorted(FORCED)):
        assert job.plan.platform in ("gcp-a3-high", "gcp-a3-mega"), (job.name, name)
    forcing = {row.name for row in load_variables().variables if row.use == "forcing"} - FORCED
    for job, name, _ in exporting(*sorted(forcing)):
        assert documented(job, name), (job.name, name)


def test_mistake_37_the_tuner_of_a_platform_stays():
    for job in worlds():
        if job.plan.platform.startswith("aws"):
            assert not FORCED & job.variables.keys(), job.name
            assert "NCCL_TUNER_PLUGIN" not in job.variables


def test_mistake_38_slices_of_a_gpu():
    never("NCCL_MULTI_RANK_GPU_ENABLE")


def test_mistake_39_a_proxy_between_ranks():
    never("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "grpc_proxy")


def test_mistake_40_stacks_and_limits():
    never("NCCL_SET_STACK_SIZE", "NCCL_SET_CPU_STACK_SIZE")


NOT_OF_NCCL = re.compile(
    r"NCCL_(FASTRAK|GPUDIRECTTCPX|TUNER_CONFIG|SHIMNET)_|OFI_|FI_|UCX_|(IB_)?RX_QUEUE_LEN|OMPI_|PMIX_|OMP_|GLOO_|"
    r"PYTORCH_(CUDA_)?ALLOC_CONF|CUDA_DEVICE_ORDER"
)
"""Variables that plugins, libfabric, UCX, MPI, OpenMP, torch and CUDA read."""


def test_no_dead_or_unknown_name_is_written():
    for title, rule in ROWS.items():
        row = load_variables().find(rule.variable)
        is_known = row is not None or NOT_OF_NCCL.match(rule.variable)
        assert is_known, title
        assert row is None or row.use != "dead", title


def test_no_value_is_misread():
    for job in worlds():
        check_syntax(job.values)


def test_exported_variables_do_not_conflict_and_state_why():
    for job in worlds():
        for variable in job.variables.values():
            others = {*job.variables, *(f"{name}={value}" for name, value in job.values.items())}
            assert not set(variable.conflicts) & others, job.name
            assert variable.tier != "experiment", job.name
            assert variable.why
            assert variable.source
            assert variable.date, job.name


def check_syntax(values: dict[str, str]) -> None:
    """Require that NCCL, torch and CUDA read each value as it is meant: digits, capitals, exact names."""
    for name, value in values.items():
        row = load_variables().find(name)
        assert row is None or misread(row, value) is None, (name, value)
        is_word = value.lower() in ("true", "false", "yes", "no", "on", "off")
        assert not is_word or (row is not None and row.kind == "text")
        assert row is None or row.kind != "level" or not value.isdecimal()
        assert (
            row is None or row.kind not in ("ports", "interfaces") or row.reader == "torch" or value[0] == "="
        )


@settings(max_examples=60)
@given(
    facts=any_of(MachineFacts),
    nodes=st.sampled_from((1, 2, 64)),
    transport=st.sampled_from(("infiniband", "roce", "efa", "ethernet", "unknown")),
    gpu=st.sampled_from(("h100-sxm", "gb200", "b200", "")),
)
def test_any_facts_give_variables_that_are_read_as_meant(facts, nodes, transport, gpu):
    cluster = h100_cluster(nodes, transport=transport, gpu=gpu)
    memory = predicted_memory(*case(find_model("gpt2"), ranks=cluster.world_size), cluster)
    exported, plan = environment_of(Situation(facts=facts, cluster=cluster, memory=memory))
    check_syntax({variable.name: variable.value for variable in exported})
    assert {variable.name for variable in exported} <= {row.name for row in plan.effective}
