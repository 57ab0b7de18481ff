"""Bad input as people see it: a table of commands, sentences and exit codes. 2 means that the command was wrong, 1 that
something else was. Trouble with stores is in test_storage_trouble.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

# The command, with names in braces; the exit code; the sentence, or its beginning if it ends in "...".
CASES: dict[str, tuple[str, int, str]] = {
    "no catalog": (
        "doctor",
        2,
        'No catalog called "default" is in PyIceberg\'s configuration (none is configured there); give --catalog-uri, '
        "--spark-catalog or CATALOG_URI.",
    ),
    "no such database": (
        "doctor --catalog-uri sqlite:///{folder}/none.db",
        2,
        "There is no SQLite catalog at {folder}/none.db; check the path (sqlite:///relative/path has three slashes, "
        "sqlite:////absolute/path four).",
    ),
    "another database": (
        "doctor --catalog-uri sqlite:///{folder}/other.db",
        2,
        "The database sqlite:///{folder}/other.db holds no Iceberg catalog: it has no table iceberg_tables.",
    ),
    "wrong name of a SQL catalog": (
        "doctor --catalog-uri {uri} --catalog-name defaults",
        2,
        'The database {uri} holds the catalog "default" and none called "defaults"; name it with --catalog-name '
        "default.",
    ),
    "unknown scheme": ("doctor --catalog-uri ftp://lake", 2, "ftp:// is not known as a catalog; known are ..."),
    "--table and --all": (
        "doctor --catalog-uri {uri} --table db.events --all",
        2,
        "--all means every table; give either --all or --table, not both.",
    ),
    "--yes alone": (
        "doctor --catalog-uri {uri} --yes",
        2,
        "--yes answers the question of --fix-properties; give both.",
    ),
    "report in no folder": (
        "doctor --catalog-uri {uri} --report {folder}/none/x.html",
        2,
        "--report {folder}/none/x.html cannot be written: there is no folder {folder}/none.",
    ),
    "report over a folder": (
        "doctor --catalog-uri {uri} --report {folder}",
        2,
        "--report {folder} is a folder; name a file in it.",
    ),
    "report without a catalog that answers": (
        "doctor --catalog-uri http://127.0.0.1:1 --report {folder}/none/x.html",
        2,
        "--report {folder}/none/x.html cannot be written: there is no folder {folder}/none.",
    ),
    "plan in no folder": (
        "plan --catalog-uri http://127.0.0.1:1 --table db.events --out {folder}/none/x.json",
        2,
        "--out {folder}/none/x.json cannot be written: there is no folder {folder}/none.",
    ),
    "a run of --table and --all": (
        "run --catalog-uri {uri} --table db.events --all --engine inline",
        2,
        "--all means every table; give either --all or --table, not both.",
    ),
    "no such table": (
        "plan --catalog-uri {uri} --table db.event",
        1,
        'There is no table "db.event" in the catalog "default"; did you mean db.events?',
    ),
    "no such namespace": (
        "plan --catalog-uri {uri} --table shop.events",
        1,
        'There is no namespace "shop" in the catalog "default"...',
    ),
    "no such branch": (
        "plan --catalog-uri {uri} --table db.events --branch dev",
        2,
        "Table db.events has no branch 'dev'; there is main.",
    ),
    "no pattern's match": ("doctor --catalog-uri {uri} --table shop.*", 1, "No table of the catalog matches 'shop.*'."),
    "no such engine": (
        "run --catalog-uri {uri} --table db.events --engine duck",
        2,
        "'duck' is not an engine; choose one of spark, inline, auto.",
    ),
    "no size": ("plan --catalog-uri {uri} --table db.events --target-file-size big", 2, "Wrong value for ..."),
    "no plan": (
        "apply {folder}/none.json --catalog-uri {uri} --engine inline",
        2,
        "The plan {folder}/none.json cannot be read: No such file or directory.",
    ),
    "missing metadata": (
        "doctor --catalog-uri {uri} --table db.gone",
        1,
        "The metadata file {gone} of db.gone is missing; register the table again with a metadata file that is there, "
        "or drop it.",
    ),
    "damaged metadata": (
        "plan --catalog-uri {uri} --table db.damaged",
        1,
        "The metadata file {damaged} of db.damaged is damaged: Invalid JSON...",
    ),
    "metadata without a schema": (
        "plan --catalog-uri {uri} --table db.odd",
        1,
        "The metadata file {odd} of db.odd is damaged: location: Field required...",
    ),
    "damaged manifest list": (
        "plan --catalog-uri {uri} --table db.listless",
        1,
        "Table db.listless: Manifest list {listless} of snapshot ...",
    ),
    "a property that is no size": (
        "plan --catalog-uri {uri} --table db.sizes",
        1,
        "The file sizes for table db.sizes cannot be used: the table's write.target-file-size-bytes is 'large', not a "
        "number of bytes above 0.",
    ),
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A lake with one good table, and others that cannot be read; what the sentences name."""
    folder = tmp_path_factory.mktemp("bad")
    lake = lakes.file_lake(folder / "lake")
    paths = {}
    for name in ("events", "gone", "damaged", "odd", "listless"):
        table = lakes.append_small_files(lakes.make_table(lake.catalog, f"db.{name}"), 1)
        paths[name] = table.metadata_location
    lakes.make_table(lake.catalog, "db.sizes", properties={"write.target-file-size-bytes": "large"})
    on_disk(paths["gone"]).unlink()
    on_disk(paths["damaged"]).write_text('{"format-version": 2, ')
    on_disk(paths["odd"]).write_text('{"format-version": 2}')
    snapshot = lake.catalog.load_table("db.listless").current_snapshot()
    assert snapshot is not None
    paths["listless"] = snapshot.manifest_list
    on_disk(paths["listless"]).write_bytes(b"no Avro")
    lake.catalog.close()
    (folder / "other.db").touch()
    return {"folder": str(folder), "uri": str(lake.settings.uri), **paths}


def on_disk(location: str) -> Path:
    return Path(location.removeprefix("file://"))


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_with_an_exit_code(names: dict[str, str], case: str) -> None:
    command, code, sentence = CASES[case]
    words = [word.format(**names) for word in command.split()]
    before = sorted(str(path) for path in Path(names["folder"]).rglob("*"))
    result = CliRunner().invoke(app, [*words, "--no-progress"], env={"NO_COLOR": "1"})
    expected = f"error: {sentence.format(**names)}"
    if expected.endswith("..."):
        assert result.stderr.startswith(expected.removesuffix("...")), result.output
        assert result.stderr.count("\n") == 1
    else:
        assert result.stderr == f"{expected}\n"
    assert result.exit_code == code
    assert result.stdout == ""
    assert sorted(str(path) for path in Path(names["folder"]).rglob("*")) == before


@pytest.mark.parametrize("command", ["doctor", "plan --table *", "manifests --table * --dry-run"])
def test_an_empty_catalog_is_no_error(tmp_path: Path, command: str) -> None:
    uri = f"sqlite:///{tmp_path}/empty.db"
    SqlCatalog("default", uri=uri, warehouse=tmp_path.as_uri()).close()
    result = CliRunner().invoke(app, [*command.split(), "--catalog-uri", uri, "--output", "json"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "[]\n", "")


def test_doctor_says_that_a_catalog_is_empty(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/empty.db"
    SqlCatalog("default", uri=uri, warehouse=tmp_path.as_uri()).close()
    result = CliRunner().invoke(app, ["doctor", "--catalog-uri", uri])
    assert (result.exit_code, result.stdout) == (0, "There are no tables.\n")


@pytest.mark.parametrize("output", [("--output", "json"), ("--output=json",)])
def test_wrong_usage_is_a_document_where_a_program_reads(output: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["history", "--limit", "0", *output])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["kind"], document["exit_code"]) == (2, "error", 2)
    assert result.stderr.startswith(f"error: {document['sentence']}\n")
