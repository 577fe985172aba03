"""Parse the arguments of the kernel's command line.

Source: Linux kernel documentation, The kernel's command-line parameters; lib/cmdline.c, next_arg (2026-06).
"""

from probes.base.patterns import pattern

_ARGUMENT = pattern(r'(?:[^\s"]|"[^"]*"?)+')


def kernel_arguments(command_line: str) -> tuple[str, ...]:
    """Return the arguments in order, as `normal_argument` writes them.

    Text in double quotes may contain blanks. Arguments after `--` are left out, because they belong to init
    and not to the kernel.
    """
    words = _ARGUMENT.findall(command_line)
    return tuple(normal_argument(word) for word in words[: words.index("--") if "--" in words else None])


def normal_argument(argument: str) -> str:
    """Return an argument without quotes, with _ for - in its name: the kernel treats both alike."""
    name, sign, value = argument.replace('"', "").partition("=")
    return name.replace("-", "_") + sign + value
