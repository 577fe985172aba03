"""Settings of lint in a file: `rigtune-lint.toml`, or `[tool.rigtune.lint]` of `pyproject.toml`."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from assistant.storage import read_bytes
from probes.base.errors import InputError
from probes.base.record import StrictRecord
from probes.base.toml_text import parse_toml

FailOn = Literal["error", "warning", "note", "never"]
OWN_NAME = "rigtune-lint.toml"
_SHARED_NAME = "pyproject.toml"
_LONGEST_BYTES = 1024 * 1024


class LintSettings(StrictRecord, kw_only=True, rename="kebab"):
    """Settings; options of the command line replace them, except that `--ignore` adds to them."""

    select: tuple[str, ...] = ()
    """Ids of rules or patterns; empty for all rules."""
    ignore: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = {}
    """Ids of ignored rules, by a pattern of file names."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that are not judged if they were found in a folder."""
    fail_on: FailOn | None = None
    nccl_version: str | None = None
    torch_version: str | None = None
    slurm_version: str | None = None


def settings_in(folder: Path) -> LintSettings:
    """Return the settings of the nearest file in the folder or above, up to the root of the repository.

    Raises InputError for a file that is not TOML or has an unknown field.
    """
    for above in (folder, *folder.parents):
        for name in (OWN_NAME, _SHARED_NAME):
            settings = _settings(above / name) if _exists(above / name) else None
            if settings is not None:
                return settings
        if _exists(above / ".git"):
            break
    return LintSettings()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # this user may not search a folder above
        return False


def settings_of(path: Path) -> LintSettings:
    """Return the settings of a file. Raises InputError."""
    return _settings(path) or LintSettings()


def _settings(path: Path) -> LintSettings | None:
    text = read_bytes(path, limit_bytes=_LONGEST_BYTES).decode("utf-8", "replace")
    is_shared = path.name == _SHARED_NAME
    if is_shared and "rigtune" not in text:
        return None
    content: Any = parse_toml(text, str(path))
    if is_shared:
        for key in ("tool", "rigtune", "lint"):
            content = content.get(key) if isinstance(content, dict) else None
        if content is None:
            return None
    try:
        return msgspec.convert(content, LintSettings)
    except msgspec.ValidationError as error:
        fields = ", ".join(LintSettings.__struct_encode_fields__)
        raise InputError(f"{path}: {error}", f"the fields are {fields}") from None
