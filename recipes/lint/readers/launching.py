"""Commands and the commands that these start, as in `srun bash -c 'A=1 torchrun train.py'`."""

import re
from collections.abc import Callable, Sequence

import msgspec

from recipes.lint.document import Command, Setting
from recipes.lint.readers.grammars import (
    GRAMMARS,
    PER_TASK,
    REMOTE,
    REMOTE_VALUES,
    SHELLS,
    TENSORFLOW_NODE,
    Grammar,
)
from recipes.lint.readers.options import ASSIGNMENT, Argued, parse_options
from recipes.lint.readers.span import Span, fixed

_PYTHON = re.compile(r"(python|pypy)[\d.]*$")
_ALIASES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torchrun": "torchrun",
    "accelerate.commands.launch": "accelerate-launch",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "composer": "composer",
    "composer.cli": "composer",
    "composer.cli.launcher": "composer",
    "horovod.runner.launch": "horovodrun",
    "torchx.apps.main": "torchx",
}
"""Modules that are launchers."""
_NAMED_VARIABLE = re.compile(
    r"\$\{?(python|torchrun|mpirun|mpiexec|srun|deepspeed)\d?"
    r"(?:_(?:bin|exe|exec|cmd|path|interpreter))?(?::[-=][^}]*)?\}?",
    re.IGNORECASE,
)
"""A variable whose name shows the program that it contains: `$PYTHON`, `${TORCHRUN_BIN:-torchrun}`."""
_EVERYWHERE = frozenset(
    {"srun", "mpirun", "mpiexec", "mpiexec.hydra", "pdsh", "clush", "horovodrun", "orterun", "prterun"}
)
_APART = frozenset({"docker", "podman", "nerdctl", "enroot", "kubectl", "oc"})
"""Programs whose inner command gets only the variables that the options pass on."""
_STARTS_COMMANDS = frozenset({"no-python", "command-mode"})
"""Options that make torchrun, deepspeed and composer start a command instead of a script."""
_DEEPEST = 12

Reader = Callable[[Span, "Start"], None]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances in which a command is started."""

    inside: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    in_single_quotes: bool = False
    is_conditional: bool = False
    names: frozenset[str] = frozenset()
    """Variables that a shell expanded before the command was started."""
    positional: tuple[Argued, ...] = ()
    """Words after the script of `bash -c SCRIPT NAME WORDS`: the script's `$0`, and the words of its `$@`."""
    is_apart: bool = False
    """True if exports do not reach the command, because of a container, another machine or `env -i`."""

    def within(self, program: str) -> "Start":
        return msgspec.structs.replace(self, inside=(*self.inside, program))

    def apart(self, settings: tuple[Setting, ...] = ()) -> "Start":
        """Return a start that passes only these variables to the command."""
        return msgspec.structs.replace(self, settings=settings, is_apart=True)

    @property
    def is_everywhere(self) -> bool:
        return not _EVERYWHERE.isdisjoint(self.inside)


class Launches:
    """Collector of commands and of the variables that they set."""

    def __init__(
        self,
        read_script: Reader,
        inline: Callable[[Argued], tuple[Span, frozenset[str]]],
        exported: Callable[[], tuple[Setting, ...]] = tuple,
    ) -> None:
        self.commands: list[Command] = []
        self.settings: list[Setting] = []
        """Settings of `-x NAME=value`, `env NAME=value` and similar options."""
        self._read_script = read_script
        self._inline = inline
        self._exported = exported

    def start(self, words: Sequence[Argued], how: Start) -> None:
        """Read a command; `words` is a program and its arguments."""
        if not words or len(how.inside) > _DEEPEST:
            return
        program = words[0].text.rstrip("/").rpartition("/")[2] or words[0].text
        variable = _NAMED_VARIABLE.fullmatch(program)
        program = variable[1].lower() if variable is not None else program
        if _PYTHON.fullmatch(program):
            program = "python"
        self._started(program, words, how)

    def _started(self, program: str, words: Sequence[Argued], how: Start) -> None:
        if program == "env":
            self._env(words, how)
        elif program in SHELLS or program in ("eval", "su"):
            self._shell(program, words, how)
        elif program in REMOTE:
            self._remote(program, words, how)
        elif program == "python":
            self._python(words, how)
        elif program in GRAMMARS:
            self._launcher(program, GRAMMARS[program], words, how)
        else:
            parsed = parse_options(words[1:], Grammar(), starts=False)
            self._emit(program, words, len(words), parsed.options, how)

    def _emit(
        self, program: str, words: Sequence[Argued], end: int, options: dict[str, str], how: Start
    ) -> None:
        self.commands.append(
            Command(
                program=program,
                arguments=tuple(word.argument() for word in words[1:end]),
                options=options,
                place=words[0].place,
                written=words[0].text,
                is_literal=words[0].is_literal,
                inside=how.inside,
                settings=how.settings,
                exported=() if how.is_apart else self._exported(),
                in_single_quotes=how.in_single_quotes,
                is_conditional=how.is_conditional,
            )
        )

    def _launcher(self, program: str, grammar: Grammar, words: Sequence[Argued], how: Start) -> None:
        parsed = parse_options(words[1:], grammar)
        options, rest = parsed.options, None if parsed.rest is None else parsed.rest + 1
        # variables that the launcher sets reach the launcher and all commands inside of it
        own = how
        pairs = [*parsed.variables, *self._exports(program, options, words)]
        settings = tuple(
            setting for text, argument in pairs if (setting := _set_by(text, argument, how)) is not None
        )
        if settings:
            self.settings += settings
            own = msgspec.structs.replace(how, settings=(*how.settings, *settings))
        self._emit(program, words, len(words) if rest is None else rest, options, own)
        if program == "sbatch" and "wrap" in options:  # the value is a script
            wrapped = next((word for word in words if word.text.startswith("--wrap")), words[0])
            self._text(
                wrapped.without(len("--wrap=") * wrapped.text.startswith("--wrap=")), own.within(program)
            )
        if rest is None or rest >= len(words):
            return
        inner = own.within(program)
        if program in _APART:
            inner = inner.apart((*self._by_name(options, how), *settings))
        if grammar.rest == "image-command":
            rest += 1
        if grammar.rest != "script" or not _STARTS_COMMANDS.isdisjoint(options):
            self.start(words[rest:], inner)
        elif not grammar.modules.isdisjoint(options):
            self._module(words[rest].text, words[rest:], inner)
        else:
            self._script(words[rest:], inner)

    def _by_name(self, options: dict[str, str], how: Start) -> tuple[Setting, ...]:
        """Return the variables that `docker run --env NAME` passes on by name."""
        named = set(options.get("env", "").split("\n"))
        available = how.settings if how.is_apart else (*self._exported(), *how.settings)
        return tuple(setting for setting in available if setting.name in named)

    def _python(self, words: Sequence[Argued], how: Start) -> None:
        """Read a call of the interpreter.

        Words after `-m NAME`, `-c CODE` or the script are not options of the interpreter.
        """
        options: dict[str, str] = {}
        at = 1
        while at < len(words) and words[at].text.startswith("-") and words[at].text not in ("-", "--"):
            text = words[at].text
            # letters may be joined, as in `-um package.train`
            letter = re.match(r"-[A-Zabd-lo-z]*?([mcWX])(.*)", text, re.DOTALL)
            at += 1
            if letter is None or text.startswith("--"):
                options[text.lstrip("-")] = "true"
                continue
            value = letter[2]
            if not value and at < len(words):
                value = words[at].text
                at += 1
            if letter[1] == "m":
                options["module"] = value
                self._emit("python", words, at, options, how)
                self._module(value, words[at - 1 :], how.within("python"))
                return
            options[letter[1]] = value
            if letter[1] == "c":
                self._emit("python", words, len(words), options, how)
                return
        at += at < len(words) and words[at].text in ("-", "--")
        self._emit("python", words, at, options, how)
        if at < len(words):
            self._script(words[at:], how.within("python"))

    def _exports(
        self, program: str, options: dict[str, str], words: Sequence[Argued]
    ) -> list[tuple[str, Argued]]:
        """Return the assignments of `srun --export=ALL,A=1`."""
        if program not in ("srun", "sbatch", "salloc") or "export" not in options:
            return []
        argument = next((word for word in words if word.text.startswith("--export")), words[0])
        return [(part, argument) for part in options["export"].split(",") if ASSIGNMENT.match(part)]

    def _module(self, module: str, words: Sequence[Argued], how: Start) -> None:
        alias = _ALIASES.get(module)
        if alias:
            self._started(alias, words, how)
        else:
            parsed = parse_options(words[1:], Grammar(), starts=False)
            self._emit(module, words, len(words), parsed.options, how)

    def _script(self, words: Sequence[Argued], how: Start) -> None:
        program = words[0].text.rpartition("/")[2] or words[0].text
        if program == TENSORFLOW_NODE:  # a script that starts another
            self._launcher(program, GRAMMARS[program], words, how)
            return
        parsed = parse_options(words[1:], Grammar(), starts=False)
        self._emit(program, words, len(words), parsed.options, how)

    def _env(self, words: Sequence[Argued], how: Start) -> None:
        at = 1
        options: dict[str, str] = {}
        settings: list[Setting] = []
        while at < len(words):
            text = words[at].text
            if text in ("-u", "--unset") and at + 1 < len(words):
                at += 1
                settings.append(_unset(words[at]))
                options["unset"] = words[at].text
            elif text.startswith(("--unset=", "-u")) and len(text) > 2:
                options["unset"] = text.removeprefix("--unset=").removeprefix("-u")
            elif text in ("-i", "-", "--ignore-environment"):
                options["ignore-environment"] = "true"
            elif text in ("-S", "--split-string", "--"):
                pass
            elif text.startswith("-"):
                options[text.lstrip("-")] = "true"
            else:
                setting = _set_by(text, words[at], how)
                if setting is None:
                    break
                settings.append(setting)
            at += 1
        self.settings += settings
        self._emit("env", words, at, options, how)
        inner = how.within("env")
        inner = inner.apart() if "ignore-environment" in options else inner
        self.start(words[at:], msgspec.structs.replace(inner, settings=(*inner.settings, *settings)))

    def _shell(self, program: str, words: Sequence[Argued], how: Start) -> None:
        """Read `bash -lc 'script' name arguments` or `bash script arguments`."""
        options: dict[str, str] = {}
        at, runs_text = 1, program == "eval"
        while at < len(words) and words[at].text.startswith(("-", "+")) and not runs_text:
            text = words[at].text
            if text == "--":
                at += 1
                break
            if not text.startswith("--") and text.endswith("c"):
                runs_text = True
            elif text in ("-o", "+o", "-O", "--rcfile", "--init-file"):
                at += 1
            options[text.lstrip("-+")] = "true"
            at += 1
        self._emit(program, words, min(at, len(words)), options, how)
        if at >= len(words):
            return
        inner = how.within(program)
        if not runs_text:
            self._script(words[at:], inner)
        elif program == "eval" and len(words) > at + 1:
            self.start(words[at:], inner)
        else:
            self._text(words[at], msgspec.structs.replace(inner, positional=tuple(words[at + 1 :])))

    def _text(self, word: Argued, how: Start) -> None:
        """Read a word that another shell reads as a script."""
        span, names = self._inline(word)
        # a variable of a task has the same value for all tasks if a shell expands it before the start
        early = names & PER_TASK if word.word is not None else frozenset()
        single = not early and (how.in_single_quotes or not how.names & PER_TASK)
        self._read_script(
            span, msgspec.structs.replace(how, in_single_quotes=single, names=how.names | early)
        )

    def _remote(self, program: str, words: Sequence[Argued], how: Start) -> None:
        """Read `ssh -o A=b host command`: a shell on the host reads the joined words."""
        at, hosts_left = 1, 1
        while at < len(words):
            text = words[at].text
            if text.startswith("-") and len(text) > 1:
                hosts_left -= program != "ssh" and text[1] in "wWg"  # `pdsh -w hosts` has no host argument
                at += 1 + (len(text) == 2 and text[1] in REMOTE_VALUES)
            elif hosts_left > 0:
                hosts_left -= 1
                at += 1
            else:
                break
        self._emit(program, words, min(at, len(words)), {}, how)
        inner = how.within(program).apart()
        if at == len(words) - 1:
            self._text(words[at], inner)
        elif at < len(words):
            self.start(words[at:], inner)


def plain_inline(word: Argued) -> tuple[Span, frozenset[str]]:
    """Return the script in a word without expanding variables, and an empty set of expanded names."""
    if word.word is not None:
        return word.word.span, frozenset()
    return fixed(word.text, Span.whole("")), frozenset()


def _set_by(text: str, argument: Argued, how: Start) -> Setting | None:
    match = ASSIGNMENT.fullmatch(text)
    if match is None:
        return None
    return Setting(
        name=match[1],
        value=match[2] if argument.is_literal else None,
        written=match[2],
        is_literal=argument.is_literal,
        place=argument.place,
        is_conditional=how.is_conditional,
        reaches="command",
    )


def _unset(word: Argued) -> Setting:
    return Setting(name=word.text, value=None, written="", place=word.place, reaches="command")
