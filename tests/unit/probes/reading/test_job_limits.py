"""Test the source of a job's limits: the batch system's daemon, its unit, a login, or else the caller."""

from __future__ import annotations

import pytest

from probes.collect import resources
from probes.collect.collecting import CollectOptions
from probes.facts import Limits
from probes.parsers.host.limit_files import parse_pam_limits, parse_unit
from tests.support.fake_source import FakeSource

CALLER = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            1024                 524288               files     \n"
    "Max locked memory         65536                65536                bytes     \n"
)
SLURMD = (
    "Max open files            131072               524288               files     \n"
    "Max locked memory         unlimited            unlimited            bytes     \n"
)
OF_UNIT = "of the unit slurmd.service"
SLURM = {"/etc/slurm/slurm.conf": "ClusterName=c\n"}
UNIT = "[Service]\nExecStart=/usr/sbin/slurmd -D\nLimitNOFILE=131072\nLimitMEMLOCK=infinity\n"
DAEMON = {
    "/run/slurmd.pid": "812\n",
    "/proc/812/comm": "slurmd\n",
    "/proc/812/limits": SLURMD,
}


def limits(files: dict[str, str], environment: dict[str, str] | None = None) -> Limits:
    source = FakeSource(files={"/proc/self/limits": CALLER, **files}, env=environment or {})
    answer = resources.collect_limits(source, CollectOptions())["limits"]
    assert isinstance(answer, Limits)
    return answer


@pytest.mark.parametrize(
    ("files", "memlock", "nofile", "owner"),
    [
        ({}, 65536, 1024, "of the calling process"),
        (DAEMON, "unlimited", 131072, "of slurmd, process 812"),
        (
            {
                "/etc/slurm/slurm.conf": "ClusterName=c\nSlurmdPidFile=/var/%n.pid # ours\n",
                "/proc/sys/kernel/hostname": "x.example.org\n",
                "/var/x.pid": "812",
                "/proc/812/comm": "slurmd\n",
                "/proc/812/limits": SLURMD,
            },
            "unlimited",
            131072,
            "of slurmd, process 812",
        ),
        # The process id belongs to another process now.
        (DAEMON | {"/proc/812/comm": "bash\n"}, 65536, 1024, "of the calling process"),
        (
            {
                "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs": "811\n812\n",
                "/proc/811/comm": "sh\n",
                "/proc/812/comm": "slurmd\n",
                "/proc/812/limits": SLURMD,
            },
            "unlimited",
            131072,
            "of slurmd, process 812",
        ),
        ({"/usr/lib/systemd/system/slurmd.service": UNIT}, 65536, 1024, "of the calling process"),
        (SLURM | {"/usr/lib/systemd/system/slurmd.service": UNIT}, "unlimited", 131072, OF_UNIT),
        (
            SLURM
            | {
                "/usr/lib/systemd/system/slurmd.service": UNIT,
                "/etc/systemd/system/slurmd.service.d/90-site.conf": "[Service]\nLimitMEMLOCK=64M:128M\n",
            },
            64 << 20,
            131072,
            OF_UNIT,
        ),
        (
            {"/etc/security/limits.d/90-memlock.conf": "* soft memlock unlimited\n* - nofile 200000\n"},
            "unlimited",
            200000,
            "of a login, in /etc/security/limits.d/90-memlock.conf",
        ),
        (
            {"/.dockerenv": "", "/etc/security/limits.conf": "* - memlock 64\n"},
            65536,
            1024,
            "of the calling process",
        ),
    ],
)
def test_the_limit_of_the_job_is_judged_and_its_owner_named(
    files: dict[str, str], memlock: int | str, nofile: int, owner: str
) -> None:
    answer = limits(files)
    assert (answer.memlock_for_training, answer.nofile_for_training) == (memlock, nofile)
    assert (answer.memlock_owner, answer.nofile_owner) == (owner, owner)
    assert (answer.memlock_bytes, answer.nofile) == (65536, 1024)


def test_a_process_of_a_job_has_the_limits_of_the_job() -> None:
    assert limits(DAEMON, {"SLURM_JOB_ID": "17"}).memlock_owner == "of the calling process"


def test_a_limit_of_a_login_replaces_only_what_its_file_sets() -> None:
    text = "# * soft nofile 9\n*\t-\tmemlock\tunlimited\n@hpc - nofile 5\n"
    answer = limits({"/etc/security/limits.conf": text})
    assert (answer.memlock_for_training, answer.nofile_for_training) == ("unlimited", 1024)
    assert answer.nofile_owner == "of the calling process"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LimitMEMLOCK=8M\nLimitMEMLOCK=infinity\n", {"memlock": "unlimited"}),
        ("LimitMEMLOCK=\n", {"memlock": None}),
        ("#LimitNOFILE=1\nLimitNOFILE=1024:524288\n", {"nofile": 1024}),
        ("LimitNOFILE=many\nLimitNOFILESoft=3\n", {}),
        ("\0" * 99999, {}),
    ],
)
def test_units(text: str, expected: dict[str, object]) -> None:
    assert parse_unit(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* soft memlock 64\n", {"memlock": 65536}),
        ("* hard memlock unlimited\n", {}),
        ("* - memlock -1 # all\nroot - nofile 7\n", {"memlock": "unlimited"}),
        ("* soft nofile 1x\n", {}),
        ("* " * 50000, {}),
    ],
)
def test_limits_of_logins(text: str, expected: dict[str, object]) -> None:
    assert parse_pam_limits(text) == expected
