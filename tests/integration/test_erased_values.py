"""A value that was deleted is nowhere in the new files: not in a row, and not in a dictionary that no reader shows but
everybody can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import manifests

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "email", StringType()),
    NestedField(3, "only", StringType()),
    NestedField(4, "tags", ListType(5, StringType(), element_required=False)),
)
ROWS = 20_000
SECRET = "alice.secret@example.com"


@pytest.mark.parametrize("codec", ["none", "zstd"])  # indexes are packed in another way where they are compressed
@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_no_dictionary_of_the_new_files_has_it(tmp_path: Path, mode: str, codec: str) -> None:
    lake = lakes.file_lake(tmp_path)
    table = lakes.make_table(lake.catalog, "db.t", SCHEMA, properties={"write.parquet.compression-codec": codec})
    chance = np.random.default_rng(0)
    for number in range(4):
        emails = [f"user{n}@example.com" for n in chance.integers(0, 400, ROWS)]
        only: list[str | None] = [None] * ROWS
        if number == 2:
            emails[777] = only[777] = SECRET
        tags = [[email, None] for email in emails]
        ids = chance.integers(0, 500, ROWS)
        table.append(pa.table({"id": ids, "email": emails, "only": pa.array(only, pa.string()), "tags": tags}))
    assert SECRET.encode() in _bytes(table)
    table = manifests.add_equality_delete(table, pa.table({"email": pa.array([SECRET])}))
    options = {"rewrite-all": True, "copy-row-groups": mode}
    outcome = Compactor(lake.settings, "full", engine="inline", options=options).compact_table("db.t")
    assert outcome.deleted_rows == 1
    assert ("joined" in outcome.effort.sentence) == (mode == "auto")
    table.refresh()
    assert sum(pq.read_metadata(path).num_rows for path in _paths(table)) == 4 * ROWS - 1
    assert SECRET.encode() not in _bytes(table)


def _paths(table: Table) -> list[str]:
    return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]


def _bytes(table: Table) -> bytes:
    """All bytes of the live data files, and the dictionaries of their texts."""
    data = b""
    for path in _paths(table):
        rows = pq.ParquetFile(path, read_dictionary=["email", "only"]).read(["email", "only"])
        chunks = [chunk for column in rows.columns for chunk in column.chunks]
        data += Path(path).read_bytes() + "".join(str(chunk.dictionary.to_pylist()) for chunk in chunks).encode()
    return data
