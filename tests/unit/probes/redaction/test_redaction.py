"""Test that a shared recording contains no seeded identity or secret, and still reads the same."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import urllib.parse

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.redaction import KINDS, redact
from probes.redaction.placeholders import Book
from probes.redaction.text import TextRedactor
from probes.sources.base import CommandResult, Given
from probes.sources.recording import Answers
from probes.sources.stored import Recording, StoredSource, dump_recording, load_recording

HEX40 = "8f14e45fceea167a5a36dedd4bea2543c0ffee42"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJxdWlsbCJ9.dBjftJeZ4CVPmB92K27uhbUJU1p1r"
PEM_BODY = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7\nVJTUt9Us8cKjMzEfYyjiWA4R4"

SEEDS = {
    "host name": "qx17",
    "other host": "quillstore3",
    "neighbour in a node list": "qx019",
    "domain": "ml.quill-lab.edu",
    "search domain": "quillgrid",
    "user": "wrenfield",
    "full name": "Wilma Renfield",
    "e-mail": "w.renfield@quill-lab.edu",
    "GPU serial": "1652321009876",
    "board serial": "QTFCLU4123X",
    "asset tag": "QL-00731-A",
    "GPU UUID": "b7c1d2e3-4f50-6172-8394-a5b6c7d8e9f0",
    "file system UUID": "5e2f8c1a-77aa-4b0c-9d3e-2f1a0b9c8d7e",
    "machine id": "c0a1b2c3d4e5f60718293a4b5c6d7e8f",
    "node GUID": "946dae0300a1b2c3",
    "MAC": "b8:3f:d2:a1:b2:c4",
    "private address": "10.37.201.14",
    "public address": "141.61.14.77",
    "IPv6 address": "2001:638:c:a057::1f2",
    "Hugging Face token": "hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345678",
    "GitHub token": "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "AWS key id": "AKIAQ7ZRT5PLM2XW8YVB",
    "AWS secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYQUILLKEY9",
    "OpenAI key": "sk-proj-a1B2c3D4e5F6g7H8i9J0",
    "W&B key": HEX40,
    "JWT": JWT,
    "private key": PEM_BODY.splitlines()[0],
    "URL password": "hunter2quill",
    "plain password": "Tr0ub4dor&3x",
    "option token": "tok_9981-secretish",
    "licence key": "QK7XD-93MPL-4TTVB-8HW2Z-Q11RY",
    "ssh host key": "AAAAC3NzaC1lZDI1NTE5AAAAIHq9Zx1y2W3v4U5t6S7r8Q9p0OaBcDeFgHiJkLmNoP",
    "instance id": "0f1e2d3c4b5a69788",
    "job": "quill-7b-secretmix",
    "account": "quill_lab_gpu4",
}
GUID = SEEDS["node GUID"]
GUID_PAIRS = ":".join(GUID[at : at + 2] for at in range(0, 16, 2))
GUID_GROUPS = ":".join(GUID[at : at + 4] for at in range(0, 16, 4))


def seeded() -> Recording:
    seed = SEEDS
    answers = Answers()
    home = f"/home/{seed['user']}/venv"
    answers.text("/proc/sys/kernel/hostname", seed["host name"])
    answers.file(
        "/etc/hosts",
        f"127.0.0.1 localhost\n{seed['private address']} {seed['other host']} "
        f"{seed['other host']}.{seed['domain']}\n".encode(),
    )
    answers.file(
        "/etc/resolv.conf",
        f"nameserver {seed['private address']}\nsearch {seed['domain']} {seed['search domain']}\n".encode(),
    )
    answers.file(
        "/etc/passwd",
        f"{seed['user']}:x:1000:1000:{seed['full name']}:/home/{seed['user']}:/bin/bash\n".encode(),
    )
    answers.text("/sys/class/dmi/id/board_serial", seed["board serial"])
    answers.text("/sys/class/dmi/id/chassis_asset_tag", seed["asset tag"])
    answers.text("/etc/machine-id", seed["machine id"])
    answers.text("/proc/cmdline", f"root=UUID={seed['file system UUID']} ro console=tty0")
    answers.text("/sys/class/infiniband/mlx5_0/node_guid", GUID_GROUPS)
    answers.text("/sys/class/infiniband/mlx5_0/ports/1/gids/0", f"fe80:0000:0000:0000:{GUID_GROUPS}")
    answers.text("/sys/class/infiniband/mlx5_0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a25:c90e")
    answers.text("/sys/class/net/eth0/address", seed["MAC"])
    answers.text(f"{home}/pyvenv.cfg", "home = /usr/bin")
    answers.links[f"{home}/bin/python"] = f"/home/{seed['user']}/.pyenv/versions/3.11/bin/python"
    answers.directories["/home"] = (seed["user"],)
    answers.directories[f"/data/{seed['job']}"] = Unknown(
        Reason.PERMISSION, f"/data/{seed['job']}: for {seed['user']} only"
    )
    answers.file(
        "/etc/blob",
        b"\xff\xfe\x00" + f"password={seed['plain password']} {seed['host name']}".encode() + b"\xff",
    )
    answers.env = {
        "HOME": f"/home/{seed['user']}",
        "HF_TOKEN": seed["Hugging Face token"],
        "AWS_SECRET_ACCESS_KEY": seed["AWS secret"],
        "SLURM_JOB_NODELIST": "qx[017-020]",
        "SLURM_JOB_NAME": seed["job"],
        "SLURM_JOB_ACCOUNT": seed["account"],
        "NCCL_DEBUG": "INFO",
        "DB": f"postgres://wren:{seed['URL password']}@{seed['public address']}/x",
    }
    answers.nvml("nvmlDeviceGetSerial", 0, value=seed["GPU serial"])
    answers.nvml("nvmlDeviceGetUUID", 0, value=f"GPU-{seed['GPU UUID']}")
    answers.nvml(
        "nvmlDeviceGetGpuFabricInfoV",
        0,
        value={"clusterUuid": list(bytes.fromhex(seed["GPU UUID"].replace("-", "")))},
    )
    everything = "\n".join(
        (
            f"Nov 21 12:00:00 {seed['host name']} kernel: eth0: link up",
            f"{seed['host name']}:1203:1203 [0] NCCL INFO Bootstrap : "
            f"Using eth0:{seed['private address']}<0>",
            f"Serial Number : {seed['GPU serial']}",
            f"inet6 {seed['IPv6 address']}/64 scope global",
            f"link/infiniband "
            f"80:00:02:08:fe:80:00:00:00:00:00:00:{':'.join(GUID[at : at + 2] for at in range(0, 16, 2))}",
            f"Node GUID: 0x{GUID}",
            f"export WANDB_API_KEY={seed['W&B key']}",
            f"OPENAI_API_KEY='{seed['OpenAI key']}'",
            f"aws_access_key_id = {seed['AWS key id']}",
            f"git clone https://x:{seed['GitHub token']}@github.com/a/b",
            f"Authorization: Bearer {seed['JWT']}",
            f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\n-----END PRIVATE KEY-----",
            f'{{"password": "{seed["plain password"]}", "hostname": "{seed["other host"]}"}}',
            f"train.py --api-token {seed['option token']} --lr 3e-4",
            f"License Key: {seed['licence key']}",
            f"{seed['host name']} ssh-ed25519 {seed['ssh host key']}",
            f"InstanceId: i-{seed['instance id']}",
            f"contact {seed['e-mail']}",
            f"NodeName={seed['neighbour in a node list']} State=IDLE",
            base64.b64encode(
                f"machine {seed['other host']} login {seed['user']} password "
                f"{seed['plain password']}".encode()
            ).decode(),
            f"https://x.invalid/?next={urllib.parse.quote('password=' + seed['plain password'], safe='')}",
            seed["host name"].upper(),
            f"{seed['user'].title()} at {seed['host name']}-ib0",
            seed["MAC"].replace(":", "-").upper(),
            GUID.upper(),
            seed["GPU UUID"].upper(),
        )
    )
    answers.command(
        ("sh", "-c", f"cat /home/{seed['user']}/log"),
        CommandResult(stdout=everything.encode(), stderr=everything.encode()),
    )
    answers.command(
        ("scontrol", "show", "node", seed["host name"]),
        CommandResult(stdout=f"NodeName={seed['host name']}".encode()),
    )
    answers.give(
        "kernel-log", (Given(name=f"/home/{seed['user']}/{seed['host name']}-dmesg.txt", text=everything),)
    )
    return answers.recording(f"live {seed['host name']}")


def spellings(seed: str) -> set[str]:
    """Return the spellings of a value in a file: other case, without separators, encoded."""
    forms = {
        seed,
        seed.lower(),
        seed.upper(),
        seed.title(),
        urllib.parse.quote(seed, safe=""),
        json.dumps(seed)[1:-1],
    }
    forms |= {seed.encode().hex(), base64.b64encode(seed.encode()).decode().rstrip("=")[:-1]}
    if re.fullmatch(r"[0-9a-f:-]{12,}", seed):
        forms |= {re.sub("[:-]", "", seed), re.sub("[:-]", "", seed).upper()}
    if len(seed) == 16 and seed == GUID:
        forms |= {GUID_GROUPS, GUID_PAIRS}
    return forms


@pytest.mark.parametrize("name", SEEDS)
def test_no_seed_is_left_in_any_spelling(name: str) -> None:
    before = dump_recording(seeded()).decode()
    redacted, _ = redact(seeded(), salt=b"a")
    document = dump_recording(redacted).decode()
    hidden = " ".join(
        base64.b64decode(run + "=" * (-len(run) % 4), altchars=b"-_").decode("latin-1")
        for run in re.findall(r"[A-Za-z0-9+/]{16,}", document)
        if len(run) % 4 != 1
    )
    assert any(form in before for form in spellings(SEEDS[name])) or name in {"neighbour in a node list"}
    for form in spellings(SEEDS[name]):
        assert form not in document
        assert form not in hidden


def test_numbers_that_are_a_uuid_are_replaced_too() -> None:
    redacted, _ = redact(seeded(), salt=b"a")
    source = StoredSource(redacted)
    fabric, uuid = source.nvml("nvmlDeviceGetGpuFabricInfoV", 0), source.nvml("nvmlDeviceGetUUID", 0)
    assert isinstance(fabric, dict)
    assert isinstance(uuid, str)
    numbers = bytes(fabric["clusterUuid"])  # type: ignore[arg-type]
    assert numbers.hex() == uuid.removeprefix("GPU-").replace("-", "")


def test_placeholders_keep_form_and_relations() -> None:
    redacted, _ = redact(seeded(), salt=b"a")
    source = StoredSource(redacted)
    guid = source.read("/sys/class/infiniband/mlx5_0/node_guid")
    gid = source.read("/sys/class/infiniband/mlx5_0/ports/1/gids/0")
    assert isinstance(guid, bytes)
    assert re.fullmatch(rb"([0-9a-f]{4}:){3}[0-9a-f]{4}\n", guid)
    assert gid == b"fe80:0000:0000:0000:" + guid
    mapped = source.read("/sys/class/infiniband/mlx5_0/ports/1/gids/1")
    nameserver = source.read("/etc/resolv.conf")
    assert isinstance(mapped, bytes)
    assert isinstance(nameserver, bytes)
    address = ipaddress.IPv6Address(mapped.decode().strip()).ipv4_mapped
    assert f"nameserver {address}\n".encode() in nameserver
    mac = source.read("/sys/class/net/eth0/address")
    assert isinstance(mac, bytes)
    assert re.fullmatch(rb"02(:[0-9a-f]{2}){5}\n", mac)
    serial = source.nvml("nvmlDeviceGetSerial", 0)
    assert isinstance(serial, str)
    assert re.fullmatch(r"\d{13}", serial)
    host = source.read("/proc/sys/kernel/hostname")
    assert isinstance(host, bytes)
    answer = source.run(("scontrol", "show", "node", host.decode().strip()))
    assert answer.stdout == b"NodeName=" + host.strip()
    nodes = source.env("SLURM_JOB_NODELIST")
    assert isinstance(nodes, str)
    assert len(set(nodes.split(","))) == 4
    assert source.env("NCCL_DEBUG") == "INFO"


def test_the_file_is_a_recording_like_any_other() -> None:
    redacted, _ = redact(seeded(), salt=b"a")
    assert load_recording(dump_recording(redacted), "x").files == redacted.files


def test_manifest_counts_values_and_contains_none() -> None:
    _, manifest = redact(seeded(), salt=b"a")
    kinds = {row.kind: row for row in manifest.rows}
    assert set(kinds) == set(KINDS)
    assert all(0 < row.values <= row.places for row in manifest.rows)
    text = msgspec.json.encode(manifest).decode()
    assert not [name for name, seed in SEEDS.items() if seed in text]


def test_equal_salts_give_equal_placeholders_and_different_salts_different_ones() -> None:
    first, again, other = (redact(seeded(), salt=salt)[0] for salt in (b"a", b"a", b"b"))
    assert first == again
    path = "/proc/sys/kernel/hostname"
    assert first.files[path] != other.files[path]


def test_a_kind_can_be_kept() -> None:
    redacted, manifest = redact(seeded(), salt=b"a", keep=frozenset({"hostname", "mac"}))
    assert redacted.files["/proc/sys/kernel/hostname"] == "qx17\n"
    assert redacted.files["/sys/class/net/eth0/address"] == f"{SEEDS['MAC']}\n"
    assert manifest.kept == ("hostname", "mac")
    with pytest.raises(ValueError, match="colour"):
        redact(seeded(), salt=b"a", keep=frozenset({"colour"}))


@pytest.mark.parametrize(
    "text",
    [
        "0000:1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)",
        "MLNX_OFED_LINUX-5.8-3.0.7.0:",
        "cudnn version: 8.9.7.29",
        "driver_version 550.54.15, vbios 96.00.74.00.01",
        "TOKENIZERS_PARALLELISM=false max_tokens=4096 NCCL_IB_PKEY=0",
        "127.0.0.1 ::1 255.255.255.0 0.0.0.0 169.254.169.254",
        "00000000-0000-0000-0000-000000000000 00:00:00:00:00:00 ff:ff:ff:ff:ff:ff 0x0000000000000000",
        "Serial Number : N/A",
        "cpumap 00000000,ffffffff,ffffffff",
        "Region 0: Memory at 3dc000000000 (64-bit) resource 0x00003dc000000000",
        "RAX: ffff8881a2b3c4d5",
        "2024-11-21-10-11-12",
        "GPU 0: NVIDIA H100 80GB HBM3",
        "user@1000.service: Deactivated",
        "nvidia.com/gpu: 8",
        "std::vector<c10::Error>",
    ],
)
def test_text_that_identifies_nobody_is_kept(text: str) -> None:
    redactor = TextRedactor(b"a")
    redactor.learn(text)
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("alice7@qnode17:~$ nvidia-smi", "qnode17"),
        ("[alice7@qnode17 ~]$ ls", "alice7"),
        ('{\\"name\\":\\"DB_PASSWORD\\",\\"value\\":\\"s3cr3tPw!\\"}', "s3cr3tPw!"),
        ("- name: MY_PASSWORD\n  value: hunter22x", "hunter22x"),
        ("machine a.b\n  login joe7\n  password pw0123", "pw0123"),
        ("AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1==;", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1"),
        ("https://hooks.slack.com/services/T000/B000/XXXXXXXX", "B000"),
        ("python train.py --wandb-key=abc123def456", "abc123def456"),
        ("JobId=12 UserId=alice7(1000) NodeList=qnode[001-004,007]", "qnode"),
        ("14.201.37.10.in-addr.arpa name = x.", "14.201.37.10"),
        ("PTR node5.hpc.uni-x.de", "uni-x"),
        ("SNMP Community String : s3cretcomm", "s3cretcomm"),
        ("root:$6$saltsalt$abcdefghijklmnopqrstuv:19000:0", "abcdefghijklmnop"),
        ("00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff host key", "44:55"),
        ("mac 1c34.da12.3456", "1c34.da12"),
        ("fe80::1e34:daff:fe12:3456%eth0", "daff:fe12"),
        ("ip-10-201-37-14.ec2.internal", "10-201-37-14"),
        ("arn:aws:iam::123456789012:role/x", "123456789012"),
        ("10.201.37.14-10.201.37.19", "10.201.37.19"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA", "b3BlbnNzaC1rZXk"),
    ],
)
def test_shapes_and_contexts(text: str, hidden: str) -> None:
    redactor = TextRedactor(b"a")
    redactor.learn(text)
    assert hidden in text
    assert hidden not in redactor.text(text)


def test_a_file_that_begins_with_a_secret_keeps_the_rest() -> None:
    assert TextRedactor(b"a").text("API_KEY=abcdef12\nNCCL_DEBUG=INFO\n").endswith("\nNCCL_DEBUG=INFO\n")


@given(first=st.ip_addresses(v=4), second=st.ip_addresses(v=4))
def test_redacted_addresses_keep_a_long_common_prefix(
    first: ipaddress.IPv4Address, second: ipaddress.IPv4Address
) -> None:
    redactor = TextRedactor(b"a")
    first_now, second_now = (
        ipaddress.IPv4Address(redactor.text(f"addr {address}").split()[1]) for address in (first, second)
    )
    shared = 32 - (int(first) ^ int(second)).bit_length()
    after = 32 - (int(first_now) ^ int(second_now)).bit_length()
    special = [
        a.is_loopback or a.is_multicast or int(a) >> 24 in (0, 255) or a.is_reserved for a in (first, second)
    ]
    assert (first_now == second_now) == (first == second)
    if shared >= 16 and not any(special):
        assert after == shared
    for before, now in ((first, first_now), (second, second_now)):
        assert before.is_loopback == now.is_loopback
        assert [before in net for net in PRIVATE] == [now in net for net in PRIVATE]


PRIVATE = tuple(
    map(
        ipaddress.IPv4Network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"),
    )
)


@given(st.text(max_size=300))
def test_any_text_survives(text: str) -> None:
    redactor = TextRedactor(b"a")
    redactor.learn(text)
    assert isinstance(redactor.text(text), str)


def test_a_long_hostile_text_is_redacted() -> None:
    """A pattern that looks back or ahead without a bound would make this test very slow."""
    redactor = TextRedactor(b"a")
    for text in (
        "a=" * 20_000,
        "-----BEGIN " * 5_000,
        "a." * 20_000,
        "%41" * 20_000,
        "ab:" * 20_000,
        "x[1," * 10_000,
    ):
        assert redactor.text(text) is not None


@pytest.mark.parametrize("length", [8, 12, 17])
def test_placeholders_are_as_long_as_documented(length: int) -> None:
    book = Book(b"a")
    assert len(book.digits("cloud", "value", length)) == length
    assert re.fullmatch(r"host-[0-9a-f]{8}", book.word("hostname", "qx17", "host"))


@pytest.mark.parametrize(
    ("kind", "value", "placeholder"),
    [
        ("mac", "001a2b3c4d5e", "0d2dfa4a14"),
        ("secret", "a", "639a95c4047ec1a57e53bf41bb68ca2a07ad5ca5"),  # longer than one hash
    ],
)
def test_a_salt_gives_the_placeholders_of_earlier_versions(kind: str, value: str, placeholder: str) -> None:
    assert Book(b"salt").digits(kind, value, len(placeholder)) == placeholder


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (("ssh", "-p", "22", "quillhost"), ("ssh", "-p", "22")),
        (("scontrol", "show", "--all"), ("scontrol", "show", "--all")),
        (("ssh",), ("ssh",)),
        (("cat", "quillhost"), ("cat", "quillhost")),
    ],
)
def test_the_last_word_of_a_command_for_hosts_is_a_host_unless_it_is_an_option(
    command: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    answers = Answers()
    answers.command(command, CommandResult(stdout=b"connected to quillhost"))
    redacted, _ = redact(answers.recording("here"), salt=b"salt")
    (answer,) = redacted.commands
    assert answer.argv[: len(kept)] == kept
    assert len(answer.argv) == len(command)
    assert ("quillhost" in f"{answer.argv} {answer.stdout}") == (command == kept)
