"""Read whether systemd-logind removes shared memory of users who log out (logind.conf(5), RemoveIPC)."""

from __future__ import annotations

from probes.base.record import Reason, Unknown, items_of
from probes.parsers.kernel.kernel_files import parse_commented, parse_settings, parse_switch
from probes.sources.base import Source, read_text

_FOLDERS = ("/etc/systemd", "/run/systemd", "/usr/lib/systemd")
"""Folders by rank.

The first main file counts, and a drop-in hides files of the same name in later folders.
"""
_SESSIONS = "/run/systemd/sessions"


def remove_ipc(source: Source) -> bool | Unknown:
    """Return the effective setting, or else the default that the main file shows as a comment."""
    main: str | Unknown = Unknown(Reason.TOOL_MISSING)
    for folder in _FOLDERS:
        main = read_text(source, f"{folder}/logind.conf")
        if not isinstance(main, Unknown):
            break
        if main.reason is not Reason.TOOL_MISSING:
            return main
    if isinstance(main, Unknown):
        return Unknown(Reason.NOT_SUPPORTED, "systemd-logind is not installed here")
    if source.is_live and isinstance(source.names(_SESSIONS), Unknown):
        return Unknown(Reason.NOT_SUPPORTED, "systemd-logind does not run here")
    value = parse_settings(main, "Login").get("RemoveIPC")
    for path in _drop_ins(source):
        text = read_text(source, path)
        if not isinstance(text, Unknown):
            value = parse_settings(text, "Login").get("RemoveIPC", value)
    if value is None:
        value = parse_commented(main, "Login").get("RemoveIPC")
    return Unknown(Reason.NOT_RECORDED, "no file shows the default") if value is None else parse_switch(value)


def _drop_ins(source: Source) -> tuple[str, ...]:
    """Return the drop-ins in the order in which they are applied: by name, in any folder."""
    by_name: dict[str, str] = {}
    for folder in _FOLDERS:
        for name in items_of(source.names(f"{folder}/logind.conf.d")):
            if name.endswith(".conf"):
                by_name.setdefault(name, f"{folder}/logind.conf.d/{name}")
    return tuple(by_name[name] for name in sorted(by_name))
