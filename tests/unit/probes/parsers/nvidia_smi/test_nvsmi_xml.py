"""`nvidia-smi -q -x`, whole and damaged."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.facts import Gpu
from probes.parsers.nvidia_smi.nvsmi_xml import SmiLog, parse_smi_xml

GPU = """
  <gpu id="00000000:1B:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <persistence_mode>Enabled</persistence_mode>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <uuid>GPU-0001</uuid>
    <vbios_version>96.00</vbios_version>
    <pci><pci_gpu_link_info>
      <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>4</current_link_gen></pcie_gen>
      <link_widths><max_link_width>16x</max_link_width>\
<current_link_width>8x</current_link_width></link_widths>
    </pci_gpu_link_info></pci>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_display_clocks_setting>Active</clocks_event_reason_display_clocks_setting>
    </clocks_event_reasons>
    <fb_memory_usage><total>81559 MiB</total><reserved>480 MiB</reserved><used>12 MiB</used></fb_memory_usage>
    <compute_mode>Exclusive_Process</compute_mode>
    <utilization><gpu_util>37 %</gpu_util></utilization>
    <ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
    <ecc_errors><volatile>
      <sram_correctable>1</sram_correctable>
      <sram_uncorrectable_parity>2</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>3</sram_uncorrectable_secded>
      <dram_correctable>10</dram_correctable>
      <dram_uncorrectable>20</dram_uncorrectable>
    </volatile></ecc_errors>
    <remapped_rows><remapped_row_pending>No</remapped_row_pending>\
<remapped_row_failure>Yes</remapped_row_failure></remapped_rows>
    <temperature><gpu_temp>29 C</gpu_temp></temperature>
    <gpu_power_readings>
      <average_power_draw>68.57 W</average_power_draw><instant_power_draw>68.92 W</instant_power_draw>
      <current_power_limit>650.00 W</current_power_limit><default_power_limit>700.00 W</default_power_limit>
    </gpu_power_readings>
    <clocks><sm_clock>345 MHz</sm_clock></clocks>
    <max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>
    <fabric><state>In Progress</state></fabric>
    <processes><process_info>
      <pid>725</pid><type>C</type><process_name>python</process_name><used_memory>22 MiB</used_memory>
    </process_info></processes>
  </gpu>
"""
HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
FULL = (
    f"{HEAD}<nvidia_smi_log>\n<driver_version>580.105.08</driver_version><cuda_version>13.0</cuda_version>"
    f"<attached_gpus>2</attached_gpus>{GPU}{GPU.replace('1B', 'C3').replace('GPU-0001', 'GPU-0002')}"
    "</nvidia_smi_log>\n"
)


def parsed(text: str) -> SmiLog:
    log = parse_smi_xml(text)
    assert isinstance(log, SmiLog), log
    return log


def first(text: str) -> Gpu:
    return parsed(text).gpus[0]


def test_values_and_units() -> None:
    gpu = first(FULL)
    assert gpu.pci_bus_id == "0000:1b:00.0"
    assert gpu.memory_bytes == 81559 * 1024**2
    assert (gpu.pcie.generation, gpu.pcie.generation_max, gpu.pcie.width, gpu.pcie.width_max) == (4, 5, 8, 16)
    assert (gpu.ecc_corrected_volatile, gpu.ecc_uncorrected_volatile) == (11, 25)
    assert (gpu.row_remap_pending, gpu.row_remap_failed) == (False, True)
    assert (gpu.power_w, gpu.power_limit_w, gpu.power_limit_default_w) == (68.92, 650.0, 700.0)
    assert gpu.throttle_reasons == ("sw_power_cap", "display_clock_setting")
    assert (gpu.compute_mode, gpu.fabric_state) == ("exclusive process", "in progress")
    assert (gpu.temperature_c, gpu.sm_clock_mhz, gpu.sm_clock_max_mhz, gpu.utilization_percent) == (
        29,
        345,
        1980,
        37,
    )
    assert isinstance(gpu.processes, tuple)
    assert (gpu.processes[0].pid, gpu.processes[0].memory_bytes) == (725, 22 * 1024**2)


def test_document() -> None:
    log = parsed(FULL)
    assert (log.driver_version, log.cuda_version, log.attached_gpus, log.problem) == (
        "580.105.08",
        "13.0",
        2,
        "",
    )
    assert [gpu.index for gpu in log.gpus] == [0, 1]
    assert all(gpu.driver_version == "580.105.08" for gpu in log.gpus)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("N/A", Reason.NOT_SUPPORTED),
        ("[N/A]", Reason.NOT_SUPPORTED),
        ("[Not Supported]", Reason.NOT_SUPPORTED),
        ("Requested functionality has been deprecated", Reason.NOT_SUPPORTED),
        ("Insufficient Permissions", Reason.PERMISSION),
        ("Unknown Error", Reason.ERROR),
        ("[GPU requires reset]", Reason.ERROR),
        ("GPU is lost", Reason.ERROR),
        ("ERR!", Reason.ERROR),
        ("", Reason.NOT_RECORDED),
        ("29 F", Reason.UNPARSABLE),
        ("29", Reason.UNPARSABLE),
        ("hot", Reason.UNPARSABLE),
    ],
)
def test_words_in_place_of_a_value(word: str, reason: Reason) -> None:
    value = first(FULL.replace("<gpu_temp>29 C<", f"<gpu_temp>{word}<")).temperature_c
    assert isinstance(value, Unknown)
    assert value.reason is reason


@pytest.mark.parametrize(
    "tag", ["remapped_rows", "ecc_errors", "clocks_event_reasons", "processes", "fabric"]
)
def test_words_in_place_of_a_whole_block(tag: str) -> None:
    start, end = FULL.index(f"<{tag}>") + len(tag) + 2, FULL.index(f"</{tag}>")
    gpu = first(FULL[:start] + "GPU is lost" + FULL[end:])
    fields = {
        "remapped_rows": gpu.row_remap_failed,
        "ecc_errors": gpu.ecc_uncorrected_volatile,
        "clocks_event_reasons": gpu.throttle_reasons,
        "processes": gpu.processes,
        "fabric": gpu.fabric_state,
    }
    value = fields[tag]
    assert isinstance(value, Unknown)
    assert value.reason in (Reason.ERROR, Reason.NOT_RECORDED)


def test_one_unknown_counter_hides_no_errors_of_the_others() -> None:
    assert (
        first(FULL.replace("<dram_uncorrectable>20<", "<dram_uncorrectable>N/A<")).ecc_uncorrected_volatile
        == 5
    )


def test_one_unknown_counter_makes_a_sum_of_zeros_unknown() -> None:
    counters = re.sub(r"(<sram_uncorrectable\w*>)\d+<", r"\g<1>0<", FULL)
    gpu = first(counters.replace("<dram_uncorrectable>20<", "<dram_uncorrectable>N/A<"))
    assert isinstance(gpu.ecc_uncorrected_volatile, Unknown)


def test_names_of_the_schema_before_version_11_are_read() -> None:
    start, end = FULL.index("<volatile>") + 10, FULL.index("</volatile>")
    old = "<single_bit><total>4</total></single_bit><double_bit><total>5</total></double_bit>"
    text = (FULL[:start] + old + FULL[end:]).replace("gpu_power_readings", "power_readings")
    text = text.replace("instant_power_draw", "power_draw").replace(
        "current_power_limit", "enforced_power_limit"
    )
    gpu = first(text.replace("clocks_event_reason", "clocks_throttle_reason"))
    assert (gpu.ecc_corrected_volatile, gpu.ecc_uncorrected_volatile) == (4, 5)
    assert (gpu.power_w, gpu.power_limit_w) == (68.92, 650.0)
    assert gpu.throttle_reasons == ("sw_power_cap", "display_clock_setting")


def test_a_cut_document_keeps_its_complete_gpus_and_reports_the_cut() -> None:
    log = parsed(FULL[: FULL.rindex("<temperature>")])
    assert [gpu.uuid for gpu in log.gpus] == ["GPU-0001"]
    assert log.attached_gpus == 2
    assert "cut" in log.problem


def test_text_after_the_xml_document_is_not_read() -> None:
    assert parsed(FULL + "\n$ nvidia-smi topo -m\n\tGPU0 & <\n").problem == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        HEAD,
        "<nvidia_smi_log>",
        "<nvidia_smi_log></nvidia_smi_log>",
        FULL[: FULL.index("</gpu>")],
    ],
)
def test_a_log_without_a_complete_gpu_is_unknown(text: str) -> None:
    assert isinstance(parse_smi_xml(text), Unknown)


def test_a_driver_without_gpus() -> None:
    assert parsed("<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>").gpus == ()


def test_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    text = FULL.replace(HEAD, bomb).replace("NVIDIA H100 80GB HBM3", "&b;", 1)
    assert isinstance(parse_smi_xml(text), Unknown)


def test_deep_nesting_does_not_raise() -> None:
    parse_smi_xml("<nvidia_smi_log>" + "<gpu>" * 20000)


@given(st.integers(0, len(FULL)))
def test_a_cut_document_never_invents(length: int) -> None:
    log = parse_smi_xml(FULL[:length])
    if isinstance(log, SmiLog):
        assert log.gpus == parsed(FULL).gpus[: len(log.gpus)]


@given(st.integers(0, len(FULL)), st.text(alphabet="<>/&gpuid 0N/A\x00\ud7ff", max_size=20))
def test_damage_never_raises(position: int, noise: str) -> None:
    parse_smi_xml(FULL[:position] + noise + FULL[position:])


def test_a_pasted_part_of_a_log_is_a_log_of_its_gpus() -> None:
    log = parse_smi_xml(GPU)
    assert isinstance(log, SmiLog)
    assert [gpu.uuid for gpu in log.gpus] == ["GPU-0001"]
