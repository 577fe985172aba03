"""Check that NCCL understands the variables that control it, and that they do not cost speed.

Source: NVIDIA NCCL user guide, environment variables; NVIDIA/nccl, src/misc/param.cc and utils.cc;
NVIDIA/nccl#1716 (maintainers: do not set what you do not need). The variables are rows of
`probes/data/nccl_variables.toml`.
"""

from collections.abc import Generator, Iterator

from probes.base.record import known, quoted, value_or
from probes.base.units import plural
from probes.base.versions import at_least
from probes.catalogue.nccl_variables import Variable, is_default, load_variables, misread, read_integer
from probes.catalogue.thresholds import Number
from probes.facts import EnvironmentVariable
from probes.judging.environment_values import Variables, nccl_version, removal, setting, variables_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, evidence_of

DEBUGGING = Judge(
    check_id="nccl-debug-settings",
    why="Switches for finding faults cost speed or hide the fault, and often stay in scripts long after "
    "the fault is "
    "gone.",
)
VALUES = Judge(
    check_id="nccl-values",
    why="NCCL silently replaces a value that it does not understand by another value.",
)
FORCED = Judge(
    check_id="nccl-forced",
    why="NCCL chooses by message size and number of ranks; a forced choice is wrong in most cases.",
)
FILES = Judge(
    check_id="nccl-configuration",
    why="NCCL treats blanks, quotes and comments as a part of the name or the value.",
)
_PLUGIN_NAMES = (
    "NCCL_FASTRAK_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_SHIMNET_",
    "NCCL_TUNER_",
    "NCCL_INSPECTOR_",
    "NCCL_GIN_",
    "NCCL_OFI_",
    "NCCL_PSK",
)
"""Prefixes of variables that plugins read, and NCCL_PSK, a secret key whose value must not be shown."""
_NOISY = ("COLL", "CALL", "ALL", "PROXY")
"""Subsystems of NCCL that log a line for every call."""
_FREE = "no variable overrides NCCL's choices without need"


def _variables(judge: Judge, evidence: Evidence, well: str) -> Generator[Finding, None, Variables | None]:
    """Return the variables that are set.

    If none is set, yield a PASS; the table is then not read.
    """
    variables = yield from variables_of(judge, evidence)
    if variables == {}:
        yield judge.passed(HOST, well, observed="none is set")
    return variables


def nccl_debug_settings(evidence: Evidence) -> Iterator[Finding]:
    variables = yield from _variables(DEBUGGING, evidence, "no debugging switch is left on")
    if not variables:
        return
    table, provider = load_variables(), evidence.facts.cloud.provider
    is_problem, others = False, list[EnvironmentVariable]()
    for variable in variables.values():
        row = table.find(variable.name)
        if row is None:
            continue
        if row.use == "dead":
            is_problem = True
            yield _warn(DEBUGGING, variable, row, f"{variable.name} has no effect: {row.note}", "not set")
        elif (
            row.use == "debugging"
            and not is_default(row, variable.value)
            and value_or(provider, None) not in row.platforms
        ):
            if row.costs:
                is_problem = True
                yield _warn(DEBUGGING, variable, row, f"{variable.name} is left on: {row.costs}", "not set")
            else:
                others.append(variable)
    noise = _noise(variables)
    if noise is not None:
        is_problem = True
        yield noise
    if others:
        yield DEBUGGING.warned(
            HOST,
            f"{'a variable' if len(others) == 1 else f'{len(others)} variables'} of NVIDIA's debugging class "
            f"{'is' if len(others) == 1 else 'are'} set",
            expected="not set in production",
            observed=", ".join(map(setting, others[:8])),
            remedy=Remedy(
                text="Remove the variables that do not measurably help; NCCL's defaults depend on the "
                "machine."
            ),
            evidence=evidence_of(others),
        )
    elif not is_problem:
        yield DEBUGGING.passed(HOST, "no debugging switch is left on")


def _noise(variables: dict[str, EnvironmentVariable]) -> Finding | None:
    """Return a warning about log settings with which NCCL writes a line at every call."""
    level, parts = variables.get("NCCL_DEBUG"), variables.get("NCCL_DEBUG_SUBSYS")
    if level is None or level.value.upper() not in ("INFO", "TRACE"):
        return None
    wanted = [] if parts is None or parts.value.startswith("^") else parts.value.upper().split(",")
    if level.value.upper() != "TRACE" and not set(wanted) & set(_NOISY):
        return None
    both = [level, *([parts] if parts else [])]
    return DEBUGGING.warned(
        HOST,
        "NCCL writes a line for every call",
        expected="NCCL_DEBUG=WARN",
        observed=", ".join(map(setting, both)),
        remedy=Remedy(text="Keep WARN in production, and INFO for the first minutes of a trial."),
        evidence=evidence_of(both),
    )


def nccl_values(evidence: Evidence) -> Iterator[Finding]:
    variables = yield from _variables(VALUES, evidence, "NCCL understands every value")
    if not variables:
        return
    table, version = load_variables(), nccl_version(evidence.facts)
    is_problem, judged = False, 0
    for variable in variables.values():
        row = table.find(variable.name)
        if row is None:
            if variable.origin != "environment" and _is_nobodys(variable.name):
                is_problem = True
                yield VALUES.warned(
                    HOST,
                    f"no version of NCCL that rigtune knows reads {quoted(variable.name)}",
                    expected="the name of a variable",
                    observed=setting(variable),
                    remedy=Remedy(text="Correct the name, or remove the line."),
                    evidence=variable.evidence,
                )
            continue
        judged += 1
        misreading = misread(row, variable.value)
        is_new = row.since is not None and row.reader == "nccl" and known(version) and version is not None
        if misreading is not None:
            is_problem = True
            reader = {"torch": "PyTorch", "nccl": "NCCL"}.get(row.reader, "CUDA")
            yield _warn(
                VALUES, variable, row, f"{reader} reads {variable.name} as {misreading}", _expected(row)
            )
        elif is_new and at_least(str(version), row.since or "") is False:
            is_problem = True
            yield _warn(
                VALUES,
                variable,
                row,
                f"NCCL {version} does not read {variable.name}",
                f"NCCL {row.since} or newer",
                fix="Update NCCL, or remove the variable.",
            )
    product = _sockets(variables, evidence.thresholds.nccl_sockets_most)
    if product is not None:
        yield product
    elif not is_problem:
        yield VALUES.passed(HOST, "NCCL understands every value", observed=plural(judged, "variable"))


def _is_nobodys(name: str) -> bool:
    """Return whether a name that the table lacks looks like a name of NCCL, and not of a plugin."""
    return name.startswith("NCCL_") and not name.startswith(_PLUGIN_NAMES) and name == name.strip()


def _sockets(variables: dict[str, EnvironmentVariable], most: Number) -> Finding | None:
    both = [
        variables[name] for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD") if name in variables
    ]
    if len(both) < 2 or read_integer(both[0].value).value * read_integer(both[1].value).value <= most.value:
        return None
    return VALUES.warned(
        HOST,
        "more sockets are requested than NCCL opens",
        expected=f"a product of at most {most.value:.0f}",
        observed=", ".join(map(setting, both)),
        remedy=Remedy(text="Lower one of them; 4 times 4 is enough for 100 Gb/s."),
        evidence=(*evidence_of(both), most.ref),
    )


def _expected(row: Variable) -> str:
    if row.words:
        return f"one of {', '.join(row.words)}"
    if row.kind == "level":
        return "the name of a distance, such as PHB or SYS"
    if row.kind in ("switch", "flag"):
        return "0 or 1"
    low, high = row.minimum, row.maximum
    return (
        "a number" + (f" from {low}" if low is not None else "") + (f" to {high}" if high is not None else "")
    )


def nccl_forced(evidence: Evidence) -> Iterator[Finding]:
    variables = yield from _variables(FORCED, evidence, _FREE)
    if not variables:
        return
    table, provider = load_variables(), value_or(evidence.facts.cloud.provider, None)
    rows = [(variable, table.find(variable.name)) for variable in variables.values() if variable.value]
    forcing = [
        (variable, row)
        for variable, row in rows
        if row is not None and row.use == "forcing" and provider not in row.platforms
    ]
    for variable, row in forcing:
        costs = f": {row.costs}" if row.costs else ""
        yield _warn(
            FORCED,
            variable,
            row,
            f"{variable.name} overrides NCCL's own choice{costs}",
            "not set",
        )
    if not forcing:
        yield FORCED.passed(HOST, _FREE)


def nccl_configuration(evidence: Evidence) -> Iterator[Finding]:
    """Check the files from which the variables come, and the lines that NCCL skips."""
    facts = evidence.facts
    variables = yield from variables_of(FILES, evidence)
    if variables is None or not known(facts.environment):
        return
    named = variables["NCCL_CONF_FILE"].value if "NCCL_CONF_FILE" in variables else ""
    lines = [variable for variable in facts.environment if variable.origin != "environment"]
    misreadings = [(variable, words) for variable in lines if (words := _mangled(variable)) is not None]
    skipped = [
        unread
        for unread in facts.unread
        if unread.source.endswith("nccl.conf") or (named and unread.source == named)
    ]
    for variable, misreading in misreadings:
        yield FILES.warned(
            HOST,
            f"NCCL misreads a line of {variable.origin}: {misreading}",
            expected="NAME=value without blanks, quotes and comments",
            observed=f"{variable.name[:60]}={variable.value[:60]}",
            remedy=Remedy(
                text="Correct the line; write comments on separate lines, with # in the first column."
            ),
            evidence=variable.evidence,
        )
    for unread in skipped:
        yield FILES.warned(
            HOST,
            f"NCCL does not use {f'line {unread.line} of ' if unread.line else ''}{unread.source}",
            expected="a file of lines NAME=value"
            if unread.line
            else "an absolute path to a readable file, without ~",
            observed=unread.text[:60] or unread.why,
            remedy=Remedy(text="Correct the line." if unread.line else "Correct NCCL_CONF_FILE."),
        )
    if misreadings or skipped:
        return
    if lines:
        files = ", ".join(dict.fromkeys(variable.origin for variable in lines))
        yield FILES.passed(HOST, "NCCL's configuration files are correct", observed=files)
    else:
        yield FILES.skipped(HOST, "no configuration file sets a variable")


def _mangled(variable: EnvironmentVariable) -> str | None:
    name, value = variable.name, variable.value
    if name != name.strip() or not name.replace("_", "a").isalnum():
        return "the name contains blanks or other invalid characters"
    if value != value.strip():
        return "the blanks become a part of the value"
    if value[:1] in "\"'" and value:
        return "the quotes become a part of the value"
    return "the comment after the value becomes a part of the value" if " #" in value else None


def _warn(
    judge: Judge,
    variable: EnvironmentVariable,
    row: Variable,
    summary: str,
    expected: str,
    *,
    fix: str = "Correct the value, or remove the variable.",
) -> Finding:
    text = "Remove the variable; keep it only if it measurably helps." if expected == "not set" else fix
    place = "" if variable.origin == "environment" else f" It is set in {variable.origin}."
    return judge.warned(
        HOST,
        summary,
        expected=expected,
        observed=setting(variable),
        remedy=Remedy(text=text + place, command=removal(variable)),
        evidence=(*variable.evidence, load_variables().ref(row)),
    )
