"""Become a command that receives SIGTERM when rigtune ends, even if rigtune is killed by SIGKILL (Linux).

`assistant.processes.foreground` starts this file as a script, with the standard library only:

python tied.py RIGTUNE_PID COMMAND...

The exit status is the command's; 127 if the command cannot be started.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of prctl(2), from linux/prctl.h."""


def main(rigtune: int, command: list[str]) -> int:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != rigtune:
            return 143
    # Python ignores these two signals; the command should not.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - the command is an argument list
    except OSError as error:
        sys.stderr.write(f"rigtune: cannot start {command[0]}: {str(error.strerror).lower()}\n")
    return 127


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
