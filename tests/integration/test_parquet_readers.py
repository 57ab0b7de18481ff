"""Files put together of row groups of several writers, read by engines that know nothing of how they were made: all
values, and rows found by statistics, page indexes and Bloom filters."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import joined, spliced
from tests.factories import lake as lakes

from iceberg_compaction.formats.parquet import byte_ranges, parquet_footer, splice
from iceberg_compaction.formats.parquet.join import join_row_groups, ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

IO = PyArrowFileIO()
SCHEMA = pa.schema([field.with_nullable(True) for field in spliced.SCHEMA])
ROWS = 1500
CONDITIONS = [
    "word = 'word 5'",
    "word = 'word 5x'",  # between the bounds, and nowhere
    "word IN ('word 1', 'none', 'word 299')",
    "word > 'word 95' AND id < 2000700",
    "id = 3000123",
    "id = 3999999",
    "id >= 1000100 AND id < 1000150",
    "id > 2000400 AND id <= 4000100 AND flag",
    "ratio < 0.01",
    "word IS NULL AND id < 3000000",
    "id < 0",
]


def _with_duckdb(table: pa.Table, path: str) -> None:
    with duckdb.connect() as connection:
        connection.register("rows_to_write", table)
        connection.sql(f"COPY (FROM rows_to_write) TO '{path}' (FORMAT parquet)")


def _with_datafusion(table: pa.Table, path: str) -> None:
    context = datafusion.SessionContext()
    context.register_record_batches("t", [table.to_batches()])
    pages = "'format.data_page_row_count_limit' 200, 'format.write_batch_size' 100"
    context.sql(
        f"COPY t TO '{path}' STORED AS PARQUET OPTIONS ('format.bloom_filter_on_write' true, {pages})"
    ).collect()


def _with_polars(table: pa.Table, path: str) -> None:
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    frame.write_parquet(path, row_group_size=600, data_page_size=2000)


WRITERS: dict[str, Callable[[pa.Table, str], Any]] = {
    "pyarrow": lambda table, path: spliced.write(path, table, group=600),
    "duckdb": _with_duckdb,
    "datafusion": _with_datafusion,
    "polars": _with_polars,
}


def _take_over(making: spliced.Making, path: str, table: pa.Table) -> int:
    """Copy all row groups; what the other writer lays out in another way is encoded. Returns how many columns came as
    bytes."""
    found = parquet_footer.read(IO, path)
    assert found.why_not is None
    by_path = {leaf.path: number for number, leaf in enumerate(found.leaves)}
    places = [by_path.get(leaf.path) for leaf in making.file.leaves]
    missing = {
        leaf.path[0]
        for leaf, place in zip(making.file.leaves, places, strict=True)
        if place is None or found.leaves[place].layout != leaf.layout
    }
    places = [
        None if leaf.path[0] in missing else place for leaf, place in zip(making.file.leaves, places, strict=True)
    ]
    first = 0
    with splice.Source(IO, found) as source:
        for group in found.groups:
            patch = table.select([name for name in SCHEMA.names if name in missing]).slice(first, group.rows)
            making.file.copy(source, group, places, patch, making.arguments)
            first += group.rows
    assert first == table.num_rows
    return sum(place is not None for place in places)


def _make(folder: Path, writers: dict[str, Callable[[pa.Table, str], Any]]) -> tuple[str, pa.Table]:
    """A file of all writers' row groups and of one encoded anew; and the rows that are in it."""
    folder.mkdir(exist_ok=True)
    making = spliced.Making(f"{folder}/out.parquet", schema=SCHEMA)
    tables = [spliced.rows(seed, ROWS, SCHEMA) for seed in range(1, len(writers) + 2)]
    for (name, write), table in zip(writers.items(), tables[1:], strict=True):
        path = f"{folder}/{name}.parquet"
        write(table, path)
        assert _take_over(making, path, table) >= 7
    making.encode(tables[0])
    path = making.finish()
    assert spliced.check(path).groups > len(writers)
    return path, pa.concat_tables([*tables[1:], tables[0]])


def _join(
    folder: Path, writers: dict[str, Callable[[pa.Table, str], Any]], *, leaves_out: bool = False
) -> tuple[str, pa.Table]:
    """A file of one row group for each writer, joined of three files, without some of their rows if that is asked for;
    and the rows that are in it."""
    folder.mkdir(exist_ok=True)
    making = spliced.Making(f"{folder}/out.parquet", schema=SCHEMA, arguments=joined.ARGUMENTS)
    tables = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "_LEAST_PAGE", 0)
        patch.setattr(ways, "_MOST_OF_CHUNK", 2.0)
        for number, (name, write) in enumerate(writers.items(), start=1):
            table = spliced.rows(number, ROWS, SCHEMA)
            paths = []
            for part in range(3):
                paths.append(f"{folder}/{name}-{part}.parquet")
                write(table.slice(part * ROWS // 3, ROWS // 3), paths[-1])
            deleted = np.arange(table.num_rows) % 7 == 3 if leaves_out else None
            tables.append(table if deleted is None else table.filter(pa.array(~deleted)))
            assert _join_all(making, paths, tables[-1], deleted) >= (1 if leaves_out else 2), name
    path = making.finish()
    assert spliced.check(path).groups == len(writers)
    return path, pa.concat_tables(tables)


def _join_all(
    making: spliced.Making, paths: list[str], table: pa.Table, deleted: NDArray[np.bool_] | None = None
) -> int:
    """Joins all row groups of these files, without the rows that are deleted among them. Returns how many columns came
    as bytes or indexes; the others are encoded."""
    leaves = making.file.leaves
    footers = [parquet_footer.read(IO, path) for path in paths]
    numbers = {leaf.path: number for number, leaf in enumerate(footers[0].leaves)}
    columns = [
        number if number is not None and footers[0].leaves[number].layout == leaf.layout else None
        for leaf, number in ((leaf, numbers.get(leaf.path)) for leaf in leaves)
    ]
    groups, first = [], 0
    for footer in footers:
        assert footer.leaves == footers[0].leaves
        with splice.Source(IO, footer) as source:
            for group in footer.groups:
                of_group = None if deleted is None else deleted[first : first + group.rows]
                groups.append(source.load(group, columns, of_group))
                first += group.rows
    present = [number for number, column in enumerate(columns) if column is not None]
    made = join_row_groups.join(groups, leaves, present, making.arguments)
    encoded = {leaf.path[0] for number, leaf in enumerate(leaves) if number not in made}
    kept = {number: column for number, column in made.items() if leaves[number].path[0] not in encoded}
    making.file.join(
        table.num_rows, kept, table.select([name for name in SCHEMA.names if name in encoded]), making.arguments
    )
    return len(kept)


@pytest.fixture(scope="module", params=["copied", "joined", "thinned"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pa.Table]:
    folder = tmp_path_factory.mktemp("readers")
    if request.param == "copied":
        return _make(folder, WRITERS)
    return _join(folder, WRITERS, leaves_out=request.param == "thinned")


def _plain(value: Any) -> Any:
    """A value as everybody means it, whatever it looks like in a library."""
    if isinstance(value, dict):
        if value.keys() == {"key", "value"}:
            return value["key"], value["value"]
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value] if isinstance(value, list) else tuple(value)
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc) if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
    return value


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted((_plain(row) for row in table.to_pylist()), key=lambda row: row["id"])


# The engines: a path and a condition come in, the rows go out


def _pyarrow(path: str, condition: str) -> pa.Table:
    table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
    context = datafusion.SessionContext()  # for the condition only
    context.register_record_batches("t", [table.to_batches()])
    return context.sql(f"SELECT * FROM t WHERE {condition}").to_arrow_table()


def _duckdb(path: str, condition: str) -> pa.Table:
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT * FROM read_parquet('{path}') WHERE {condition}").to_arrow_table()


def _datafusion_context(path: str) -> datafusion.SessionContext:
    settings = {
        "datafusion.execution.parquet.pushdown_filters": "true",
        "datafusion.execution.parquet.enable_page_index": "true",
        "datafusion.execution.parquet.bloom_filter_on_read": "true",
        "datafusion.execution.target_partitions": "1",
    }
    context = datafusion.SessionContext(datafusion.SessionConfig(settings))
    context.register_parquet("t", path)
    return context


def _datafusion(path: str, condition: str) -> pa.Table:
    return _datafusion_context(path).sql(f"SELECT * FROM t WHERE {condition}").to_arrow_table()


def _polars(path: str, condition: str) -> pa.Table:
    with polars.SQLContext(t=polars.scan_parquet(path, use_statistics=True), eager=True) as context:
        found = context.execute(f"SELECT * FROM t WHERE {condition}").to_arrow()
    assert isinstance(found, pa.Table)
    return found


ENGINES = {"pyarrow": _pyarrow, "duckdb": _duckdb, "datafusion": _datafusion, "polars": _polars}


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_read_all_values(made: tuple[str, pa.Table], engine: str) -> None:
    path, table = made
    assert _rows(ENGINES[engine](path, "1 = 1")) == _rows(table)


def _chosen(table: pa.Table, condition: str) -> list[int]:
    context = datafusion.SessionContext()
    context.register_record_batches("t", [table.to_batches()])
    return sorted(context.sql(f"SELECT id FROM t WHERE {condition}").to_arrow_table()["id"].to_pylist())


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("engine", ["duckdb", "datafusion", "polars"])
def test_engines_find_the_right_rows(made: tuple[str, pa.Table], engine: str, condition: str) -> None:
    path, table = made
    assert sorted(ENGINES[engine](path, condition)["id"].to_pylist()) == _chosen(table, condition)


@pytest.mark.parametrize("condition", [("word", "=", "word 5"), ("id", "<", 1_000_050), ("id", "==", 3_000_123)])
def test_pyarrow_finds_the_right_rows(made: tuple[str, pa.Table], condition: tuple[str, str, Any]) -> None:
    path, table = made
    name, operator, value = condition
    text = f"{name} {operator.replace('==', '=')} {value!r}"
    found = pq.read_table(path, filters=[condition], partitioning=None, page_checksum_verification=True)
    assert sorted(found["id"].to_pylist()) == _chosen(table, text)


# That indexes are there is not enough: engines must make use of them.


@pytest.mark.parametrize("made", ["copied"], indirect=True)
def test_duckdb_asks_the_bloom_filters(made: tuple[str, pa.Table]) -> None:
    path, table = made
    groups = parquet_footer.read(IO, path).groups
    filtered = [spliced.BLOOM in group.chunks[1].meta for group in groups]
    assert sum(filtered) >= 5
    with duckdb.connect() as connection:

        def excludes(word: str) -> list[bool]:
            probe = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'word', '{word}')"
            return [row[0] for row in connection.sql(f"{probe} ORDER BY row_group_id").fetchall()]

        absent = [excludes(f"word {number}x") for number in range(50)]
        first = 0
        for number, group in enumerate(groups):
            assert (sum(each[number] for each in absent) > 0.8 * len(absent)) is filtered[number]
            for word in set(table["word"].slice(first, group.rows).to_pylist()[:20]) - {None}:
                assert not excludes(word)[number]
            first += group.rows


def _pruned(path: str, condition: str, metric: str) -> int:
    context = _datafusion_context(path)
    plan = context.sql(f"EXPLAIN ANALYZE SELECT * FROM t WHERE {condition}").to_arrow_table()
    text = "\n".join(plan.column("plan").to_pylist())
    found = re.search(rf"{metric}=([\d.]+)( K)? total → ([\d.]+)( K)? matched", text)
    assert found is not None, text
    total, matched = (
        float(number) * (1000 if unit else 1) for number, unit in ((found[1], found[2]), (found[3], found[4]))
    )
    return int(total - matched)


@pytest.mark.parametrize("made", ["copied"], indirect=True)
def test_datafusion_asks_the_bloom_filters(made: tuple[str, pa.Table]) -> None:
    path, _ = made
    assert _pruned(path, "word = 'word 5x'", "row_groups_pruned_bloom_filter") >= 4
    assert _pruned(path, "word = 'word 5'", "row_groups_pruned_bloom_filter") == 0


def test_datafusion_passes_over_pages(tmp_path: Path) -> None:
    # It does so only in files where all columns of all row groups have page indexes; DuckDB writes none.
    path, table = _make(tmp_path / "indexed", {name: WRITERS[name] for name in ("pyarrow", "datafusion", "polars")})
    for low, pruned in ((1_000_100, 1200), (2_000_100, 300), (3_000_100, 1000)):
        condition = f"id >= {low} AND id < {low + 50}"
        assert _pruned(path, condition, "page_index_rows_pruned") >= pruned
        assert sorted(_datafusion(path, condition)["id"].to_pylist()) == _chosen(table, condition)


def test_datafusion_passes_over_joined_pages(tmp_path: Path) -> None:
    path, table = _join(tmp_path / "indexed", {"pyarrow": WRITERS["pyarrow"], "datafusion": WRITERS["datafusion"]})
    for low in (1_000_100, 1_000_700, 2_000_100, 2_001_200):
        condition = f"id >= {low} AND id < {low + 50}"
        assert _pruned(path, condition, "page_index_rows_pruned") >= 900
        assert sorted(_datafusion(path, condition)["id"].to_pylist()) == _chosen(table, condition)


# Object stores


@pytest.mark.server
def test_files_in_an_object_store(s3_lake: lakes.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_ranges, "_PART", 10_000)  # many parts, as files of usual size have
    table = lakes.make_table(s3_lake.catalog, s3_lake.name("spliced"))
    io, folder = table.io, f"{table.location()}/data"
    assert isinstance(io, PyArrowFileIO)
    assert folder.startswith("s3://")
    tables = [spliced.rows(seed, 3000) for seed in range(3)]
    paths = []
    for seed in range(2):
        local = spliced.write(tmp_path / f"{seed}.parquet", tables[seed], group=2000)
        paths.append(f"{folder}/{seed}.parquet")
        with open(local, "rb") as source, io.new_output(paths[-1]).create() as target:
            target.write(source.read())
    making = spliced.Making(f"{folder}/out.parquet", io=io)
    making.copy(paths[0], digest=True).encode(tables[2]).copy(paths[1])
    metadata, size = making.file.finish()
    with pytest.raises(FileExistsError):
        splice.SplicedFile(io, making.path, spliced.SCHEMA, spliced.ARGUMENTS)
    copied = making.copied[:2]
    spans = [span for each in copied for span in each.spans]
    assert splice.digests(io, making.path, spans) == [digest for each in copied for digest in each.digests]
    fetched = tmp_path / "fetched.parquet"
    with io.new_input(making.path).open() as stream:
        fetched.write_bytes(stream.read())
    assert fetched.stat().st_size == size
    assert pq.read_metadata(fetched).to_dict() == metadata.to_dict()
    assert spliced.check(str(fetched)).blooms == 5 * 2
    expected = pa.concat_tables([tables[0], tables[2], tables[1]])
    assert pq.read_table(fetched, page_checksum_verification=True).to_pylist() == expected.to_pylist()


# Spark, with Java's reader


@pytest.fixture(scope="module", params=["copied", "joined"])
def spark_made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> tuple[str, pa.Table]:
    folder = tmp_path_factory.mktemp("spark")

    def write(table: pa.Table, path: str) -> None:
        frame = spark.createDataFrame(table.select([name for name in SCHEMA.names if name != "counts"])).coalesce(1)
        options = {
            "parquet.bloom.filter.enabled#word": "true",
            "parquet.bloom.filter.expected.ndv#word": "1000",
            "parquet.page.row.count.limit": "200",
        }
        frame.sortWithinPartitions("id").write.mode("overwrite").options(**options).parquet(f"{folder}/by-spark")
        (written,) = folder.glob("by-spark/*.parquet")
        written.rename(path)

    return (_make if request.param == "copied" else _join)(folder, {**WRITERS, "spark": write})


@pytest.fixture(autouse=True)
def _utc(request: pytest.FixtureRequest) -> Iterator[None]:
    if "spark_made" not in request.fixturenames:
        yield
        return
    spark = request.getfixturevalue("spark")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_all_values(spark_made: tuple[str, pa.Table], spark: SparkSession, vectorized: str) -> None:
    path, table = spark_made
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        found = spark.read.parquet(path).toArrow()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert _rows(found) == _rows(table)


@pytest.mark.spark
@pytest.mark.parametrize("condition", CONDITIONS)
def test_spark_finds_the_right_rows(spark_made: tuple[str, pa.Table], spark: SparkSession, condition: str) -> None:
    path, table = spark_made
    found = [row.id for row in spark.read.parquet(path).where(condition).select("id").collect()]
    assert sorted(found) == _chosen(table, condition)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ENGINES)
def test_others_read_what_spark_wrote(spark_made: tuple[str, pa.Table], engine: str) -> None:
    path, table = spark_made
    assert _rows(ENGINES[engine](path, "1 = 1")) == _rows(table)
