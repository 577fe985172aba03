"""One name for each PCI device, from the catalogue or from the table beside it, never from both."""

from __future__ import annotations

import re

import pytest

from probes.catalogue.hardware import load_catalogue
from probes.parsers.nvidia_smi.pci_gpu_names import driver_name, load_pci_names

TABLE = load_pci_names()
CATALOGUED = [device for row in load_catalogue().gpus for device in row.pci_device_ids]


@pytest.mark.parametrize(
    ("device", "words", "name"),
    [
        ("10de:2330", "", "NVIDIA H100 80GB HBM3"),
        ("10de:3182", "", "NVIDIA B300 SXM6 AC"),
        ("10de:2237", "", "NVIDIA A10G"),
        ("1002:74a1", "", "AMD Instinct MI300X"),
        ("10de:", "NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)", "NVIDIA A100-SXM4-80GB"),
        ("", "Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]", "AMD Instinct MI300X"),
        ("10de:2342", "NVIDIA Corporation GH100 [GH200 120GB / 480GB]", None),
        ("10de:ffff", "NVIDIA Corporation Device ffff", None),
        ("", "", None),
    ],
)
def test_a_device_has_its_drivers_name_or_none(device, words, name):
    assert driver_name(device, words) == name


def test_a_device_stands_in_one_row_of_one_file():
    assert len(CATALOGUED) == len(set(CATALOGUED))
    assert not set(CATALOGUED) & set(TABLE.names)
    assert all(re.fullmatch("(10de|1002):[0-9a-f]{4}", device) for device in (*CATALOGUED, *TABLE.names))


def test_words_lead_to_a_named_device():
    assert set(TABLE.words.values()) <= {*CATALOGUED, *TABLE.names}


def test_the_table_is_cited():
    assert len(TABLE.source) > 30
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", TABLE.date)
