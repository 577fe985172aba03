"""Collection of the settings in the files of one launch. Other commands and values are kept as text."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from probes.base.record import is_invisible
from recipes.launch.imports.chains import (
    EXTRA_ARGUMENTS,
    LAUNCHERS,
    STRUCTURE,
    Chain,
    OptionUse,
    certainty,
    chains,
    escaped,
    is_idle,
    main_chain,
    options_of,
    overrides_of,
    words_of,
)
from recipes.launch.imports.collected import (
    BY_LAUNCHER,
    FILLED,
    IN_THE_RUN,
    LITERAL,
    NOT_UNDERSTOOD,
    READ_TOO,
    WITHHELD,
    Collected,
    Spelled,
    statement_of,
    why_kept,
)
from recipes.launch.imports.coverage import Coverage
from recipes.launch.imports.hidden_secrets import (
    HIDDEN,
    is_secret,
    reference_in,
    referring,
    secret_values,
    without_secrets,
)
from recipes.launch.imports.program_of_launch import program_of_launch
from recipes.launch.imports.run_values import RunValues
from recipes.launch.imports.site_commands import SLOT, site_commands
from recipes.launch.imports.spelled_settings import (
    Meaning,
    also_stated,
    is_of_launcher,
    meaning,
    names_file,
)
from recipes.launch.imports.training_files import LaunchFile, from_document
from recipes.launch.recipe import Environment, Kept
from recipes.launch.reserved_variables import SET_BY_LAUNCHER, SHELL_OWN
from recipes.launch.slots import fits_slot
from recipes.lint.document import Command, Entry, Place, Setting
from recipes.lint.parts import embedded
from recipes.lint.views import starts
from recipes.planning.programs import OWN

_NOT_COPIED = "a secret is not copied into a recipe"
_HIDES = f"{_NOT_COPIED}; export the variable in the shell that starts the job"
_OTHER = "another command of the script"
_WRAPPER = "rigtune's launchers start the program without this wrapper"
_SIGNS_OF_WORDS = {"torchtune": "=", "torchtitan": ":"}
"""Sign between name and value in arguments that are settings but do not begin with dashes, by program.

Examples are `batch_size=2` of torchtune and `activation-checkpoint:full` of torchtitan.
"""
_OWN_WORDS = ("own", "accelerate", "deepspeed", "lightning", "horovod", "tensorflow", "torch")
"""Programs whose arguments are the user's own."""


def collect(files: Sequence[LaunchFile]) -> Collected:
    """Return everything that the files state."""
    return _Collector(files).run()


class _Collector:
    def __init__(self, files: Sequence[LaunchFile]) -> None:
        inner = [
            part
            for file in files
            if file.document is not None
            for document in embedded(file.document)
            if (part := from_document(document)) is not None
        ]
        self.files = (*files, *inner)
        self.inner = inner
        self._given = {file.name.rpartition("/")[2] for file in files}
        self.run_values = RunValues(self.files)
        self.secrets = secret_values(self.files, self.run_values)
        self.result = Collected()
        self.covered = {
            file.name: Coverage(file.text, frozenset(item.name for item in file.settings)) for file in files
        }

    def run(self) -> Collected:
        chosen = self._chosen()
        if chosen:
            self.result.chain = chosen[-1][1]
        self.result.program = program_of_launch(self.result.chain, self.files)
        for file, chain in chosen:
            self._chain(file, chain)
        for file in self.files:
            self._directives(file)
        for file, chain in chosen:
            self._site(file, chain)
        for file in self.files:
            self._variables(file, chosen)
            self._entries(file)
        for part in self.inner:
            for line, text in enumerate(part.text.split("\n"), start=1):
                if text.strip():
                    self.covered[part.name].cover_line(line)
        for file in self.files[: len(self.files) - len(self.inner)]:
            self._rest(file)
        return self.result

    def _chosen(self) -> list[tuple[LaunchFile, Chain]]:
        """Return the chain that starts the training; before it, the chain that starts its script, if there is
        one.
        """
        by_file = [
            (file, chain)
            for file in self.files
            if file.commands and (chain := main_chain(_chains(file))) is not None
        ]
        training = [pair for pair in by_file if pair[1].is_training] or by_file
        if not training:
            return []
        main = max(training, key=lambda pair: certainty(pair[1]))
        outer = [
            (file, chain)
            for file, _ in by_file
            if file is not main[0]
            for chain in _chains(file)
            if chain.starts_script and chain.leaf.program == main[0].name.rpartition("/")[2]
        ]
        return [*outer[:1], main]

    def _chain(self, file: LaunchFile, chain: Chain) -> None:
        """Read the options of the launchers in a chain. If the chain starts the training, also read the
        arguments of the program.
        """
        for command in chain.commands[:-1]:
            self._cover(file, command)
            self._launcher(file, command)
        self._cover(file, chain.leaf)
        if chain is not self.result.chain:
            return
        owner = OWN if self.result.program in _OWN_WORDS else self.result.program
        sign = _SIGNS_OF_WORDS.get(owner, "")
        words = overrides_of(chain.leaf, sign) if sign else ()
        for use in (*options_of(chain.leaf, of_program=True), *words):
            is_stated = self._state(file, msgspec.structs.replace(use, owner=owner))
            if owner == OWN and use.is_literal and not is_stated:
                spelled = Spelled(owner, use.name, use.value, use.written)
                self.result.unnamed.append(
                    statement_of(file.name, Meaning("", use.value), spelled, use.value_place)
                )
        self._arguments(file, chain.leaf)

    def _arguments(self, file: LaunchFile, leaf: Command) -> None:
        """Fill in the arguments whose values the script determines; refer to secrets by a variable."""
        typed = referring([argument.text for argument in leaf.arguments])
        for argument in leaf.arguments:
            text, line = argument.text, argument.place.line
            is_open = not argument.is_literal or text.startswith("~/")
            written = self._written(file, argument.place)
            value = self.run_values.resolved(text) if "$" in text else None
            if text in typed or ("$" in written and self._hides(value or text)):
                self.result.filled[text] = reference_in(written) if "$" in written else typed[text]
                self._keep(file, line, self.result.filled[text], WITHHELD)
            elif is_open and text not in EXTRA_ARGUMENTS:
                is_plain = value is not None and not set("\\\"'") & set(value)  # else the shell alters it
                if value is not None and is_plain:
                    self.result.filled[text] = escaped(value)
                self._keep(file, line, text, FILLED if is_plain else LITERAL)

    def _written(self, file: LaunchFile, place: Place) -> str:
        """Return a word as the file spells it, with its variables.

        A bare `$NAME` has the place of the value that is assigned to NAME, so the name is looked up.
        """
        names = [item.name for item in file.settings if item.value_place == place]
        return f"${names[0]}" if names else self._text(file, place).strip("\"'")

    def _hides(self, value: str) -> bool:
        return any(secret in value for secret in self.secrets)

    def _launcher(self, file: LaunchFile, command: Command) -> None:
        """Read a launcher's options; keep a wrapper that rigtune's launchers do not start."""
        if starts(command) in LAUNCHERS:
            if "/" in command.written:
                self._keep(file, command.place.line, command.written, BY_LAUNCHER)
            for use in options_of(command):
                self._option(file, use)
        elif command.program == "python":
            self._interpreter(file, command)
        elif not is_idle(command):
            self._keep(file, command.place.line, " ".join(words_of(command)), _WRAPPER)

    def _interpreter(self, file: LaunchFile, command: Command) -> None:
        """Add the path of the interpreter, and keep its options.

        `-m` and `-u` are not kept: the recipe states a module as such, and rigtune's command has `-u` too.
        """
        if not command.is_literal:
            self._keep(file, command.place.line, command.written, IN_THE_RUN)
        elif command.written not in ("python", "python3"):
            spelled = Spelled("shell", "python", command.written, command.written)
            self._add(file, Meaning("python", command.written), spelled, command.place)
        extra = [word.text for word in command.arguments if word.text not in ("-u", "-m")]
        module = command.options.get("module")
        extra = [word for word in extra if word != module]
        if extra:
            self._keep(file, command.place.line, " ".join(extra), NOT_UNDERSTOOD)

    def _option(self, file: LaunchFile, use: OptionUse) -> None:
        """Read an option of a launcher. Keep it if it states no setting, unless it only describes the
        command.
        """
        if use.name in STRUCTURE or ("=" in use.value and use.name == "x") or self._state(file, use):
            return
        is_given = names_file(use.owner, use.name) and use.value.rpartition("/")[2] in self._given
        is_ours = is_of_launcher(use.owner, use.name)
        reason = NOT_UNDERSTOOD if use.is_literal else IN_THE_RUN
        reason = READ_TOO if is_given else BY_LAUNCHER if is_ours else reason
        self._keep(file, use.place.line, use.written, reason)

    def _state(self, file: LaunchFile, use: OptionUse) -> bool:
        """Add the setting that an option states; return False if none was added."""
        value = use.value if use.is_literal else self.run_values.resolved(use.value)
        if names_file(use.owner, use.name):
            self.result.named_files.append((value or use.value, f"{file.name}:{use.place.line}"))
        spelled = Spelled(use.owner, use.name, use.value, use.written)
        if value is None and (known := meaning(use.owner, use.name, "1")):
            self.result.unresolved.append(statement_of(file.name, known, spelled, use.value_place))
        stated = None if value is None else meaning(use.owner, use.name, value)
        if stated is None or not _can_fill(stated):
            return False
        self._add(file, stated, spelled, use.value_place)
        return True

    def _site(self, file: LaunchFile, chain: Chain) -> None:
        """Read the commands before the launch that prepare the site's software."""
        before = msgspec.structs.replace(
            file, commands=tuple(each for each in file.commands if _is_before(each, chain.commands[0]))
        )
        for site in site_commands(before):
            if site.setting.startswith(SLOT) and not fits_slot(site.setting.removeprefix(SLOT), site.value):
                continue
            written = "; ".join(" ".join(words_of(command)) for command in site.commands)
            # `cd` replaces the folder of `--chdir`, so both have the same owner: the last one counts
            spelled = Spelled("slurm", site.setting, site.value, written)
            self._add(file, Meaning(site.setting, site.value), spelled, site.commands[0].place)
            for command in site.commands:
                self._cover(file, command)

    def _directives(self, file: LaunchFile) -> None:
        for item in file.directives:
            text = f"#{item.scheduler} " + self._text(file, item.place)
            stated = meaning("slurm", item.name, item.value) if item.scheduler == "SBATCH" else None
            if stated is not None and stated.setting == "nodes":
                # of a range such as 4-8, the fewest nodes count, as for $SLURM_NNODES
                stated = Meaning(stated.setting, stated.value.partition("-")[0])
            if item.name == "export" and "=" in item.value:
                self.covered[file.name].cover_line(item.place.line)
            if stated is not None and item.is_read and _can_fill(stated):
                self._add(file, stated, Spelled("slurm", item.name, item.value, text), item.place)
            else:
                self._keep(file, item.place.line, text, NOT_UNDERSTOOD)
            self.covered[file.name].cover_line(item.place.line)

    def _variables(self, file: LaunchFile, chosen: Sequence[tuple[LaunchFile, Chain]]) -> None:
        """Add the variables that the training gets."""
        leaves = [chain.leaf for owner, chain in chosen if owner is file]
        items: Iterable[Setting] = [item for leaf in leaves for item in (*leaf.exported, *leaf.settings)]
        if not leaves or file.owner in ("kubernetes", "compose"):
            items = [*(item for item in file.settings if item.is_exported), *items]
        for item in items:
            self._variable(file, item)
        words = [word for _, chain in chosen for command in chain.commands for word in words_of(command)]
        for item in file.settings:
            is_shown = item.value is not None and any(item.value in word for word in words)
            if file.owner == "shell" and not item.is_exported and is_shown:
                self.covered[file.name].cover(item.place)

    def _variable(self, file: LaunchFile, item: Setting) -> None:
        if item.value is None or not item.is_literal or item.is_conditional or _is_open(item):
            return
        line = item.place.line
        covered = self.covered[file.name]
        value = item.value
        if item.name in SET_BY_LAUNCHER or item.name in SHELL_OWN:
            self._keep(file, line, f"{item.name}={item.written}", BY_LAUNCHER)
        elif self._hides(value):
            self._keep(file, line, f"{item.name}={HIDDEN}", _HIDES)
        elif any(is_invisible(character) or character in "\n\r" for character in value):
            self._keep(
                file, line, f"{item.name}={item.written}", "its value has line breaks or invisible characters"
            )
        else:
            place = f"{file.name}:{line}"
            variable = Environment(name=item.name, value=value, why=f"Yours, from {place}", source=place)
            before = [each for each in self.result.environment if each.name == item.name]
            if before:
                self.result.environment.remove(before[0])
                if before[0].value != value:
                    self._keep(file, line, f"{item.name}={before[0].value}", f"replaced in {place}")
            self.result.environment.append(variable)
        covered.cover(item.place)
        if item.value_place is not None:
            covered.cover(item.value_place)

    def _entries(self, file: LaunchFile) -> None:
        """Add the settings of a structured file, and keep its other values, unless the file is a recipe."""
        covered = self.covered[file.name]
        for entry in file.entries:
            path, value = entry.path, _text_of(entry)
            known = self.run_values.resolved(value) if "$" in value else value
            stated = None if known is None else self._of_entry(file, path, known)
            is_string = isinstance(entry.value, str)
            if names_file(file.owner, path.rpartition(".")[2]) and is_string:
                self.result.named_files.append((value, f"{file.name}:{entry.place.line}"))
            if stated is not None:
                text = self._spelled(file, entry)
                spelled = Spelled(file.owner, path, text.strip("\"'"), f"{path}: {text}")
                self._add(file, stated, spelled, entry.place)
                continue
            if file.owner == "recipe":
                continue
            if covered.is_touched(entry.place):
                end = entry.place.end_line or entry.place.line
                for line, text in covered.rest(entry.place.line, end):
                    self._keep(file, line, text, _OTHER)
                continue
            reason = why_kept(file.owner, path, value)
            if is_secret(path.rpartition(".")[2], value):
                value, reason = HIDDEN, _NOT_COPIED
            else:
                value = self._spelled(file, entry)
            self._keep(file, entry.place.line, f"{path}: {value}", reason)

    def _of_entry(self, file: LaunchFile, path: str, value: str) -> Meaning | None:
        stated = meaning(file.owner, path, value)
        if stated is None and file.owner == "accelerate":  # keys in the block of a plugin are also options
            stated = meaning(file.owner, path.rpartition(".")[2], value)
        return stated

    def _spelled(self, file: LaunchFile, entry: Entry) -> str:
        """Return the value as the file spells it, if it is on one line; otherwise as the text of the parsed
        value.
        """
        text = self._text(file, entry.place)
        is_one_line = entry.place.end_line in (None, entry.place.line)
        return text if text and is_one_line and entry.place.end_column else _text_of(entry)

    def _rest(self, file: LaunchFile) -> None:
        """Keep the lines of a script that nothing else has read."""
        if file.owner != "shell" and file.entries:
            return
        for line, text in self.covered[file.name].rest():
            if not text.startswith("#!"):
                self._keep(file, line, without_secrets(text), _OTHER)

    def _cover(self, file: LaunchFile, command: Command) -> None:
        covered = self.covered[file.name]
        covered.cover(command.place)
        for argument in command.arguments:
            place = argument.place
            # a word on several lines covers all text between its ends only if the word itself has line breaks
            if place.end_line in (None, place.line) or "\n" in argument.text:
                covered.cover(place)

    def _text(self, file: LaunchFile, place: Place) -> str:
        line = file.text.split("\n")[place.line - 1]
        return line[place.column - 1 : (place.end_column or len(line) + 1) - 1].strip()

    def _keep(self, file: LaunchFile, line: int, text: str, why: str) -> None:
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        plain = " ".join("".join(" " if is_invisible(sign) else sign for sign in text).split())
        kept = Kept(file=file.name, line=line, text=plain, why=why)
        if plain and kept not in self.result.kept:
            self.result.kept.append(kept)

    def _add(self, file: LaunchFile, stated: Meaning, spelled: Spelled, place: Place) -> None:
        more = also_stated(spelled.owner, spelled.name, spelled.value)
        for each in filter(None, (stated, more)):
            self.result.statements.append(statement_of(file.name, each, spelled, place))


def _can_fill(stated: Meaning) -> bool:
    """Return whether a setting can have this value; only slots restrict their values."""
    name = stated.setting.removeprefix(SLOT)
    return name == stated.setting or fits_slot(name, stated.value)


def _chains(file: LaunchFile) -> tuple[Chain, ...]:
    return () if file.document is None else chains(file.document)


def _is_open(item: Setting) -> bool:
    """Return whether only the shell of the run knows a part of the value, as in `PATH=/opt/bin:$PATH`."""
    outside_quotes = re.sub(r"'[^']*'", "", item.written)
    return "$" in (item.value or "") and "$" in outside_quotes


def _is_before(command: Command, other: Command) -> bool:
    return (command.place.line, command.place.column) < (other.place.line, other.place.column)


def _text_of(entry: Entry) -> str:
    value = entry.value
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
