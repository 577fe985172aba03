"""Warnings about slow or missing parts of a machine, one fault at a time."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import Reason, Unknown, items_of
from probes.facts import MachineFacts, PcieLink
from recipes.machine.degraded import SlowLinks, lanes_warning, missing_links, slow_links, slow_ports
from recipes.machine.from_facts import describe_facts
from tests.support.machines import CATALOGUE, cpu_box, h100_node, healthy_link, with_gpus, with_nics

H100 = CATALOGUE.gpu("NVIDIA H100 80GB HBM3")
NODE = h100_node()
UNKNOWN = Unknown(Reason.PERMISSION, "no access")
LINKS = tuple(healthy_link(index) for index in range(18))
HALF = PcieLink(generation=5, generation_max=5, width=8, width_max=16)


def links(count: int, **changes: object) -> tuple[object, ...]:
    """Return 18 links, the first `count` of them changed."""
    return tuple(msgspec.structs.replace(link, **changes) if link.index < count else link for link in LINKS)


def of(facts: MachineFacts) -> SlowLinks:
    return slow_links(items_of(facts.gpus), H100)


@pytest.mark.parametrize(
    ("facts", "fewest", "words"),
    [
        (NODE, None, ""),
        (with_gpus(NODE, 5, nvlinks=links(1, active=False)), 17, "GPU5 with only 17 of 18 NVLinks up"),
        (with_gpus(NODE, 5, nvlinks=links(18, active=False)), 0, "the plan uses PCIe between the GPUs"),
        # Without any link that is up, the links are unused and not broken.
        (with_gpus(NODE, nvlinks=links(18, active=False)), None, ""),
        # A link that could not be read is not known to be down.
        (with_gpus(NODE, 5, nvlinks=links(3, active=UNKNOWN)), None, ""),
        # Fewer links without one that is down: the list is incomplete.
        (with_gpus(NODE, 5, nvlinks=LINKS[:17]), None, ""),
        (with_gpus(NODE, 5, nvlinks=UNKNOWN), None, ""),
    ],
)
def test_links_that_are_down_are_counted(facts: MachineFacts, fewest: int | None, words: str) -> None:
    slow = of(facts)
    assert (slow.links, slow.rate_share) == (fewest, 1.0)
    assert words in " ".join(slow.warnings)
    assert bool(slow.warnings) == bool(words)


def test_the_worst_gpu_counts() -> None:
    facts = with_gpus(NODE, 5, nvlinks=links(3, active=False))
    facts = with_gpus(facts, 2, nvlinks=links(4, active=False))
    assert of(facts).links == 14
    assert "GPU2, GPU5 with only 14 of 18" in of(facts).warnings[0]
    facts = with_gpus(NODE, 5, nvlinks=links(1, bandwidth_bytes_per_s=10e9))
    facts = with_gpus(facts, 2, nvlinks=links(1, bandwidth_bytes_per_s=5e9))
    assert of(facts).rate_share == pytest.approx(0.2)
    assert "GPU2, GPU5 with NVLinks at 5 GB/s instead of 25 GB/s" in of(facts).warnings[0]


def test_a_model_that_no_recording_confirmed_is_not_judged() -> None:
    assert H100 is not None
    facts = with_gpus(NODE, 5, nvlinks=links(3, active=False))
    gpus = items_of(facts.gpus)
    assert slow_links(gpus, None) == SlowLinks()
    assert slow_links(gpus, msgspec.structs.replace(H100, checked=False)) == SlowLinks()
    assert slow_links(gpus, msgspec.structs.replace(H100, nvlink_count=0)) == SlowLinks()


@pytest.mark.parametrize(
    ("kinds", "is_usual", "words"),
    [
        (("NVLINK", "NVLINK"), True, ""),
        (("NVLINK", "SYS"), True, "no NVLink joins 1 of 2 pairs of GPUs"),
        (("SYS", "PHB", "NVLINK"), True, "no NVLink joins 2 of 3 pairs of GPUs"),
        (("NVLINK", ""), True, ""),
        (("NVLINK", "SYS"), False, ""),
        ((), True, ""),
    ],
)
def test_pairs_without_nvlink_are_counted(kinds: tuple[str, ...], is_usual: bool, words: str) -> None:
    assert H100 is not None
    pairs = [(kind, 18) for kind in kinds]
    warning = missing_links(pairs, H100, is_usual=is_usual)
    assert warning.startswith(words)
    assert bool(warning) == bool(words)
    assert missing_links(pairs, None, is_usual=is_usual) == ""
    assert missing_links(pairs, msgspec.structs.replace(H100, nvlink_bridge=True), is_usual=True) == ""
    assert missing_links(pairs, msgspec.structs.replace(H100, nvlink_count=0), is_usual=True) == ""


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (1, "GPU0 with"),
        (2, "GPU0, GPU1 with"),
        (8, "GPU0, GPU1, GPU2, GPU3, GPU4, GPU5, GPU6, GPU7 with"),
        (9, "GPU0, GPU1, GPU2, GPU3, GPU4, GPU5, GPU6, GPU7 and 1 more with"),
    ],
)
def test_at_most_eight_gpus_are_named(count: int, names: str) -> None:
    gpu = items_of(with_gpus(NODE, pcie=HALF).gpus)[0]
    gpus = tuple(msgspec.structs.replace(gpu, index=index) for index in range(count))
    assert lanes_warning(gpus).startswith(names)


@pytest.mark.parametrize(
    ("width", "most", "is_named"),
    [
        (8, 16, True),
        (15, 16, True),
        (16, 16, False),
        (0, 16, False),
        (8, UNKNOWN, False),
        (UNKNOWN, 16, False),
    ],
)
def test_only_a_slot_with_fewer_lanes_than_it_has_is_narrow(width: int, most: int, is_named: bool) -> None:
    facts = with_gpus(NODE, 3, pcie=PcieLink(generation_max=5, width=width, width_max=most))
    warning = lanes_warning(items_of(facts.gpus))
    assert bool(warning) is is_named
    assert not is_named or f"GPU3 with {width} of {most} PCIe lanes" in warning


def test_the_gpu_with_the_fewest_lanes_is_described() -> None:
    facts = with_gpus(with_gpus(NODE, 3, pcie=HALF), 6, pcie=msgspec.structs.replace(HALF, width=4))
    assert lanes_warning(items_of(facts.gpus)).startswith("GPU3, GPU6 with 4 of 16 PCIe lanes")


DOWN = {"state": "DOWN", "physical_state": "Polling", "netdev_up": False}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (with_nics(with_nics(NODE, "mlx5_2", **DOWN), "mlx5_5", **DOWN), "mlx5_2, mlx5_5 are down"),
        (
            with_nics(with_nics(NODE, "mlx5_2", rate_gbps=100.0), "mlx5_5", rate_gbps=200.0),
            "mlx5_2, mlx5_5 run at 100, 200 instead of 400 Gb/s: the plan uses 6 of 8 training ports",
        ),
        (
            with_nics(with_nics(NODE, "mlx5_2", rate_gbps=100.0), "mlx5_5", **DOWN),
            "mlx5_2 runs at 100 instead of 400 Gb/s: the plan uses 6 of 8 training ports",
        ),
        (
            with_nics(
                with_nics(NODE, "mlx5_2", pcie=HALF), "mlx5_5", pcie=msgspec.structs.replace(HALF, width=4)
            ),
            "mlx5_2, mlx5_5 with 4 of 16 PCIe lanes",
        ),
    ],
)
def test_slow_ports_are_named_together(facts: MachineFacts, words: str) -> None:
    assert words in " ".join(slow_ports(facts, items_of(facts.gpus)).warnings)


def test_rates_over_the_lanes_in_use_limit_ports_and_node() -> None:
    """A lane of PCIe 5 carries 3.938 GB/s."""
    slow = slow_ports(with_nics(NODE, "mlx5_2", pcie=HALF), items_of(NODE.gpus))
    assert slow.port_limit_bytes_per_s == pytest.approx(8 * 3.938e9, rel=1e-3)
    assert slow.node_limit_bytes_per_s is None
    facts = with_gpus(NODE, 3, pcie=HALF)
    slow = slow_ports(facts, items_of(facts.gpus))
    assert slow.port_limit_bytes_per_s is None
    assert slow.node_limit_bytes_per_s == pytest.approx(8 * 8 * 3.938e9, rel=1e-3)
    # An idle GPU lowers its generation: the largest one counts, or else the present one.
    idle = PcieLink(generation=1, generation_max=5, width=8, width_max=16)
    assert slow_ports(with_gpus(NODE, 3, pcie=idle), items_of(with_gpus(NODE, 3, pcie=idle).gpus)) == slow


def test_the_source_of_a_limited_network_names_the_limit() -> None:
    description = describe_facts(with_nics(NODE, "mlx5_2", pcie=HALF), CATALOGUE, nodes=2)
    assert description.network.source.endswith("at most 2016 Gb/s over the PCIe lanes in use")
    assert description.network.line_rate_bytes_per_s == pytest.approx(8 * 8 * 3.938e9, rel=1e-3)
    assert "at most" not in describe_facts(NODE, CATALOGUE, nodes=2).network.source


@pytest.mark.parametrize(
    ("hostname", "source", "title"),
    [
        ("node17", "live", "node17: "),
        ("", "paste.txt", "paste.txt: "),
        (UNKNOWN, "paste.txt", "paste.txt: "),
        ("", "", "this machine: "),
    ],
)
def test_a_machine_is_titled_by_its_host_name_or_source(hostname: str, source: str, title: str) -> None:
    facts = msgspec.structs.replace(NODE, hostname=hostname, source=source)
    assert describe_facts(facts, CATALOGUE).title.startswith(title + "8 x ")
    assert describe_facts(facts, CATALOGUE, nodes=2).title.startswith("2 x " + title)
    box = msgspec.structs.replace(cpu_box(), hostname=hostname, source=source)
    assert describe_facts(box, CATALOGUE, ranks_per_node=2).title.startswith(title + "2 CPU ranks")
