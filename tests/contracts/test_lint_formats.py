"""Print the findings of `rigtune lint` as text, JSON, SARIF and annotations of GitHub."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest

from assistant.formats.lint_formats import github_text, sarif_text
from assistant.formats.schemas import schema_for
from recipes.lint.document import Place
from recipes.lint.finding import LintFinding, LintReport
from tests.contracts import sarif_shape
from tests.support.lint_command import SCRIPT, lint, write_examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_examples(tmp_path)
    return tmp_path


def test_text_shows_the_line_and_a_mark(folder: Path) -> None:
    done = lint("train.sbatch", cwd=folder)
    lines = done.stdout.split("\n")
    assert done.returncode == 1
    at = next(number for number, line in enumerate(lines) if "[variable-misspelt]" in line)
    assert lines[at].startswith("train.sbatch:4:8: warning: ")
    assert lines[at + 1] == " 4 | export NCCL_SOKET_IFNAME=eth0"
    mark = lines[at + 2].index("^")
    assert lines[at + 1][mark:].startswith("NCCL_SOKET_IFNAME")
    assert "NCCL_SOCKET_IFNAME" in done.stdout


def test_json_conforms(folder: Path) -> None:
    done = lint("train.sbatch", "clean.sh", "--format", "json", cwd=folder)
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(schema_for("lint")))
    assert report["documents"] == ["train.sbatch", "clean.sh"]
    assert {"variable-misspelt", "slurm-launcher-per-task"} <= {one["rule_id"] for one in report["findings"]}


def test_sarif(folder: Path) -> None:
    (folder / "train.sbatch").write_text(SCRIPT.replace("srun", "export NCCL_TREE_THRESHOLD=0\nsrun"))
    log = json.loads(lint("train.sbatch", "clean.sh", "--format", "sarif", cwd=folder).stdout)
    jsonschema.validate(log, sarif_shape.schema(), format_checker=jsonschema.FormatChecker())
    (run,) = log["runs"]
    assert all(rule["helpUri"].startswith("https://") for rule in run["tool"]["driver"]["rules"])
    assert all("Good:" in rule["help"]["markdown"] for rule in run["tool"]["driver"]["rules"])
    rules = run["tool"]["driver"]["rules"]
    assert [one["location"]["uri"] for one in run["artifacts"]] == ["train.sbatch", "clean.sh"]
    assert any("fixes" in result for result in run["results"])
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert all(
            rule[part]["text"] for part in ("shortDescription", "fullDescription", "help")
        )  # GitHub requires these fields
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        last = (region.get("endLine", region["startLine"]), region.get("endColumn", 10**6))
        assert (region["startLine"], region["startColumn"]) <= last
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "train.sbatch"


@pytest.mark.parametrize("name", ["a b.sh", "sub/é.sh", "100%.sh", "a:b.sh", "a#b?.sh"])
def test_sarif_names_files_by_references(folder: Path, name: str) -> None:
    (folder / "sub").mkdir(exist_ok=True)
    (folder / name).write_text("export NCCL_SOKET_IFNAME=eth0\n")
    log = json.loads(lint(name, "--format", "sarif", cwd=folder).stdout)
    jsonschema.validate(log, sarif_shape.schema())
    uri = log["runs"][0]["artifacts"][0]["location"]["uri"]
    assert unquote(uri) == name
    assert re.fullmatch(r"[A-Za-z0-9/%._~@+=,-]+", uri)


def test_sarif_doubles_braces_which_are_placeholders_there() -> None:
    finding = LintFinding(
        rule_id="x", severity="note", document="a.sh", place=Place(line=1), message="${A} is {0}"
    )
    (result,) = json.loads(sarif_text(LintReport(findings=(finding,), documents=("a.sh", "./a.sh"))))["runs"][
        0
    ]["results"]
    assert result["message"]["text"] == "${{A}} is {{0}}"


def test_github_annotations(folder: Path) -> None:
    (folder / "a,b%.sh").write_text("export NCCL_SOKET_IFNAME=eth0\n")
    done = lint("a,b%.sh", "--format", "github", cwd=folder)
    assert done.stdout.startswith("::warning file=a%2Cb%25.sh,line=1,col=8,")
    assert "title=rigtune variable-misspelt::" in done.stdout


def test_github_annotations_escape_what_the_runner_parses() -> None:
    place = Place(line=3, column=2, end_line=3, end_column=9)
    finding = LintFinding(
        rule_id="x",
        severity="note",
        document="a,b:c%.sh",
        place=place,
        message="50% of a:b,\n::error::c",
        fix="Do\rit.",
    )
    annotation = github_text(LintReport(findings=(finding,)))
    assert annotation.count("\n") == 1
    head, _, words = annotation.removesuffix("\n").removeprefix("::notice ").partition("::")
    assert head == "file=a%2Cb%3Ac%25.sh,line=3,col=2,endLine=3,endColumn=9,title=rigtune x"
    assert words == "50%25 of a:b,%0A::error::c%0ADo%0Dit."


@pytest.mark.parametrize(
    ("place", "region"),
    [
        (Place(line=0, column=0), {"startLine": 1, "startColumn": 1}),
        (Place(line=1), {"startLine": 1, "startColumn": 1}),
        (
            Place(line=3, column=2, end_column=5),
            {"startLine": 3, "startColumn": 2, "endLine": 3, "endColumn": 5},
        ),
        (
            Place(line=3, column=2, end_line=4, end_column=0),
            {"startLine": 3, "startColumn": 2, "endLine": 4, "endColumn": 1},
        ),
        (Place(line=3, column=2, end_line=2, end_column=5), {"startLine": 3, "startColumn": 2}),
    ],
    ids=["whole file", "first line", "words", "lines", "reversed"],
)
def test_sarif_counts_lines_and_columns_from_one(place: Place, region: dict[str, int]) -> None:
    finding = LintFinding(
        rule_id="variable-misspelt", severity="warning", document="a.sh", place=place, message="m"
    )
    log = json.loads(sarif_text(LintReport(findings=(finding,), documents=("a.sh",))))
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["region"] == region
