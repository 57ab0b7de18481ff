"""Small files of Iceberg Java, joined as bytes: Java reads the same rows, finds rows by their values, and compacts the
result further."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.execute.worker.copy import join_choice
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

FILES, ROWS = 4, 12_000  # so many rows in a page that it is large enough to be moved
COLUMNS = (
    "id bigint, name string, note string, price decimal(9,2), total decimal(18,4), huge decimal(38,6), score double,"
    " day date, s struct<a:int,b:string>, tags array<string>, m map<string,bigint>"
)
INSERT = (
    "select /*+ coalesce(1) */ {i} * 12000 + id, concat('name ', (id + {i} * 7) % 23), uuid(),"
    " cast((id % 500) * 1.25 as decimal(9,2)), cast(id * 1.0625 as decimal(18,4)), cast(-id as decimal(38,6)),"
    " case id % 50 when 0 then cast('NaN' as double) when 1 then null when 2 then -0.0D else id / 3 end,"
    " date_add(date'2026-01-01', cast(id % 90 as int)),"
    " case when id % 7 = 0 then null else named_struct('a', cast(id % 100 as int), 'b', concat('b', id % 3)) end,"
    " case id % 4 when 0 then null when 1 then array() else array('x', concat('t', id % 9), null) end,"
    " case id % 3 when 0 then null when 1 then map() else map('k', id, 'l', null) end"
    " from range(12000)"
)
CONDITIONS = (
    "id = 30123",
    "id between 11990 and 12010",
    "name = 'name 22' and id < 15000",
    "name = 'name 22x'",
    "price = 12.50 and id > 40000",
    "total < 1",
    "huge < -11995",
    "score = 0.0",
    "isnan(score) and id > 47000",
    "score is null and id < 1000",
    "day = date'2026-03-31' and id < 20000",
    "s.a = 42 and s.b = 'b1'",
    "s is null and id % 1000 = 0",
)


def _rows(java: SparkSession, condition: str = "true") -> list[str]:
    return sorted(repr(row) for row in java.table("lake.db.joined").where(condition).collect())


@pytest.mark.parametrize("deleted", [0, FILES * ROWS // 50], ids=["all", "thinned"])
def test_java_reads_finds_and_compacts_joined_row_groups(
    java: SparkSession, java_lake: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    java.sql("drop table if exists lake.db.joined")
    properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    java.sql(f"create table lake.db.joined ({COLUMNS}) using iceberg tblproperties ({properties})")
    for number in range(FILES):
        java.sql(f"insert into lake.db.joined {INSERT.format(i=number)}").collect()
    if deleted:
        monkeypatch.setattr(join_choice, "_GAIN", 1000.0)  # much of such a table must be decoded
        java.sql("delete from lake.db.joined where id % 50 = 7").collect()
    # Where doubles are encoded (because rows were left out, or by `never`), Java does not find -0.0 by 0.0.
    conditions = [condition for condition in CONDITIONS if not deleted or condition != "score = 0.0"]
    everything, chosen = _rows(java), {condition: _rows(java, condition) for condition in conditions}
    assert len(everything) == FILES * ROWS - deleted
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    ours = Compactor(settings, engine="inline", options={"min-input-files": 2, "partial-progress": False})
    outcome = ours.compact_table("db.joined")
    assert (outcome.kind, outcome.files_removed, outcome.files_added) == (Kind.COMPACTED, FILES, 1)
    assert outcome.deleted_rows == deleted
    assert (outcome.effort.joined_groups, outcome.effort.encoded_groups) == (FILES, 0)
    java.sql("refresh table lake.db.joined")
    assert _rows(java) == everything
    for condition in conditions:
        assert _rows(java, condition) == chosen[condition], condition
    rewrite = "call lake.system.rewrite_data_files(table => 'db.joined', options => map('rewrite-all', 'true'))"
    java.sql(rewrite).collect()
    assert _rows(java) == everything
