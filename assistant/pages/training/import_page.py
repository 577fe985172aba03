"""Show what an imported launch states, what is missing, and what is kept word for word."""

from assistant.pages.blocks import Cell, Column, Page, Section, Table, section, words
from probes.base.grouping import grouped
from probes.base.units import plural
from recipes.launch.imports.adopted import OPTIONS, Imported
from recipes.planning.programs import load_programs


def import_page(answer: Imported) -> Page:
    """Return the settings with their places, the assumptions, the missing settings and the kept parts."""
    kept = grouped((each.why, each) for each in answer.kept)
    parts = [
        section(
            f"{why[:1].upper()}{why[1:]}",
            [words(f"{each.text}  ", (f"{each.file}:{each.line}", "dim")) for each in group],
        )
        for why, group in kept.items()
    ]
    return (
        section(_title(answer), [_command(answer), *map(words, answer.notes)]),
        _settings(answer),
        _environment(answer),
        section(
            "No file states" if answer.assumed else "",
            [words(f"{each.setting} = {each.value}: {each.because}") for each in answer.assumed],
        ),
        section(
            "Missing for a recipe" if answer.missing else "",
            [
                words((f"{each.setting}: ", "caution"), f"{each.why}; give {each.option}")
                for each in answer.missing
            ],
        ),
        section(f"Kept word for word: {plural(len(answer.kept), 'part')}" if answer.kept else "", []),
        *parts,
    )


def _title(answer: Imported) -> str:
    """Return the launch in one line."""
    programs = load_programs()
    title = programs[answer.program].title if answer.program in programs else answer.program
    recipe = answer.recipe
    if recipe is None:
        return f"{title}: {plural(len(answer.missing), 'setting')} missing for a recipe"
    layout = recipe.parallelism
    return (
        f"{title}: {recipe.model_id} on {layout.nodes} x {plural(layout.ranks_per_node, 'rank')}, "
        f"{layout.strategy}, micro-batch {layout.micro_batch} x {layout.grad_accum} = "
        f"global batch {layout.global_batch}"
    )


def _command(answer: Imported) -> Cell:
    command = answer.command
    if command is None:
        return ""
    target = f"-m {command.target}" if command.kind == "module" else command.target
    return words(("every rank runs: ", "dim"), " ".join((target, *command.arguments)))


def _settings(answer: Imported) -> Section:
    rows = tuple(
        (
            each.setting,
            each.value,
            words(("option" if each.file == OPTIONS else each.where, "dim"), f"  {each.written}"),
        )
        for each in answer.settings
    )
    columns = (Column("setting", fixed=True), Column("value"), Column("as written"))
    return Section("Yours", (Table(columns, rows),)) if rows else Section()


def _environment(answer: Imported) -> Section:
    rows = tuple(
        (variable.name, variable.value, words((variable.source, "dim"))) for variable in answer.environment
    )
    columns = (Column("variable", fixed=True), Column("value"), Column("where"))
    return Section("", (Table(columns, rows),)) if rows else Section()
