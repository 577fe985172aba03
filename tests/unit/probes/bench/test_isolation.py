"""Test the layers to measure, the failure if NCCL ignores a setting, and the verdict on the slow layer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.bench.isolation import interpret, layers_left_out
from probes.compare.slow_parts import LAYERS, not_isolated, slow_layer
from probes.facts import Link, MachineFacts, Nic
from probes.facts.measurements import BenchFailure
from tests.support.bench_answers import answer, requests

UNSEEN = Unknown(Reason.NOT_RECORDED, "")
NVLINK = MachineFacts(
    links=(Link(a="GPU0", b="GPU1", kind="NVLINK", nvlink_count=18),),
    nics=(Nic(name="mlx5_0", state="ACTIVE"),),
)
PCIE = MachineFacts(
    links=(Link(a="GPU0", b="GPU1", kind="PHB"), Link(a="GPU0", b="mlx5_0", kind="PIX")), nics=()
)


def layers(facts) -> list[object]:
    return [request.settings["layers"] for request in requests("isolation", "cuda", facts=facts)]


def test_layers_depend_on_the_nvlinks_and_nics_of_the_machine():
    assert layers(NVLINK) == ["all", "nvlink", "nic"]
    assert layers(PCIE) == ["all", "host-memory"]


def test_cpus_and_single_gpus_have_no_layers_between_them():
    assert requests("isolation", "cpu", facts=NVLINK) == ()
    assert requests("isolation", "cuda", ranks=1, facts=NVLINK) == ()


@pytest.mark.parametrize(
    ("facts", "layer", "reason"),
    [
        (MachineFacts(nics=()), "nic", "this machine has no RDMA device"),
        (
            MachineFacts(nics=(Nic(name="mlx5_0", state="DOWN"),)),
            "nic",
            "no port of an RDMA device is active",
        ),
        (MachineFacts(), "nic", "the RDMA devices could not be read"),
        (MachineFacts(), "nvlink", "the links between the GPUs are unknown"),
        (PCIE, "nvlink", "no NVLink joins the GPUs"),
        (
            MachineFacts(links=(Link(a="GPU0", b="GPU1", kind=UNSEEN),)),
            "nvlink",
            "the links between the GPUs are unknown",
        ),
    ],
)
def test_a_layer_that_is_left_out_has_its_reason(facts, layer, reason):
    assert layers_left_out(facts)[layer] == reason


def of_layer(layer, facts=NVLINK):
    return next(
        request
        for request in requests("isolation", "cuda", facts=facts)
        if request.settings["layers"] == layer
    )


def answered(request, *logs):
    return {rank: answer(request, rank, done={"nccl_log": log}) for rank, log in enumerate(logs)}


def test_measurements_have_their_layer_and_the_transports_that_nccl_logged():
    request = of_layer("nic")
    measurements = interpret(
        request, answered(request, "via NET/IB/0/GDRDMA", "via NET/IB/1/GDRDMA\nvia NET/IB/1")
    )
    assert {m.parameters["layers"] for m in measurements} == {"nic"}
    assert {m.conditions["transports"] for m in measurements} == {"NET/IB, NET/IB/GDRDMA"}
    assert {m.conditions["layers_left_out"] for m in measurements} == {
        "host-memory: all GPUs are joined by NVLink"
    }


@pytest.mark.parametrize(
    ("layer", "log"),
    [
        ("nic", "via P2P/CUMEM"),
        ("nic", "via SHM/direct/direct"),
        ("nic", "Connected NVLS tree"),
        ("nic", "via NET/Socket/0"),  # the kernel's network stack, so no NIC
        ("nvlink", "via SHM/direct"),
        ("nvlink", "via NET/Socket/0"),
    ],
)
def test_a_switch_that_nccl_did_not_follow_gives_a_failure_and_no_measurement(layer, log):
    request = of_layer(layer)
    result = interpret(request, answered(request, "via NET/IB/0" if layer == "nic" else "via P2P/CUMEM", log))
    assert isinstance(result, BenchFailure)
    assert result.kind == "unsupported"
    assert log.removeprefix("via ").split("/")[0].replace("Connected NVLS tree", "NVLS") in result.message


@pytest.mark.parametrize(
    ("layer", "log"),
    [("nvlink", "via P2P/CUMEM/read\nConnected NVLS tree"), ("all", "via SHM/direct"), ("nic", "")],
)
def test_a_transport_of_the_layer_or_an_unlogged_one_is_no_failure(layer, log):
    request = of_layer(layer)
    assert not isinstance(interpret(request, answered(request, log, log)), BenchFailure)


def test_every_layer_logs_and_only_the_restricted_switch_something_off():
    for request in requests("isolation", "cuda", facts=NVLINK):
        assert request.environment["NCCL_DEBUG"] == "INFO"
        switches = {name for name in request.environment if not name.startswith("NCCL_DEBUG")}
        assert bool(switches) == (request.settings["layers"] != "all")


def test_no_nic_carries_what_stays_in_the_host_and_every_nic_may_where_it_is_asked_for():
    for layer, facts, disabled in (("host-memory", PCIE, "1"), ("nic", NVLINK, "0")):
        assert of_layer(layer, facts).environment["NCCL_NET_DISABLE_INTRA"] == disabled


# Rates of machines with: a slow NIC, slow NVLinks, good layers but a slow whole, no fault, two slow layers.
@pytest.mark.parametrize(
    ("measured", "slow"),
    [
        ({"all": 300e9, "nvlink": 360e9, "nic": 10e9}, ("nic",)),
        ({"all": 200e9, "nvlink": 200e9, "nic": 39e9}, ("nvlink",)),
        ({"all": 200e9, "nvlink": 360e9, "nic": 39e9}, ("all",)),
        ({"all": 470e9, "nvlink": 362e9, "nic": 39e9}, ()),
        ({"all": 100e9, "nvlink": 100e9, "nic": 10e9}, ("nvlink", "nic")),
    ],
)
def test_the_layer_that_is_behind_its_own_reference_is_named(measured, slow):
    verdict = slow_layer(measured, {"all": 475e9, "nvlink": 367e9, "nic": 40e9})
    assert verdict.slow == slow
    assert all(layer in verdict.because for layer in slow)


numbers = st.dictionaries(st.sampled_from(LAYERS), st.floats(0, 1e12), max_size=4)


@given(numbers, numbers)
def test_a_layer_without_measurement_or_reference_is_never_blamed(measured, references):
    verdict = slow_layer(measured, references)
    assert set(verdict.slow) <= set(verdict.shares) <= set(measured) & set(references)
    assert not ("all" in verdict.slow and len(verdict.slow) > 1)


@given(st.sampled_from(LAYERS))
def test_silence_of_the_log_blames_nothing(layer):
    assert not_isolated(layer, ()) == ""
