"""Write an invented /sys with RDMA devices: the files that the kernel shows for ports in given states."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FakePort(NamedTuple):
    """The content of the files of one port."""

    state: str = "4: ACTIVE"
    physical_state: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    link_layer: str = "InfiniBand"
    lid: int = 1
    sm_lid: int = 1


class FakeHca(NamedTuple):
    """One device."""

    name: str
    ports: tuple[FakePort, ...]
    part: str = "MT4129"
    firmware: str = "28.39.1002"


def write_sys(root: Path, devices: tuple[FakeHca, ...]) -> Path:
    """Write the tree below `root` and return its folder `sys`."""
    for index, device in enumerate(devices):
        _write_device(root / "sys", index, device)
    return root / "sys"


def _write_device(sys: Path, index: int, device: FakeHca) -> None:
    address = f"0000:{0x18 + index:02x}:00.0"
    pci = sys / "devices" / "pci0000:17" / address
    guid = f"946d:ae03:0012:{index:04x}"
    rdma = pci / "infiniband" / device.name
    files = {
        pci / "vendor": "0x15b3",
        pci / "device": "0x1021",
        pci / "numa_node": "0",
        rdma / "fw_ver": device.firmware,
        rdma / "hca_type": device.part,
        rdma / "hw_rev": "0",
        rdma / "board_id": "MT_0000000838",
        rdma / "node_type": "1: CA",
        rdma / "node_guid": guid,
        rdma / "sys_image_guid": guid,
        rdma / "node_desc": f"host {device.name}",
    }
    for number, port in enumerate(device.ports, 1):
        folder = rdma / "ports" / str(number)
        files |= {
            folder / "state": port.state,
            folder / "phys_state": port.physical_state,
            folder / "rate": port.rate,
            folder / "link_layer": port.link_layer,
            folder / "lid": hex(port.lid),
            folder / "sm_lid": hex(port.sm_lid),
            folder / "sm_sl": "0",
            folder / "lid_mask_count": "0",
            folder / "cap_mask": "0xa751e848",
            folder / "gids" / "0": f"fe80:0000:0000:0000:946d:ae03:{number:04x}:{index:04x}",
            folder / "pkeys" / "0": "0xffff",
            folder / "counters" / "symbol_error": "0",
            folder / "counters" / "link_downed": "0",
        }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (rdma / "device").symlink_to("../..")
    for folder, name, target in (
        (
            sys / "class" / "infiniband",
            device.name,
            f"../../devices/pci0000:17/{address}/infiniband/{device.name}",
        ),
        (sys / "bus" / "pci" / "devices", address, f"../../../devices/pci0000:17/{address}"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
