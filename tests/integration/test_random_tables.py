"""Whatever a table looks like (types, partitions, sizes, deletes), compaction keeps its rows, leaves no stray file
and has nothing to do a second time."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from tests.factories import lake as lakes
from tests.factories import manifests, reader, rewrites, storage
from tests.factories.examples import examples

from iceberg_compaction import Compactor, Kind, Strategy
from iceberg_compaction.model.policies import CopyMode

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES: dict[IcebergType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats(),
    DecimalType(9, 2): st.decimals(-(10**6), 10**6, places=2),
    DecimalType(38, 10): st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-10)),
    DateType(): st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    TimeType(): st.times(),
    TimestampType(): st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),
    TimestamptzType(): st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(timezone.utc)),
    StringType(): st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    BinaryType(): st.binary(max_size=30),
    FixedType(7): st.binary(min_size=7, max_size=7),
}
TRANSFORMS: dict[type[IcebergType], list[Transform[Any, Any]]] = {
    IntegerType: [IdentityTransform(), BucketTransform(3), TruncateTransform(1000)],
    LongType: [IdentityTransform(), BucketTransform(3)],
    StringType: [IdentityTransform(), TruncateTransform(1), BucketTransform(2)],
    DateType: [IdentityTransform(), MonthTransform()],
    TimestampType: [DayTransform(), MonthTransform()],
    TimestamptzType: [DayTransform()],
    BooleanType: [IdentityTransform()],
    DecimalType: [IdentityTransform()],
    TimeType: [IdentityTransform()],
}
TINY = "4000"  # several outputs; far too small for a fixed point, because footers weigh more than rows
FEW = 4  # distinct values of a partition column, so that partitions have files to merge


@st.composite
def columns(draw: st.DrawFn) -> list[tuple[IcebergType, st.SearchStrategy[Any]]]:
    primitive = st.sampled_from(sorted(VALUES, key=str))
    made: list[tuple[IcebergType, st.SearchStrategy[Any]]] = []
    next_id = 100
    for kind in draw(st.lists(st.sampled_from("pppplms"), min_size=1, max_size=5)):
        inner = draw(primitive)
        some = st.none() | VALUES[inner]
        next_id += 10
        match kind:
            case "l":
                made.append((ListType(next_id, inner, False), st.lists(some, max_size=3)))
            case "m":
                keys = st.dictionaries(VALUES[StringType()], some, max_size=3).map(lambda d: list(d.items()))
                made.append((MapType(next_id, StringType(), next_id + 1, inner, False), keys))
            case "s":
                child = StructType(
                    NestedField(next_id, "x", inner, False), NestedField(next_id + 1, "y", LongType(), False)
                )
                made.append((child, st.fixed_dictionaries({"x": some, "y": st.none() | VALUES[LongType()]})))
            case _:
                made.append((inner, VALUES[inner]))
    return made


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, PartitionSpec, list[pa.Table], dict[str, str]]:
    drawn = draw(columns())
    schema = Schema(*(NestedField(i + 1, f"c{i}", kind, False) for i, (kind, _) in enumerate(drawn)))
    candidates = [i for i, (kind, _) in enumerate(drawn) if type(kind) in TRANSFORMS]
    by = draw(st.sampled_from(candidates)) if candidates and draw(st.booleans()) else None
    spec = PartitionSpec()
    values = [strategy for _, strategy in drawn]
    if by is not None:
        transform = draw(st.sampled_from(TRANSFORMS[type(drawn[by][0])]))
        spec = PartitionSpec(PartitionField(by + 1, 1000, transform, "part"))
        values[by] = st.sampled_from(draw(st.lists(values[by], min_size=1, max_size=FEW)))
    arrow = schema.as_arrow()
    appends = []
    for _ in range(draw(st.integers(2, 5))):
        count = draw(st.integers(1, 8))
        data = [
            pa.array(draw(st.lists(st.none() | value, min_size=count, max_size=count)), field.type)
            for field, value in zip(arrow, values, strict=True)
        ]
        appends.append(pa.table(data, schema=arrow))
    version = draw(st.sampled_from(["1", "2", "2"]))
    codec = draw(st.sampled_from(["zstd", "snappy", "gzip", "uncompressed"]))
    target = draw(st.sampled_from([TINY, TINY, "536870912"]))
    properties = {
        "format-version": version,
        "write.parquet.compression-codec": codec,
        "write.target-file-size-bytes": target,
    }
    return schema, spec, appends, properties


@pytest.fixture(scope="module")
def one_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakes.Lake]:
    """For all tables: a catalog takes longer to make than a table."""
    lake = lakes.file_lake(tmp_path_factory.mktemp("random"))
    yield lake
    lakes.close(lake)


@pytest.mark.slow
@examples(
    25,  # values of all types pass through the worker alone in test_worker_properties
    phases=[Phase.generate],  # shrinking whole tables takes longer than finding the cause
    suppress_health_check=list(HealthCheck),
)
@given(
    drawn=tables(),
    strategy=st.sampled_from(list(Strategy)),
    rewrite_all=st.booleans(),
    copying=st.sampled_from(CopyMode),
)
def test_random_tables_keep_their_rows(
    one_lake: lakes.Lake,
    drawn: tuple[Schema, PartitionSpec, list[pa.Table], dict[str, str]],
    strategy: Strategy,
    rewrite_all: bool,
    copying: CopyMode,
) -> None:
    schema, spec, appends, properties = drawn
    name, catalog = one_lake.name(f"t{uuid.uuid4().hex}"), one_lake.catalog
    table = catalog.create_table(name, schema, partition_spec=spec, properties=properties)
    for data in appends:
        table.append(data.cast(table.schema().as_arrow()))  # the catalog numbers nested fields anew
    if strategy is Strategy.DELETE_FILES and table.format_version == 2:
        first = rewrites.live_data_files(table)[0].file_path
        table = manifests.add_position_delete(table, {first: [0, 3]}, file_scoped=rewrite_all)
    before = storage.row_multiset(table.scan().to_arrow())
    options = {"min-input-files": 2, "rewrite-all": rewrite_all, "copy-row-groups": copying}
    compactor = Compactor(catalog, strategy, engine="inline", options=options)
    outcome = compactor.compact_table(name)
    if strategy in (Strategy.SORT, Strategy.TIME_SERIES, Strategy.DIMENSIONAL) and outcome.kind is Kind.UNSUPPORTED:
        assert "cannot be used for table" in outcome.sentence  # the table has nothing to sort by
    else:
        assert outcome.kind in (Kind.COMPACTED, Kind.HEALTHY), outcome.sentence
    table = table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == before
    assert storage.files_under(table) == reader.known_files(table)
    if not rewrite_all and properties["write.target-file-size-bytes"] != TINY:
        assert compactor.compact_table(name).kind in (Kind.HEALTHY, Kind.UNSUPPORTED)
