"""Installation advice: driver branch, kernel modules and fabric services for a machine and a day."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.record import value_or
from probes.base.rows import load_rows
from probes.catalogue.hardware import load_catalogue
from probes.facts import Cpu, Gpu, MachineFacts, PciDevice, Power, Software
from recipes.advice.advice_lines import lines_for
from recipes.advice.hardware import observe_hardware
from recipes.advice.hardware_plan import hardware_of, planned_hardware
from recipes.advice.installation import (
    Architecture,
    Branch,
    Distribution,
    InstallationAdvice,
    OtherMaker,
    Toolkit,
    advise_installation,
)
from recipes.advice.machine_parts import parts_of
from tests.support.machines import h100

TODAY = datetime.date(2026, 11, 21)
UBUNTU = "Ubuntu 24.04.2 LTS"


def facts(system: str = UBUNTU, **software: str) -> MachineFacts:
    return MachineFacts(software=Software(operating_system=system, **software))


def advice(
    gpu: str, count: int = 8, *, machine: MachineFacts | None = None, **options: object
) -> InstallationAdvice:
    model = load_catalogue().gpu(gpu)
    assert model is not None
    options.setdefault("today", TODAY)
    return advise_installation(machine or facts(), planned_hardware(model, count), **options)  # type: ignore[arg-type]


def commands(advised: InstallationAdvice) -> str:
    return "\n".join(command for step in advised.steps for command in step.commands)


GPUS = load_catalogue().gpus
OTHER_MAKERS = load_rows("recipes", "other_makers", OtherMaker, file="advice/installation")
ELSEWHERE = {gpu.architecture for gpu in GPUS if gpu.vendor in {maker.vendor for maker in OTHER_MAKERS}}


@pytest.mark.parametrize("gpu", [row.id for row in GPUS if row.architecture not in {"kepler", *ELSEWHERE}])
@pytest.mark.parametrize(
    "system", ["Ubuntu 22.04.5 LTS", "Debian GNU/Linux 12 (bookworm)", "Rocky Linux 9.4", "AlmaLinux 10.0"]
)
def test_every_gpu_has_advice_on_several_distributions(gpu: str, system: str) -> None:
    advised = advice(gpu, machine=facts(system))
    assert advised.steps[0].title == "Driver: branch 580"
    assert "{" not in commands(advised)
    assert all(step.because and step.source for step in advised.steps)
    assert any(row.fits for row in advised.compatibility)


def test_modules_follow_the_architecture() -> None:
    assert "nvidia-driver-580-server-open" in commands(advice("h100-sxm"))
    assert "nvidia-driver-580-server\n" in commands(advice("v100-sxm2-32gb"))
    assert "proprietary modules do not support" in advice("b200").steps[0].because


def test_volta_gets_no_cuda_13() -> None:
    fits = {row.cuda: row.fits for row in advice("v100-sxm2-32gb").compatibility}
    assert fits["12.8"]
    assert not fits["13.0"]


def test_blackwell_gets_no_cuda_before_its_first() -> None:
    assert {row.cuda: row.fits for row in advice("b200").compatibility}["12.6"] is False


@pytest.mark.parametrize(
    ("gpu", "count", "has"),
    [
        ("h100-sxm", 8, "nvidia-fabricmanager-580"),
        ("b200", 8, "nvlsm"),
        ("gb200", 4, "nvidia-imex"),
        ("h100-pcie", 8, ""),
        ("rtx-4090", 8, ""),
    ],
)
def test_fabric_services_follow_the_board(gpu: str, count: int, has: str) -> None:
    text = commands(advice(gpu, count))
    if has:
        assert has in text
    assert ("fabricmanager" in text) == (gpu in ("h100-sxm", "b200"))


def test_a_driver_of_the_right_branch_stays() -> None:
    advised = advice("h100-sxm", machine=facts(driver_version="580.105.08"))
    assert advised.steps[0].title == "Driver: keep 580.105.08"
    assert advised.steps[0].commands == ()
    advised = advice("h100-sxm", machine=facts(driver_version="535.183.01"))
    assert advised.steps[0].title == "Driver: branch 580 in place of 535.183.01"


def test_a_branch_is_not_chosen_after_its_end() -> None:
    long_life = [
        row.branch
        for row in load_rows("recipes", "branches", Branch, file="advice/installation")
        if row.end_of_life > "2026-11"
    ]
    assert advice("h100-sxm").steps[0].title in {f"Driver: branch {branch}" for branch in long_life}
    with pytest.raises(UsageError, match="no driver branch"):
        advice("h100-sxm", today=datetime.date(2040, 1, 1))


def test_a_branch_ends_after_its_last_month() -> None:
    assert advice("v100-sxm2-32gb", today=datetime.date(2028, 6, 30)).steps[0].title == "Driver: branch 580"
    with pytest.raises(UsageError, match="no driver branch that rigtune knows supports volta"):
        advice("v100-sxm2-32gb", today=datetime.date(2028, 7, 1))


def test_volta_is_offered_a_toolkit_of_cuda_12() -> None:
    titles = [step.title for step in advice("v100-sxm2-32gb").steps]
    assert any(title.startswith("CUDA toolkit 12.") for title in titles)


@pytest.mark.parametrize(
    ("gpu", "maker"), [("mi300x", "AMD's cdna3 GPUs"), ("gaudi-3", "Intel's gaudi GPUs")]
)
def test_another_maker_is_named(gpu: str, maker: str) -> None:
    model = next((row for row in GPUS if row.id == gpu), None)
    name = gpu if model else next(row.id for row in GPUS if row.architecture == maker.split()[1])
    with pytest.raises(UsageError, match=f"no installation advice for {maker}"):
        advice(name)


def test_gpus_without_a_driver_are_known_by_the_bus() -> None:
    devices = tuple(
        PciDevice(bus_id=f"0000:{bus:02x}:00.0", kind="gpu", device_id="10de:2330") for bus in range(8)
    )
    switches = tuple(PciDevice(bus_id=f"0000:8{bus}:00.0", kind="nvswitch") for bus in range(4))
    machine = msgspec.structs.replace(facts(), pci_devices=(*devices, *switches))
    hardware = hardware_of(machine, load_catalogue())
    assert (hardware.model.id, hardware.count, hardware.has_switch) == ("h100-sxm", 8, True)


@pytest.mark.parametrize(
    ("device_id", "count", "has_switch"),
    [("10de:2330", 8, True), ("10de:2330", 4, False), ("10de:2331", 8, False)],
    ids=["eight H100 SXM", "four H100 SXM", "H100 PCIe"],
)
def test_more_than_four_boards_without_bridges_are_assumed_to_share_switches(
    device_id: str, count: int, has_switch: bool
) -> None:
    devices = tuple(
        PciDevice(bus_id=f"0000:{bus:02x}:00.0", kind="gpu", device_id=device_id) for bus in range(count)
    )
    machine = msgspec.structs.replace(facts(), pci_devices=devices)
    assert hardware_of(machine, load_catalogue()).has_switch == has_switch
    # The driver's own list of links is the better source: no GPU of this machine has a link to a switch.
    gpus = tuple(msgspec.structs.replace(gpu, nvlinks=()) for gpu in map(h100, range(count)))
    driven = msgspec.structs.replace(machine, gpus=gpus)
    assert not hardware_of(driven, load_catalogue()).has_switch


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("ubuntu 24.04", "apt-get install -y nvidia-driver-580-server-open"),
        ("debian 12", "nvidia-driver-pinning-580"),
        ("RHEL 9.4", "nvidia-driver:580-open"),
        ("rocky 9", "nvidia-driver:580-open"),
        ("almalinux 10", "versionlock"),
        ("sles 15 sp6", "zypper"),
    ],
)
def test_a_distribution_may_be_named_as_people_do(name: str, command: str) -> None:
    assert command in commands(advice("h100-sxm", machine=facts(name)))


def test_unknown_hardware_and_distributions_are_refused() -> None:
    with pytest.raises(UsageError, match="no GPU of this machine"):
        hardware_of(facts(), load_catalogue())
    with pytest.raises(UsageError, match="no installation advice for 'Plan 9'") as caught:
        advice("h100-sxm", machine=facts("Plan 9"))
    assert "Debian" in caught.value.hint
    with pytest.raises(UsageError, match="the distribution is unknown"):
        advice("h100-sxm", machine=MachineFacts())


EPYC = Cpu(model="AMD EPYC 9654 96-Core Processor", sockets=2)


@pytest.mark.parametrize(
    ("gpu", "cpu", "supplies_w", "machine_w", "words"),
    [
        ("h100-sxm", None, None, 5600 * 1.82, "must deliver about 10.19 kW"),
        ("h100-sxm", None, 5000.0, 5600 * 1.82, "less than the GPUs alone draw (5.60 kW)"),
        ("h100-sxm", None, 8000.0, 5600 * 1.82, "less than the machine may draw"),
        ("h100-sxm", None, 12e3, 5600 * 1.82, "the machine draws about 10.19 kW"),
        # With PCIe cards the estimate needs the power of the processors; SXM modules have a factor instead.
        ("h100-pcie", None, 2000.0, None, "less than the GPUs alone draw (2.80 kW)"),
        ("h100-pcie", None, 4000.0, None, "The power of the processors is unknown"),
        ("h100-pcie", EPYC, 4000.0, (2800 + 2 * 360) * 1.2, "less than the machine may draw"),
        ("h100-pcie", EPYC, 4300.0, (2800 + 2 * 360) * 1.2, "the machine draws about 4.22 kW"),
    ],
)
def test_power_is_compared_with_the_supplies_as_advice_on_hardware_does(
    gpu: str, cpu: Cpu | None, supplies_w: float | None, machine_w: float | None, words: str
) -> None:
    machine = msgspec.structs.replace(facts(), cpu=cpu or Cpu())
    power = advice(gpu, machine=machine, supplies_w=supplies_w).power
    assert value_or(power.machine_w, None) == (None if machine_w is None else pytest.approx(machine_w))
    assert words in power.verdict
    model = load_catalogue().gpu(gpu)
    assert model is not None
    gpus = tuple(Gpu(index=index, name=model.driver_name) for index in range(8))
    parts = parts_of(msgspec.structs.replace(machine, gpus=gpus), load_catalogue(), supplies_w)
    texts = [line.text for line in lines_for("hardware", observe_hardware(parts))]
    assert " ".join(texts[:2]) == power.verdict


def test_the_limits_that_the_driver_reports_are_summed() -> None:
    gpus = tuple(msgspec.structs.replace(h100(index), power_limit_w=500.0) for index in range(8))
    machine = msgspec.structs.replace(facts(), gpus=gpus)
    assert advice("h100-sxm", machine=machine).power.boards_w == 4000
    assert advice("h100-sxm", 4, machine=machine).power.boards_w == 2800  # four other GPUs are planned
    assert advice("h200-sxm", machine=machine).power.boards_w == 5600


def test_the_user_may_replace_the_supplies_that_the_machine_states() -> None:
    machine = msgspec.structs.replace(facts(), power=Power(supply_capacity_w=13200.0))
    assert advice("h100-sxm", machine=machine).power.supplies_w == 13200
    assert advice("h100-sxm", machine=machine, supplies_w=9000.0).power.supplies_w == 9000


def test_gpus_without_peer_access_are_named() -> None:
    assert any("no peer-to-peer" in remark for remark in advice("rtx-4090", 2).remarks)
    assert advice("rtx-4090", 1).remarks == ()
    assert any("bridge" in remark for remark in advice("h100-nvl", 4).remarks)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("branches", Branch),
        ("architectures", Architecture),
        ("toolkits", Toolkit),
        ("distributions", Distribution),
        ("other_makers", OtherMaker),
    ],
)
def test_every_row_cites(table: str, kind: type[Branch]) -> None:
    rows = load_rows("recipes", table, kind, file="advice/installation")
    assert rows
    assert all(row.source and row.date[:2] == "20" for row in rows)


def test_every_architecture_of_the_catalogue_has_a_row() -> None:
    known = {
        row.architecture
        for row in load_rows("recipes", "architectures", Architecture, file="advice/installation")
    }
    assert not known & ELSEWHERE
    assert {gpu.architecture for gpu in GPUS} == known | ELSEWHERE


@pytest.mark.parametrize("gpu", [row.id for row in GPUS if row.architecture in ELSEWHERE])
def test_gpus_of_other_makers_are_led_to_their_makers_guide(gpu: str) -> None:
    with pytest.raises(UsageError) as refusal:
        advice(gpu)
    assert "https://" in refusal.value.hint


def test_kepler_has_no_driver_that_still_gets_fixes() -> None:
    with pytest.raises(UsageError, match=r"no driver branch.* kepler"):
        advice("k80")
