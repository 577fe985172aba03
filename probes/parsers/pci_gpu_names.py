"""Names of GPUs by their PCI device, for texts that come from no driver.

The names are those that the driver gives, the devices those of the PCI ID repository (pci.ids, read 2026-11) and of NVIDIA's
list of supported products (README of driver 580, appendix A). A device that several products share has no row.
"""

from __future__ import annotations

NAMES = {
    "10de:15f8": "Tesla P100-PCIE-16GB",
    "10de:15f9": "Tesla P100-SXM2-16GB",
    "10de:1b38": "Tesla P40",
    "10de:1bb3": "Tesla P4",
    "10de:1db1": "Tesla V100-SXM2-16GB",
    "10de:1db4": "Tesla V100-PCIE-16GB",
    "10de:1db5": "Tesla V100-SXM2-32GB",
    "10de:1db6": "Tesla V100-PCIE-32GB",
    "10de:1db8": "Tesla V100-SXM3-32GB",
    "10de:1df6": "Tesla V100S-PCIE-32GB",
    "10de:1eb8": "Tesla T4",
    "10de:20b0": "NVIDIA A100-SXM4-40GB",
    "10de:20b2": "NVIDIA A100-SXM4-80GB",
    "10de:20b5": "NVIDIA A100 80GB PCIe",
    "10de:20b7": "NVIDIA A30",
    "10de:20f1": "NVIDIA A100-PCIE-40GB",
    "10de:20f3": "NVIDIA A800-SXM4-80GB",
    "10de:20f5": "NVIDIA A800 80GB PCIe",
    "10de:2204": "NVIDIA GeForce RTX 3090",
    "10de:2230": "NVIDIA RTX A6000",
    "10de:2235": "NVIDIA A40",
    "10de:2236": "NVIDIA A10",
    "10de:2237": "NVIDIA A10G",
    "10de:2321": "NVIDIA H100 NVL",
    "10de:2324": "NVIDIA H800",
    "10de:2329": "NVIDIA H20",
    "10de:2330": "NVIDIA H100 80GB HBM3",
    "10de:2331": "NVIDIA H100 PCIe",
    "10de:2335": "NVIDIA H200",
    "10de:2342": "NVIDIA GH200 480GB",
    "10de:2684": "NVIDIA GeForce RTX 4090",
    "10de:26b1": "NVIDIA RTX 6000 Ada Generation",
    "10de:26b5": "NVIDIA L40",
    "10de:26b9": "NVIDIA L40S",
    "10de:27b8": "NVIDIA L4",
    "10de:2901": "NVIDIA B200",
    "10de:2941": "NVIDIA GB200",
    "10de:2b85": "NVIDIA GeForce RTX 5090",
    "10de:31c2": "NVIDIA GB300",
    "1002:738c": "AMD Instinct MI100",
    "1002:7408": "AMD Instinct MI250X",
    "1002:740f": "AMD Instinct MI210",
    "1002:74a0": "AMD Instinct MI300A",
    "1002:74a1": "AMD Instinct MI300X",
    "1002:74a5": "AMD Instinct MI325X",
}

WORDS = {
    "A100 SXM4 40GB": "10de:20b0",
    "A100 SXM4 80GB": "10de:20b2",
    "A100 PCIe 80GB": "10de:20b5",
    "A100 PCIe 40GB": "10de:20f1",
    "H100 SXM5 80GB": "10de:2330",
    "H100 PCIe": "10de:2331",
    "H200 SXM 141GB": "10de:2335",
    "Tesla V100 SXM2 16GB": "10de:1db1",
    "Tesla V100 SXM2 32GB": "10de:1db5",
    "Tesla V100 SXM3 32GB": "10de:1db8",
    "Tesla V100 PCIe 16GB": "10de:1db4",
    "Tesla V100 PCIe 32GB": "10de:1db6",
    "Tesla P100 SXM2 16GB": "10de:15f9",
    "Tesla P100 PCIe 16GB": "10de:15f8",
    "Tesla T4": "10de:1eb8",
    "A10": "10de:2236",
    "A10G": "10de:2237",
    "A30 PCIe": "10de:20b7",
    "A40": "10de:2235",
    "L4": "10de:27b8",
    "L40": "10de:26b5",
    "L40S": "10de:26b9",
    "GeForce RTX 3090": "10de:2204",
    "GeForce RTX 4090": "10de:2684",
    "GeForce RTX 5090": "10de:2b85",
    "RTX A6000": "10de:2230",
    "RTX 6000 Ada Generation": "10de:26b1",
}
"""Devices by the words in brackets that lspci prints where it is not asked for numbers."""


def driver_name(device_id: str, words: str = "") -> str | None:
    """The driver's name of a GPU by its device (`10de:2330`), else by lspci's words; None for others."""
    if device_id in NAMES:
        return NAMES[device_id]
    bracket = words.rpartition("[")[2].partition("]")[0]
    return NAMES.get(WORDS.get(bracket, ""))
