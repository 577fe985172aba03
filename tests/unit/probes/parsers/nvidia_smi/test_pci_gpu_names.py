"""GPU names by PCI device."""

from __future__ import annotations

import re

import pytest

from probes.catalogue.hardware import load_catalogue
from probes.parsers.topology.pci_classes import driver_name

GPUS = load_catalogue().gpus


@pytest.mark.parametrize(
    ("device", "words", "name"),
    [
        ("10de:2330", "", "NVIDIA H100 80GB HBM3"),
        ("10de:3182", "", "NVIDIA B300 SXM6 AC"),
        ("10de:2237", "", "NVIDIA A10G"),
        ("10de:1bb3", "", "Tesla P4"),
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


def test_a_device_is_in_one_row_only():
    devices = [device for row in GPUS for device in row.pci_device_ids]
    assert len(devices) == len(set(devices))
    assert all(re.fullmatch("(10de|1002):[0-9a-f]{4}", device) for device in devices)


def test_words_lead_to_one_named_device():
    words = [each for row in GPUS for each in row.lspci_words]
    assert len(words) == len(set(words))
    assert all(row.driver_name and row.pci_device_ids for row in GPUS if row.lspci_words)
