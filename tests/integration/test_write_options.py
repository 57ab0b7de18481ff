"""Options of the writer for one run: files have them, plan and snapshot say so, and the table's properties stay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction import Compactor, errors
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model.copy_plan import Way

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

CODEC, STATS = "write.parquet.compression-codec", "write.parquet.stats-enabled.column.name"
NAME = "db.events"


@pytest.fixture
def table(local_lake: lakes.Lake) -> Table:
    made = lakes.make_table(local_lake.catalog, NAME)
    lakes.append_small_files(made, 6)
    return made


def codecs(table: Table) -> set[str]:
    paths = table.refresh().inspect.data_files()["file_path"].to_pylist()
    footers = [pq.read_metadata(path.removeprefix("file://")) for path in paths]
    return {
        footer.row_group(number).column(column).compression
        for footer in footers
        for number in range(footer.num_row_groups)
        for column in range(footer.num_columns)
    }


def ids(table: Table) -> list[Any]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist(), key=str)


def test_files_have_the_codec_of_the_run_and_a_second_run_has_nothing_to_do(
    local_lake: lakes.Lake, table: Table
) -> None:
    before = ids(table)
    options = {CODEC: "gzip"}
    compactor = Compactor(
        local_lake.catalog, engine="inline", write_options=options, snapshot_properties={"ticket": "OPS-12"}
    )
    plan = compactor.plan_table(NAME)
    assert [Way(row["copying"]) for row in plan.groups.columns.to_pylist()] == [Way.CODEC]
    assert plan.copying.copied_bytes == 0
    assert f"Files are written with {CODEC}=gzip in this run" in plan.notes[0]
    outcome = compactor.compact_table(NAME)
    assert outcome.kind.value == "compacted"
    assert codecs(table) == {"GZIP"}
    assert ids(table) == before
    summary = table.metadata.snapshot_by_id(outcome.snapshot_ids[-1]).summary
    assert summary["compaction.write-options"] == f"{CODEC}=gzip"
    assert summary["ticket"] == "OPS-12"
    assert CODEC not in table.properties
    assert compactor.compact_table(NAME).kind.value == "healthy"


def test_row_groups_that_have_the_codec_already_are_copied(local_lake: lakes.Lake, table: Table) -> None:
    Compactor(local_lake.catalog, engine="inline", write_options={CODEC: "gzip"}).compact_table(NAME)
    options = {"rewrite-all": True, "min-row-group-size-bytes": 1, "copy-row-groups": "auto", "verify": "deep"}
    lakes.append_small_files(table.refresh(), 1)
    compactor = Compactor(local_lake.catalog, engine="inline", options=options, write_options={CODEC: "gzip"})
    compactor.compact_table(NAME)
    assert codecs(table) == {"GZIP"}


def test_options_that_footers_do_not_tell_encode_everything(local_lake: lakes.Lake, table: Table) -> None:
    compactor = Compactor(
        local_lake.catalog, engine="inline", options={"rewrite-all": True}, write_options={STATS: "false"}
    )
    outcome = compactor.compact_table(NAME)
    assert outcome.effort.copied_groups == outcome.effort.joined_groups == 0
    (path,) = table.refresh().inspect.data_files()["file_path"].to_pylist()
    columns = pq.read_metadata(path.removeprefix("file://")).row_group(0)
    told = {columns.column(n).path_in_schema: columns.column(n).is_stats_set for n in range(columns.num_columns)}
    assert told == {"id": True, "name": False, "amount": True}
    assert compactor.plan_table(NAME).policy.write_options == (f"{STATS}=false",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"write.parquet.bloom-filter-enabled.column.idd": "true"},
            "which is no column of db.events (did you mean id?)",
        ),
        ({CODEC: "snappy", "write.parquet.compression-level": "3"}, "the codec snappy has no levels"),
        ({"write.parquet.compression-level": "99"}, "zstd has levels from"),
    ],
)
@pytest.mark.usefixtures("table")
def test_options_that_do_not_fit_the_table_are_refused(
    local_lake: lakes.Lake, options: dict[str, str], words: str
) -> None:
    with pytest.raises(errors.ConfigError) as refused:
        Compactor(local_lake.catalog, engine="inline", write_options=options).plan_table(NAME)
    assert words in str(refused.value)


def test_flags_go_through_a_plan_file_to_the_files(local_lake: lakes.Lake, table: Table, tmp_path: Path) -> None:
    plan, uri = tmp_path / "plan.json", str(local_lake.settings.uri)
    environment = {"ICEBERG_COMPACTION_STATE": str(tmp_path / "runs.db")}
    flags = ["--write-option", f"{CODEC}=snappy", "--snapshot-property", "ticket=OPS-13"]
    made = CliRunner().invoke(
        app, ["plan", "--catalog-uri", uri, "-t", NAME, *flags, "--out", str(plan)], env=environment
    )
    assert made.exit_code == 0, made.stderr
    assert f"{CODEC}=snappy" in made.stdout.replace("\n", " ")
    assert json.loads(plan.read_text())["policy"]["snapshot-properties"] == ["ticket=OPS-13"]
    applied = CliRunner().invoke(app, ["apply", str(plan), "--catalog-uri", uri, "--engine", "inline"], env=environment)
    assert applied.exit_code == 0, applied.stderr
    assert codecs(table) == {"SNAPPY"}
    assert table.refresh().current_snapshot().summary["ticket"] == "OPS-13"


def test_a_policy_file_may_have_them(local_lake: lakes.Lake, table: Table, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"write-options:\n  {CODEC}: gzip\nsnapshot-properties: [team=lake]\n")
    Compactor(local_lake.catalog, engine="inline", policy=policy).compact_table(NAME)
    assert codecs(table) == {"GZIP"}
    assert table.refresh().current_snapshot().summary["team"] == "lake"
