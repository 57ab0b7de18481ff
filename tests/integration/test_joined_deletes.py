"""A table whose small row groups lose rows, from plan to commit and to the proof of the run afterwards: they are joined
without these rows, and independent readers see the rows that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import manifests

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.copy import join_choice
from iceberg_compaction.model.verification import CheckVerdict

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "kind", StringType()),
    NestedField(3, "amount", DecimalType(12, 2)),
    NestedField(4, "day", DateType()),
    NestedField(5, "note", StringType()),
)
FLOATS = Schema(*SCHEMA.fields, NestedField(6, "score", DoubleType()))
FILES, ROWS = 6, 4000


def _rows(number: int, schema: Schema) -> pa.Table:
    chance = np.random.default_rng(number)
    columns: list[Any] = [
        pa.array(range(number * ROWS, (number + 1) * ROWS)),
        pa.array([f"kind {n}" for n in chance.integers(0, 12, ROWS)], mask=chance.random(ROWS) < 0.1),
        pa.array(chance.integers(0, 9999, ROWS)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
        pa.array(chance.integers(8000, 9000, ROWS).astype(np.int32)).cast(pa.date32()),
        pa.array([f"note {n} of {number}" for n in range(ROWS)], mask=chance.random(ROWS) < 0.2),
        pa.array(chance.random(ROWS)),
    ]
    fields = [pa.field(field.name, arrow_schemas.plain(field.type)) for field in arrow_schemas.file_schema(schema)]
    return pa.table(columns[: len(fields)], schema=pa.schema(fields))


def _table(lake: lakes.Lake, schema: Schema) -> tuple[Table, pa.Table]:
    table = lakes.make_table(lake.catalog, "db.t", schema)
    parts = [_rows(number, schema) for number in range(FILES)]
    for part in parts:
        table.append(part)
    return table, pa.concat_tables(parts)


def _paths(table: Table) -> list[str]:
    files = table.inspect.data_files()
    lowest = [dict(metrics)["id"]["lower_bound"] for metrics in files["readable_metrics"].to_pylist()]
    return [path for _, path in sorted(zip(lowest, files["file_path"].to_pylist(), strict=True))]


@pytest.mark.parametrize("level", ["counts", "checksum", "deep"])
@pytest.mark.parametrize("schema", [SCHEMA, FLOATS], ids=["plain", "floats"])
def test_rows_that_are_left_are_those_that_readers_saw(
    local_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch, schema: Schema, level: str
) -> None:
    monkeypatch.setattr(join_choice, "_GAIN", 1000.0)  # files are so small that it never pays
    table, stored = _table(local_lake, schema)
    paths = _paths(table)
    table = manifests.add_position_delete(table, {paths[0]: range(0, ROWS, 50)})
    table = manifests.add_position_delete(table, {paths[3]: [0, ROWS - 1]})
    table = manifests.add_position_delete(table, {paths[1]: [7], paths[2]: [8, 9]}, file_scoped=False)
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([5 * ROWS, 5 * ROWS + 1, 50, 10**9])}))
    gone = {*range(0, ROWS, 50), 3 * ROWS, 4 * ROWS - 1, ROWS + 7, 2 * ROWS + 8, 2 * ROWS + 9, 5 * ROWS, 5 * ROWS + 1}
    expected = stored.filter(pc.invert(pc.is_in(stored["id"], pa.array(sorted(gone)))))
    options = {"rewrite-all": True, "verify": level}

    compactor = Compactor(local_lake.settings, "full", engine="inline", options=options)
    outcome = compactor.compact_table("db.t")

    assert (outcome.kind, outcome.deleted_rows) == (Kind.COMPACTED, len(gone)), outcome.sentence
    assert outcome.effort is not None
    assert (outcome.effort.joined_groups, outcome.effort.encoded_groups) == (FILES, 0), outcome.effort.sentence
    assert "deleted" not in outcome.effort.sentence
    table.refresh()
    assert table.inspect.delete_files().num_rows == 0
    assert table.scan().to_arrow().sort_by("id").to_pylist() == expected.to_pylist()
    with duckdb.connect() as connection:
        read = connection.read_parquet(_paths(table)).to_arrow_table()
    assert read.sort_by("id").to_pylist() == expected.to_pylist()
    metrics = table.inspect.data_files()["readable_metrics"].to_pylist()
    for name in schema.column_names:
        nulls = sum(dict(of_file)[name]["null_value_count"] for of_file in metrics)
        assert nulls == expected[name].null_count, name
        low = min(dict(of_file)[name]["lower_bound"] for of_file in metrics)
        assert low <= pc.min(expected[name]).as_py(), name
    assert min(dict(of_file)["id"]["lower_bound"] for of_file in metrics) == 1
    verified = compactor.verify(outcome.run_id, "db.t")
    assert verified.verdict is CheckVerdict.PROVED, verified.sentence
