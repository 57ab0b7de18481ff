"""The examples of README and docs work as they stand. Blocks marked `console` (lines with `$ iceberg-compact ...`) and
`python` are run in a folder with the demo's lake, and so are those marked `sh`, by a shell; `# exits with N` after a
command says which code is right, 0 if nothing does. Commands in other blocks, such as those for a catalog of the
reader's own, are parsed."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
import typer.main
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Event, Kind, ProofLevel, Strategy
from iceberg_compaction.catalog import connect, sample_lake
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.remote import remote_app, server_flag
from iceberg_compaction.model import manifest_plan
from iceberg_compaction.model.file_group import GroupReason, Spread
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_plan import LeftOutReason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import Enum

    from tests.factories.servers import S3Server

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAM = "iceberg-compact"
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
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
            assert program in (PROGRAM, f".venv/bin/{PROGRAM}"), line
            yield args, int(code[1]) if code else 0


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The kind and the text of each block of code."""
    for _, kind, text in _BLOCK.findall(page.read_text()):
        yield kind, textwrap.dedent(text)


def examples() -> Iterator[pytest.ParameterSet]:
    for page in PAGES:
        for number, (kind, text) in enumerate(blocks(page), start=1):
            if kind in ("console", "python", "sh"):
                yield pytest.param(kind, text, id=f"{page.relative_to(ROOT)}-{number}-{kind}")


@pytest.mark.spark  # the library's examples use the default engine
@pytest.mark.parametrize(("kind", "text"), list(examples()))
def test_example(kind: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(folder / "runs.db"))
    if kind == "python":
        exec(compile(text, "example", "exec"), {"__name__": "example"})
        return
    if kind == "sh":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["/bin/sh", "-e", "-c", text], env=os.environ | {"PATH": path}, check=True)
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


def unrun_commands() -> Iterator[pytest.ParameterSet]:
    """Commands that tests cannot run, because they name servers of the reader's."""
    for page in PAGES:
        for kind, text in blocks(page):
            if kind in ("bash", "cron"):
                for line in text.replace("\\\n", " ").splitlines():
                    if match := re.search(rf"(?:^|/){PROGRAM} (.*)", line):
                        yield pytest.param(match[1], id=f"{page.relative_to(ROOT)}: {match[1][:40]}")
            elif kind == "yaml" and PROGRAM in text:
                arguments = shlex.join(re.findall(r'- "(--.*)"', text))
                yield pytest.param(f"run {arguments}", id=f"{page.relative_to(ROOT)}: yaml")


@pytest.mark.parametrize("command", list(unrun_commands()))
def test_commands_for_other_catalogs_have_options_that_exist(command: str) -> None:
    url, (verb, *args) = server_flag.take(shlex.split(command, comments=True))
    program = app if url is None else remote_app.make_app(url)
    group: Any = typer.main.get_command(program)
    group.commands[verb].make_context(verb, args, **group.context_settings)  # names of its help, which are kept


@pytest.mark.spark
@pytest.mark.server
def test_the_first_screen_compacts_a_table_of_the_readers_own(s3_server: S3Server, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    block = next(text for kind, text in blocks(ROOT / "README.md") if kind == "bash" and "CATALOG_URI" in text)
    assert readme.index(block) < 3000, "the first screen"
    lake = lakes.rest_lake(s3_server, namespace="sales")
    table = lakes.append_small_files(lake.catalog.create_table("sales.orders", lakes.NUMBERS), 6)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for example, own in {
        "https://catalog.example.com": s3_server.rest_uri,
        "CATALOG_WAREHOUSE=prod": f"CATALOG_WAREHOUSE={s3_server.warehouse}",
        "client-id:client-secret": f"{s3_server.access_key}:{s3_server.secret_key}",
    }.items():
        assert example in block
        block = block.replace(example, own)
    # The store of the test is not Amazon's.
    block = re.sub(
        rf"^({PROGRAM} \w+)", rf"\1 --catalog-property s3.endpoint={s3_server.s3_endpoint}", block, flags=re.M
    )
    keys = {"AWS_ACCESS_KEY_ID": s3_server.access_key, "AWS_SECRET_ACCESS_KEY": s3_server.secret_key}
    env = os.environ | keys | {"AWS_REGION": "us-east-1"}
    command = ["/bin/sh", "-e", "-c", block]
    shell = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert shell.returncode == 0, shell.stdout + shell.stderr
    assert table.refresh().inspect.data_files().num_rows == 1
    lakes.close(lake)


def anchors(page: Path) -> set[str]:
    """The anchors of a page as GitHub makes them."""
    headings = _HEADING.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


def test_decisions_have_numbers_of_their_own() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    numbers = [int(page.name.partition("-")[0]) for page in pages]
    assert numbers == sorted(set(numbers))
    assert not [page.name for page, number in zip(pages, numbers, strict=True) if not _titled(page, number)]


def _titled(page: Path, number: int) -> bool:
    return page.read_text().startswith(f"# {number}. ")


def test_the_disclaimer_is_where_people_look() -> None:
    sentence = "not affiliated with or endorsed by the Apache Software Foundation"
    for page in ("README.md", "NOTICE", "docs/index.md"):
        assert sentence in " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_that_sentences_name_exist(page: Path) -> None:
    verbs = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    options = {option for verb in verbs for one in verb.params for option in (*one.opts, *one.secondary_opts)}
    of_others = {"--help", "--quick", "--root", "--server"}  # of every program, of benchmarks, and of all verbs
    names = set(re.findall(r"`(--[a-z-]+)", page.read_text()))
    assert not names - options - of_others


def test_the_page_on_variables_has_all_that_the_code_reads() -> None:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"[\"`]((?:CATALOG|ICEBERG_COMPACTION)_[A-Z_]+)[\"`]", sources))
    assert len(names) >= 8
    names.remove("ICEBERG_COMPACTION_DAEMON")  # a process sets it for one of its own
    assert not [name for name in names if f"`{name}`" not in page]


def test_the_table_of_options_has_all_of_a_policy() -> None:
    page = (ROOT / "docs" / "reference" / "strategies.md").read_text()
    table = page[page.index("## Options") : page.index("All options of Iceberg's `rewrite_data_files`")]
    names = {name.replace("_", "-") for name in Policy.model_fields}
    assert set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))) == names


def test_the_page_on_the_library_has_all_arguments_kinds_and_events() -> None:
    page = (ROOT / "docs" / "reference" / "library.md").read_text()
    names = [*inspect.signature(Compactor).parameters, *(kind.value for kind in Kind)]
    names += [event.model_fields["kind"].default for event in get_args(get_args(Event)[0])]
    assert len(names) > 20
    assert not [name for name in names if f"`{name}`" not in page]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("reference/strategies.md", [*GroupReason, *LeftOutReason, *Spread, *Strategy]),
        ("reference/plans.md", list(GroupEnd)),
        ("how-to/manifests.md", [*manifest_plan.Reason, *manifest_plan.KeptReason]),
        ("explanation/proof.md", list(ProofLevel)),
    ],
)
def test_words_of_results_are_explained(page: str, words: list[Enum]) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert not [word.value for word in words if f"`{word.value}`" not in text]
