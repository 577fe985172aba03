"""Names that launchers and training programs give to settings (`recipes/data/spellings.toml`)."""

import functools
from typing import NamedTuple

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.planning.programs import load_programs

ALIASES = {
    "recompute_granularity": "activation_checkpointing",
    "sharded_recomputation": "activation_checkpointing",
    "plain_recomputation": "activation_checkpointing",
    "hybrid_replicas": "dp",
    "hybrid_shards": "fsdp",
    "zero1": "sharding=zero1",
    "cosine_final_share": "final_share",
    "wsd_final_share": "final_share",
    "two_betas": "betas",
}
"""Settings of `programs.toml` that a recipe calls by another name."""


class Spelling(StrictRecord, kw_only=True):
    """The names of one launcher, scheduler or program."""

    owner: str
    names: dict[str, str] = {}
    """Setting, or `setting=value`, by the owner's name for it; a name with a blank setting states nothing."""
    values: dict[str, dict[str, str]] = {}
    """rigtune's word by the owner's word, for each setting or owner's name; a blank word states nothing."""
    also: dict[str, str] = {}
    """Further setting that some values state (offload in `full_shard offload`), by the owner's name.

    `values` lists the words for the further setting.
    """
    defaults: dict[str, str] = {}
    """The owner's default for a setting, in rigtune's words; a blank word means that the default is unknown.

    The defaults of the owners in `like` apply too.
    """
    launcher: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    modules: dict[str, str] = {}
    like: tuple[str, ...] = ()
    """Other owners whose names this owner understands too."""
    source: str
    date: str


class Meaning(NamedTuple):
    """A setting of rigtune, and its value."""

    setting: str
    value: str


@functools.lru_cache(maxsize=1)
def load_spellings() -> dict[str, Spelling]:
    """Return all rows by owner."""
    return {row.owner: row for row in load_rows("recipes", "spellings", Spelling)}


def plain(name: str) -> str:
    """Return a name without leading dashes, and with `_` for `-`."""
    return name.lstrip("-").replace("-", "_")


@functools.lru_cache(maxsize=64)
def names_of(owner: str) -> dict[str, str]:
    """Return the settings by the owner's names, also those of `programs.toml` and of the owners in `like`."""
    row, program = load_spellings().get(owner), load_programs().get(owner)
    names: dict[str, str] = {}
    for relative in row.like if row is not None else ():
        names |= names_of(relative)
    if program is not None:
        for setting, name in program.settings.items():
            if name and " " not in name:
                names[plain(name)] = ALIASES.get(setting, setting)
    return names | (row.names if row is not None else {})


@functools.lru_cache(maxsize=64)
def _own_words(setting: str) -> frozenset[str]:
    """Return all of rigtune's words for the values of a setting for which some program has a word."""
    return frozenset(word for program in load_programs().values() for word in program.values.get(setting, ()))


@functools.lru_cache(maxsize=64)
def _values_of(owner: str) -> dict[str, dict[str, str]]:
    """Return rigtune's word by setting and the owner's word."""
    row, program = load_spellings().get(owner), load_programs().get(owner)
    values: dict[str, dict[str, str]] = {}
    for relative in row.like if row is not None else ():
        for setting, words in _values_of(relative).items():
            values.setdefault(setting, {}).update(words)
    for setting, words in program.values.items() if program is not None else ():
        # a word with blanks describes several settings of the program
        backwards = {
            # if the program has one word for several words of rigtune, the first counts; a word that both
            # rigtune and the program use means the same in both
            theirs: theirs if theirs in _own_words(setting) else ours
            for ours, theirs in reversed(words.items())
            if theirs and " " not in theirs
        }
        values.setdefault(ALIASES.get(setting, setting), {}).update(backwards)
    for setting, words in row.values.items() if row is not None else ():
        values.setdefault(setting, {}).update(words)
    return values


@functools.lru_cache(maxsize=64)
def defaults_of(owner: str) -> dict[str, str]:
    """Return the owner's default of each setting, in rigtune's words, without unknown defaults."""
    row = load_spellings().get(owner)
    if row is None:
        return {}
    inherited = {name: value for each in row.like for name, value in defaults_of(each).items()}
    return {name: value for name, value in (inherited | row.defaults).items() if value}


_OPEN = ("auto", "null", "none", "")
_FALSE = ("false", "no", "0", "none")


def meaning(owner: str, name: str, value: str) -> Meaning | None:
    """Return the setting that `name` states for this owner, with rigtune's word for its value.

    None if the name is unknown or the value states nothing, such as `auto` or a switch that is off.
    """
    setting = _setting(owner, plain(name))
    if not setting:
        return None
    setting, sign, implied = setting.partition("=")
    if sign:
        return None if value.lower() in (*_OPEN, *_FALSE) else Meaning(setting, implied)
    values = _values_of(owner)
    words = values.get(plain(name), values.get(setting, {}))
    known = words.get(value, words.get(value.lower()))
    if known is not None:
        return Meaning(setting, known) if known else None
    return None if value.lower() in _OPEN else Meaning(setting, value)


def leaves_open(owner: str, name: str, value: str) -> bool:
    """Return whether a known setting has a value that states nothing: `auto`, or a switch that is off."""
    setting = _setting(owner, plain(name))
    is_off = "=" in setting and value.lower() in _FALSE
    return bool(setting) and (is_off or value.lower() in _OPEN) and meaning(owner, name, value) is None


def also_stated(owner: str, name: str, value: str) -> Meaning | None:
    """Return the further setting that a value states, such as offload in `full_shard offload`; or None."""
    row = load_spellings().get(owner)
    for each in filter(None, (row, *(map(load_spellings().get, row.like) if row is not None else ()))):
        setting = each.also.get(plain(name), "")
        word = each.values.get(setting, {}).get(value)
        if word:
            return Meaning(setting, word)
    return None


def _setting(owner: str, name: str) -> str:
    names = names_of(owner)
    if name in names:
        return names[name]
    ends = (text for text in names if text.startswith("*") and name.endswith(text[1:]))
    longest = max(ends, key=len, default="")
    return names[longest] if longest else ""


def is_of_launcher(owner: str, name: str) -> bool:
    """Return whether the launcher that rigtune writes sets this option itself."""
    row = load_spellings().get(owner)
    return row is not None and plain(name) in row.launcher


def names_file(owner: str, name: str) -> bool:
    """Return whether the option names a file that belongs to the launch."""
    row = load_spellings().get(owner)
    relatives = row.like if row is not None else ()
    own = row is not None and plain(name) in row.files
    return own or any(names_file(relative, name) for relative in relatives)


def module_of(words: tuple[str, ...]) -> str:
    """Return the Python module that the first two words of a command line start; empty if none is known."""
    command = " ".join(words[:2])
    return next((row.modules[command] for row in load_spellings().values() if command in row.modules), "")


def spelled_as(owner: str, name: str, setting: str, value: str, before: str) -> str | None:
    """Return the owner's word for a value, of the same form as the word `before`; None if there is none.

    The forms are truth values, numbers and other words. The value itself is returned if the owner has no list
    of words for the setting, or if the value is a number that the list lacks.
    """
    implied = _setting(owner, name).partition("=")
    if implied[1]:
        return before if implied[2] == value else None
    values = _values_of(owner)
    words = values.get(name, values.get(setting))
    if words is None:
        return value
    fitting = [theirs for theirs, ours in words.items() if ours == value]
    same = [theirs for theirs in fitting if _form(theirs) == _form(before)]
    if same:
        return same[0].capitalize() if before[:1].isupper() and _form(before) == "truth" else same[0]
    return value if not fitting and value.isdigit() else None


def _form(word: str) -> str:
    if word.lower() in ("true", "false"):
        return "truth"
    return "number" if word.isdigit() else "word"


_MORE_FOLLOWS = " over"
"""End of the names that are descriptions and not options: a number of ranks follows "fully_shard over"."""


def option_for(owner: str, setting: str, value: str) -> str | None:
    """Return the command-line option that states a setting for a program; None if none is known."""
    program = load_programs().get(owner)
    if program is not None and any(name.endswith(_MORE_FOLLOWS) for name in program.settings.values()):
        return None  # its settings are descriptions: the options of a person's own code are unknown
    same = [key for key in (() if program is None else program.settings) if ALIASES.get(key, key) == setting]
    # a name without a dot is an option; names with dots are keys in blocks of a file
    key = min(same, key=lambda each: "." in program.settings[each], default="") if program else ""
    name = program.settings.get(key, "") if program else ""
    words = program.values.get(key, {}) if program else {}
    if name.startswith("--"):
        word = words.get(value, value)
        return name if word == "true" else f"{name} {word}"
    for theirs, ours in names_of(owner).items():
        if ours == f"{setting}={value}" and "." not in theirs and "*" not in theirs:
            return f"--{theirs.replace('_', '-')}"
    if name and " " not in name and "." not in name and "=" not in name:
        return f"--{name} {words.get(value, value)}"
    return None
