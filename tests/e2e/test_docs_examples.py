"""The examples of README and docs work as they stand. Blocks marked `console` (lines with `$ iceberg-compact ...`) and
`python` are run in a folder with the demo's lake; `# exits with N` after a command says which code is right, 0 if
nothing does. Blocks marked otherwise are not run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from iceberg_compaction.catalog import connect, sample_lake
from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
# Starting Spark for every example would take minutes; the commands are the same, and tests of their own run on Spark.
_WITH_ENGINE = ("run", "apply", "demo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the demo's lake in it."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "lake").mkdir()
    catalog = connect.connect(sample_lake.create(folder / "lake"))
    sample_lake.build(catalog)
    yield folder
    catalog.close()


def commands(text: str) -> Iterator[tuple[list[str], int]]:
    for line in text.splitlines():
        if line.startswith("$ "):
            code = re.search(r"# exits with (\d+)", line)
            program, *args = shlex.split(line[2:], comments=True)
            assert program == "iceberg-compact", line
            yield args, int(code[1]) if code else 0


def examples() -> Iterator[pytest.ParameterSet]:
    for page in PAGES:
        for number, (kind, text) in enumerate(_BLOCK.findall(page.read_text()), start=1):
            yield pytest.param(kind, text, id=f"{page.relative_to(ROOT)}-{number}-{kind}")


@pytest.mark.spark  # the library's examples use the default engine
@pytest.mark.parametrize(("kind", "text"), list(examples()))
def test_example(kind: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(folder / "runs.db"))
    if kind == "python":
        exec(compile(text, "example", "exec"), {"__name__": "example"})
        return
    for args, code in commands(text):
        verb = "run" if args[0].startswith("-") else args[0]
        more = ["--engine", "inline"] if verb in _WITH_ENGINE else []
        result = CliRunner().invoke(app, [*args, *more])
        assert result.exit_code == code, f"{shlex.join(args)}\n{result.output}"


def test_there_are_examples_to_run() -> None:
    kinds = [param.values[0] for param in examples()]
    assert kinds.count("python") >= 3
    assert kinds.count("console") >= 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
