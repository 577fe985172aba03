"""Settings and commands of a shell script, statement by statement."""

import re

import msgspec

from recipes.lint.document import Reach, Setting
from recipes.lint.readers.entry_lines import settings_in
from recipes.lint.readers.flow import Flow, Function, closing_braces, function_at, in_test, outcome
from recipes.lint.readers.grammars import GRAMMARS, PER_TASK, REMOTE, SHELLS
from recipes.lint.readers.launching import Launches, Start, plain_inline
from recipes.lint.readers.options import Argued
from recipes.lint.readers.scope import (
    Assignment,
    Exported,
    Scope,
    assignment_in,
    default_in,
)
from recipes.lint.readers.span import Span, unescaped
from recipes.lint.readers.words import REDIRECTIONS, HereDocument, Token, Word, tokens_of

_NAME = re.compile(r"[A-Za-z_]\w*")
_DECLARING = frozenset({"export", "declare", "typeset", "readonly", "local"})
_SILENT = frozenset({"[[", "[", "test", "shift", "let", "true", "false", "return", "trap", "break"})
_TESTS = frozenset({"[", "[[", "test"})
_DEEPEST = 6
_EARLY = re.compile(rf"(?<!\\)\$\{{?({'|'.join(sorted(PER_TASK))})\b")
_SCRIPT_NAME = re.compile(r"\.(sh|bash|sbatch|slurm|job|run|pbs|lsf)$")


class ScriptReader:
    """Reader of one script and the scripts inside it; `start` describes how the script is started."""

    def __init__(
        self,
        start: Start | None = None,
        *,
        reaches_all: bool = False,
        depth: int = 0,
        scope: Scope | None = None,
        outer: "ScriptReader | None" = None,
    ) -> None:
        self.settings: list[Setting] = []
        self.exported: Exported = (
            outer.exported if outer is not None and not (start or Start()).is_apart else Exported()
        )
        self.launches = Launches(self._read_inner, self._inlined, self.exported.handed)
        self._start = msgspec.structs.replace(start or Start(), is_apart=False)
        self._reaches_all = reaches_all
        self._depth = depth
        self._scope = scope or Scope()
        self._unexported: dict[str, int] = {}
        """Index in `settings` of each variable that is not exported so far."""
        self._flow = self._new_flow()
        self._after_test = False
        self._subshells: list[tuple[int, Scope, Start]] = []
        """State before each open bracket."""
        self._own_subshells = 0
        """Number of open subshells at the call of the function that is being read.

        The function cannot close these subshells.
        """
        self._functions: dict[str, Function] = dict(outer._functions) if outer is not None else {}
        self._defined: list[Function] = []

    def read(self, span: Span) -> None:
        """Read a script.

        The exports of a function that is never called reach only the commands of the function.
        """
        self._read_tokens(tokens_of(span))
        for function in self._defined:  # the list grows while function bodies define functions
            if function.changes is None:
                number = self._open_subshell()
                self._call(function, ())
                self._close_subshell(number)

    def _read_tokens(self, tokens: list[Token]) -> None:
        words: list[Word] = []
        documents: list[tuple[HereDocument, list[Word]]] = []
        targets: list[Word] = []
        redirected = False
        braces = closing_braces(tokens)
        after = 0
        for number, token in enumerate(tokens):
            if token.kind == "comment" or number < after:
                continue
            # a function is read at its first call, when the exported variables are known
            defined = (
                function_at(tokens, number, braces) if not words and not self._flow.is_at_pattern else None
            )
            if defined is not None and self._depth < _DEEPEST:
                name, begin, end = defined
                self._functions[name] = Function(tokens[begin:end], self._depth + 1)
                self._defined.append(self._functions[name])
                after = end + 1
                continue
            if token.word is not None:
                if redirected:
                    targets.append(token.word)
                    redirected = False
                else:
                    words.append(token.word)
                continue
            if token.text in REDIRECTIONS:  # the next word is the target, unless a here-document follows
                redirected = token.document is None and token.text not in ("<<", "<<-")
                if token.document is not None:
                    documents.append((token.document, targets))
                continue
            if in_test(words) and token.kind == "operator":
                continue  # `&&` and `<` inside of [[ ]] do not end the command
            redirected = False
            self._end(words, token, tokens[number + 1] if number + 1 < len(tokens) else None, documents)
            words, documents, targets = [], [], []
        self._flush(self._flow.without_keywords(words), documents)

    def _end(
        self,
        words: list[Word],
        token: Token,
        follow: Token | None,
        documents: list[tuple[HereDocument, list[Word]]],
    ) -> None:
        operator = token.text
        if self._flow.is_at_pattern:
            if operator == ")":
                self._flow.end_pattern()
            elif words and words[0].text == "esac":
                self._flow.without_keywords(words)
            return
        if operator == "(" and len(words) == 1 and follow is not None and follow.text == ")":
            self._open_subshell()  # `name()` begins a function; the next token closes this subshell
            return
        after_keywords = self._flow.without_keywords(words)
        if operator == "(" and not after_keywords:
            self._open_subshell()
            return
        self._decide(words, after_keywords, operator)
        self._flush(after_keywords, documents)
        if operator == ")" and len(self._subshells) > self._own_subshells:
            self._close_subshell(len(self._subshells) - 1)
        if operator in (";;", ";&", ";;&"):
            self._flow.end_arm()
        # `[ -n "$A" ] && export B=1` may not set B
        self._after_test = operator in ("&&", "||") and (
            (bool(words) and words[0].text in _TESTS) or self._after_test
        )

    def _decide(self, words: list[Word], test: list[Word], operator: str) -> None:
        """Store whether the branch after `if` or `elif` runs, if its test compares values of the script.

        Tests in functions and loops stay undecided, because the values may differ between calls or rounds.
        """
        keyword = words[len(words) - len(test) - 1].text if len(test) < len(words) else ""
        if keyword in ("if", "elif"):
            is_plain = operator in (";", "\n") and self._depth == 0 and not self._flow.is_in_loop
            runs = outcome([self._scope.resolve(word) for word in test]) if is_plain else None
            self._flow.decide(runs=runs)

    def _flush(self, words: list[Word], documents: list[tuple[HereDocument, list[Word]]]) -> None:
        if not words or self._flow.is_dead:
            return
        before = len(self.launches.commands)
        self._statement(words)
        for document, targets in documents:
            self._here(document, targets, words, before)

    @property
    def _is_conditional(self) -> bool:
        return self._flow.is_conditional or self._after_test or self._start.is_conditional

    def _new_flow(self) -> Flow:
        # a subshell replaces the scope, so the method is looked up at each call
        return Flow(self.exported, lambda name: self._scope.forget(name))  # noqa: PLW0108

    def _open_subshell(self) -> int:
        """Open a subshell and return its number."""
        self._subshells.append((self.exported.mark(), self._scope, self._start))
        self._scope = self._scope.copy()
        return len(self._subshells) - 1

    def _close_subshell(self, number: int) -> None:
        """Close a subshell and all open subshells inside of it."""
        mark, self._scope, self._start = self._subshells[number]
        del self._subshells[number:]
        self.exported.back_to(mark)

    def _call(self, function: Function, settings: tuple[Setting, ...]) -> None:
        """Read the body of a function at its first call.

        The commands of a function are collected once. Its exports apply again at each further call.
        """
        if function.changes is not None or function.is_open:
            self.exported.again(function.changes or {})
            return
        function.is_open = True
        mark, before = (
            self.exported.mark(),
            (self._start, self._flow, self._depth, self._after_test, self._own_subshells),
        )
        self._start = msgspec.structs.replace(
            self._start,
            settings=(*self._start.settings, *settings),
            is_conditional=self._is_conditional,
            positional=(),  # `$@` are the arguments of the function
        )
        self._flow = self._new_flow()
        self._own_subshells = len(self._subshells)
        self._depth = max(self._depth + 1, function.depth)
        self._read_tokens(function.body)
        if len(self._subshells) > self._own_subshells:
            self._close_subshell(self._own_subshells)  # the body did not close its brackets
        self._start, self._flow, self._depth, self._after_test, self._own_subshells = before
        function.is_open = False
        function.changes = self.exported.since(mark)

    def _statement(self, words: list[Word]) -> None:
        assignments: list[Assignment] = []
        for word in words:
            assignment = assignment_in(word)
            if assignment is None:
                break
            assignments.append(assignment)
        count = len(assignments)
        if count == len(words):
            for assignment in assignments:
                self._assign(assignment, exported=False)
            return
        name = words[count].text
        if name == "shift" or (name == "set" and "--" in (word.text for word in words)):
            # the words of `$@` are no longer those of the start
            self._start = msgspec.structs.replace(self._start, positional=())
        if count == 0 and not words[0].quoted and self._builtin(name, words):
            return
        settings = tuple(self._setting(each, exported=True, reaches="command") for each in assignments)
        self.settings += settings
        how = msgspec.structs.replace(
            self._start, settings=(*self._start.settings, *settings), is_conditional=self._is_conditional
        )
        self.launches.start(self._argued(words[count:]), how)
        if name in self._functions and name not in GRAMMARS and not words[count].quoted:
            function = self._functions[name]
            self._call(function, settings)
            if function.runs_words:
                self.launches.start(self._argued(words[count + 1 :]), how)

    def _builtin(self, name: str, words: list[Word]) -> bool:
        """Read a command that the shell itself executes; return False for any other command."""
        texts = [word.text for word in words[1:]]
        if name in _DECLARING:
            self._declare(name, words)
        elif name == "setenv" and len(words) == 3 and _NAME.fullmatch(texts[0]):
            self._setenv(words[1], words[2])
        elif name in ("unset", "unsetenv"):
            self._unset(words)
        elif name == "set":
            if "allexport" in texts or any(re.fullmatch(r"-\w*a\w*", text) for text in texts):
                self._scope.exports_all = "+o" not in texts
            elif any(re.fullmatch(r"\+\w*a\w*", text) for text in texts):
                self._scope.exports_all = False
        elif name in ("read", "mapfile", "readarray", "getopts"):
            for text in texts:
                self._scope.forget(text)
        elif name == ":":
            self._defaults(words)
        else:
            return name.startswith("((") or name in _SILENT
        return True

    def _declare(self, name: str, words: list[Word]) -> None:
        options = "".join(word.text[1:] for word in words[1:] if word.text.startswith("-"))
        exported = name == "export" or "x" in options
        for word in words[1:]:
            assignment = assignment_in(word)
            if assignment is not None:
                self._assign(assignment, exported=exported and "n" not in options)
            elif exported and _NAME.fullmatch(word.text):
                self._export(word.text)

    def _defaults(self, words: list[Word]) -> None:
        """Read `: ${NAME:=value}`."""
        for word in words[1:]:
            setting = default_in(word, reaches=self._reaches())
            if setting is not None:
                is_known = setting.name in self._scope.exported or self._scope.exports_all
                self._put(msgspec.structs.replace(setting, is_exported=is_known))

    def _put(self, setting: Setting) -> None:
        if setting.is_exported:
            self._hand_on(setting.name, setting)
        else:
            self._unexported[setting.name] = len(self.settings)
        self.settings.append(setting)

    def _setenv(self, name: Word, value: Word) -> None:
        self._scope.assign(name.text, value, conditional=self._is_conditional, append=False)
        text, is_literal = self._scope.resolve(value)
        setting = Setting(
            name=name.text,
            value=text if is_literal else None,
            written=value.written.text,
            is_literal=is_literal,
            place=name.place,
            value_place=value.place,
            is_conditional=self._is_conditional,
            reaches=self._reaches(),
        )
        self.settings.append(setting)
        self._hand_on(setting.name, setting)

    def _hand_on(self, name: str, setting: Setting | None) -> None:
        """Export a variable to all further commands.

        The setting replaces the value with which the shell was started.
        """
        self.exported.put(name, setting)
        if any(setting.name == name for setting in self._start.settings):
            kept = tuple(setting for setting in self._start.settings if setting.name != name)
            self._start = msgspec.structs.replace(self._start, settings=kept)

    def _unset(self, words: list[Word]) -> None:
        """Unset variables for further commands."""
        for word in words[1:]:
            if _NAME.fullmatch(word.text):
                self._scope.forget(word.text)
                conditional, reaches = self._is_conditional, self._reaches()
                # after a branch the variable may still be set
                held = self.exported.get(word.text)
                kept = (
                    msgspec.structs.replace(held, is_conditional=True)
                    if held is not None and conditional
                    else None
                )
                self._hand_on(word.text, kept)
                self.settings.append(
                    Setting(
                        name=word.text,
                        value=None,
                        written="",
                        place=word.place,
                        is_conditional=conditional,
                        reaches=reaches,
                    )
                )

    def _reaches(self) -> Reach:
        return "all" if self._reaches_all or self._start.is_everywhere else "node"

    def _setting(self, assignment: Assignment, *, exported: bool, reaches: Reach) -> Setting:
        word, begin = assignment.word, assignment.begin
        text, is_literal = self._scope.resolve(assignment.value)
        is_literal = is_literal and not assignment.appends and word.elements is None
        return Setting(
            name=assignment.name,
            value=text if is_literal else None,
            written=word.written.text[begin:],
            is_literal=is_literal,
            place=word.place,
            value_place=word.written.place(begin),
            is_exported=exported,
            is_conditional=self._is_conditional,
            reaches=reaches,
        )

    def _assign(self, assignment: Assignment, *, exported: bool) -> None:
        name = assignment.name
        if exported:
            self._export(name)
        if assignment.is_element:
            self._scope.forget(name)
            return
        is_known = name in self._scope.exported or self._scope.exports_all
        self._put(self._setting(assignment, exported=is_known, reaches=self._reaches()))
        self._scope.assign(
            name, assignment.value, conditional=self._is_conditional, append=assignment.appends
        )

    def _export(self, name: str) -> None:
        self._scope.exported.add(name)
        number = self._unexported.pop(name, None)
        if number is not None:
            self.settings[number] = msgspec.structs.replace(self.settings[number], is_exported=True)
            self._hand_on(name, self.settings[number])

    def _argued(self, words: list[Word]) -> list[Argued]:
        arguments: list[Argued] = []
        for word in words:
            if word.text in ("$@", "${@}", "$*") and self._start.positional:
                arguments += self._start.positional[1:]
                continue
            for part in self._scope.split(word):
                text, is_literal = self._scope.resolve(part)
                arguments.append(Argued(text, part.place, is_literal=is_literal, word=part))
        return arguments

    def _inlined(self, argument: Argued) -> tuple[Span, frozenset[str]]:
        return plain_inline(argument) if argument.word is None else self._scope.inline(argument.word)

    def _read_inner(self, span: Span, how: Start) -> None:
        if self._depth >= _DEEPEST:
            return
        self._read_by(how, span, reaches_all=self._reaches_all)

    def _read_by(self, how: Start, span: Span, *, reaches_all: bool) -> None:
        """Read a script in another shell.

        The exports end with the inner shell, except for `eval`.
        """
        mark = self.exported.mark()
        inner = ScriptReader(
            how, reaches_all=reaches_all, depth=self._depth + 1, scope=self._scope.copy(), outer=self
        )
        inner.read(span)
        if how.inside[-1:] != ("eval",):
            self.exported.back_to(mark)
        self.settings += inner.settings
        self.launches.commands += inner.launches.commands
        self.launches.settings += inner.launches.settings

    def _here(self, document: HereDocument, targets: list[Word], words: list[Word], before: int) -> None:
        """Read a here-document that is a script for another shell or a job, or the text of an nccl.conf."""
        body = document.body
        if body is None or not body.text.strip() or self._depth >= _DEEPEST:
            return
        target = targets[-1].text if targets else ""
        programs = [command.program for command in self.launches.commands[before:]]
        last = self.launches.commands[-1] if programs else None
        single = document.is_quoted or not _EARLY.search(body.text)
        if not document.is_quoted:
            body = unescaped(body)
        if programs and target.endswith("nccl.conf"):
            self.settings += settings_in(body)
        elif last is not None and (last.program in SHELLS or last.program in REMOTE):  # `bash <<EOF`
            how = Start(inside=(*last.inside, last.program), settings=last.settings, in_single_quotes=single)
            how = how.apart() if last.program in REMOTE else how
            self._read_inner(body, msgspec.structs.replace(how, is_conditional=self._is_conditional))
        elif last is not None and (
            last.program == "sbatch"
            or (last.program in ("cat", "tee") and (_SCRIPT_NAME.search(target) or _is_script(body.text)))
        ):
            # the script runs later: as a batch job, or when another command starts the file
            is_batch = last.program == "sbatch" or "\n#SBATCH" in body.text
            how = Start(in_single_quotes=single and last.program != "sbatch")
            self._read_by(how, body, reaches_all=is_batch)


def _is_script(text: str) -> bool:
    return re.match(r"#!\s*\S*(/|env )(ba|da|z|k)?sh\b", text) is not None
