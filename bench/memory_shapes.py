"""Tasks of many shapes for `bench.memory`: wide and narrow tables, long texts, lists, dictionaries, tiny files, large
row groups, deletes, sorting, partitions, codecs. A folder comes in; a task and its context go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType
from tests.factories import delete_files, tasks

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.model.policies import CopyMode, ProofLevel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

    Task = tuple[RewriteTask, RewriteContext]

_SORTED = SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1)
_BUCKETS = PartitionSpec(PartitionField(1, 1000, BucketTransform(300), "bucket"), spec_id=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Files of a table. `make` gives the columns of one file for a number of rows and a seed."""

    make: Callable[[int, int], dict[str, tuple[Any, Any]]]
    rows: int  # of a file
    files: int
    times: int = 1  # every file is in the task so often
    options: dict[str, Any] | None = None  # of pyarrow's writer
    context: dict[str, Any] | None = None
    copies: bool = False  # whether row groups may be copied
    properties: dict[str, str] | None = None
    spec: PartitionSpec | None = None  # that rows move to
    deletes: str = ""  # "positions" or "keys"
    quick: bool = False  # also part of a short look


def mixed(columns: int, text: int = 24) -> Callable[[int, int], dict[str, tuple[Any, Any]]]:
    """Numbers, amounts, texts and a low-cardinality column in turn."""

    def make(rows: int, seed: int) -> dict[str, tuple[Any, Any]]:
        random = np.random.default_rng(seed)
        made: dict[str, tuple[Any, Any]] = {}
        for number in range(columns):
            if number % 4 == 0:
                made[f"c{number}"] = (LongType(), random.integers(0, 2**40, rows))
            elif number % 4 == 1:
                made[f"c{number}"] = (DoubleType(), random.random(rows).round(3))
            elif number % 4 == 2:
                made[f"c{number}"] = (StringType(), texts(random, rows, text))
            else:
                made[f"c{number}"] = (StringType(), words(random, rows, 40))
        return made

    return make


def texts(random: np.random.Generator, rows: int, length: int) -> pa.Array:
    """Different texts of the given length."""
    letters = random.integers(97, 123, rows * length, dtype=np.uint8)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length)
    return pa.Array.from_buffers(pa.string(), rows, [None, offsets.buffers()[1], pa.py_buffer(letters)])


def words(random: np.random.Generator, rows: int, different: int) -> pa.Array:
    values = pa.array([f"value number {number:06}" for number in range(different)])
    return values.take(pa.array(random.integers(0, different, rows)))


def long_texts(length: int) -> Callable[[int, int], dict[str, tuple[Any, Any]]]:
    def make(rows: int, seed: int) -> dict[str, tuple[Any, Any]]:
        random = np.random.default_rng(seed)
        return {"id": (LongType(), np.arange(rows)), "text": (StringType(), texts(random, rows, length))}

    return make


def lists(rows: int, seed: int) -> dict[str, tuple[Any, Any]]:
    random = np.random.default_rng(seed)
    each = 20
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * each)
    numbers = pa.ListArray.from_arrays(offsets, pa.array(random.integers(0, 2**30, rows * each)))
    tags = pa.ListArray.from_arrays(offsets, words(random, rows * each, 1000))
    return {
        "id": (LongType(), np.arange(rows)),
        "numbers": (ListType(900, LongType(), element_required=False), numbers),
        "tags": (ListType(901, StringType(), element_required=False), tags),
    }


def dictionaries(different: int) -> Callable[[int, int], dict[str, tuple[Any, Any]]]:
    def make(rows: int, seed: int) -> dict[str, tuple[Any, Any]]:
        random = np.random.default_rng(seed)
        return {f"c{number}": (StringType(), words(random, rows, different)) for number in range(20)}

    return make


SHAPES = {
    "12 columns": Shape(make=mixed(12), rows=200_000, files=4, times=4, quick=True),
    "the same, ten times as much": Shape(make=mixed(12), rows=200_000, files=4, times=40, quick=True),
    "one small file of it": Shape(make=mixed(12), rows=20_000, files=2),
    "120 columns": Shape(make=mixed(120), rows=20_000, files=4, times=4, quick=True),
    "1,000 columns": Shape(make=mixed(1000), rows=2_500, files=4, times=4),
    "1,000 columns, one row group": Shape(make=mixed(1000), rows=40_000, files=1),
    "12 columns, row groups of 1 GB": Shape(make=mixed(12), rows=6_000_000, files=1),
    "pages of 64 MB": Shape(make=mixed(12), rows=1_500_000, files=1, times=2, options={"data_page_size": 64 << 20}),
    "texts of 1 MB": Shape(make=long_texts(1 << 20), rows=100, files=4),
    "texts of 20 MB": Shape(make=long_texts(20 << 20), rows=8, files=2, quick=True),
    "lists": Shape(make=lists, rows=100_000, files=3, times=3),
    "20 dictionaries": Shape(make=dictionaries(50), rows=300_000, files=3, times=4),
    "20 large dictionaries": Shape(make=dictionaries(60_000), rows=300_000, files=3, times=3),
    "tiny files": Shape(make=mixed(12), rows=1_000, files=20, times=25),
    "snappy": Shape(make=mixed(12), rows=200_000, files=4, times=4, options={"compression": "snappy"}),
    "gzip": Shape(
        make=mixed(12),
        rows=150_000,
        files=3,
        times=2,
        options={"compression": "gzip"},
        properties={"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "1"},
    ),
    "uncompressed": Shape(
        make=mixed(12),
        rows=200_000,
        files=4,
        times=4,
        options={"compression": "none"},
        properties={"write.parquet.compression-codec": "none"},
    ),
    "position deletes": Shape(make=mixed(12), rows=200_000, files=4, deletes="positions"),
    "equality deletes": Shape(make=mixed(12), rows=200_000, files=4, deletes="keys"),
    "sorted": Shape(
        make=mixed(12), rows=200_000, files=4, times=4, context={"sort_order": _SORTED.model_dump_json()}, quick=True
    ),
    "sorted, 120 columns": Shape(
        make=mixed(120), rows=20_000, files=4, times=4, context={"sort_order": _SORTED.model_dump_json()}
    ),
    "to 300 partitions": Shape(make=mixed(12), rows=200_000, files=4, times=3, spec=_BUCKETS, quick=True),
    "to 300 partitions, 120 columns": Shape(make=mixed(120), rows=20_000, files=4, times=3, spec=_BUCKETS),
    "deep proof": Shape(make=mixed(12), rows=200_000, files=4, times=3, context={"verify": ProofLevel.DEEP}),
    "joined": Shape(make=mixed(12), rows=60_000, files=10, times=3, copies=True),
    "joined, 120 columns": Shape(make=mixed(120), rows=5_000, files=10, times=6, copies=True),
    "copied": Shape(make=mixed(12), rows=200_000, files=4, times=4, copies=True),
    "1,000 columns, copied": Shape(make=mixed(1000), rows=2_500, files=4, times=4, copies=True),
}


def build(root: Path, shape: Shape) -> Task:
    """Writes the files of a shape."""
    paths, schema = [], Schema()
    for number in range(shape.files):
        made = shape.make(shape.rows, number)
        fields = (NestedField(place + 1, name, kind) for place, (name, (kind, _)) in enumerate(made.items()))
        schema = Schema(*fields)
        columns = arrow_schemas.file_schema(schema)
        arrays = [pa.array(values).cast(field.type) for (_, values), field in zip(made.values(), columns, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=columns)
        options = {"compression": "zstd", "store_schema": False, **(shape.options or {})}
        paths.append(root / f"data-{number}.parquet")
        pq.write_table(table, paths[-1], row_group_size=shape.rows, **options)
    context = tasks.make_context(root, schema, properties=shape.properties)
    mode = CopyMode.AUTO if shape.copies else CopyMode.NEVER
    context = context.model_copy(update={"copy_row_groups": mode, **(shape.context or {})})
    if shape.spec is not None:
        specs = {**context.partition_specs, 1: shape.spec.model_dump_json()}
        context = context.model_copy(update={"partition_specs": specs, "output_spec_id": 1})
    task = tasks.make_task(paths * shape.times)
    if shape.deletes:
        delete = _deletes(root, shape, paths, schema)
        update = {"deletes": (delete,), "sequence_numbers": (1,) * len(task.file_paths)}
        task = task.model_copy(update=update)
    return task, context


def _deletes(root: Path, shape: Shape, paths: list[Path], schema: Schema) -> Any:
    random = np.random.default_rng(7)
    if shape.deletes == "positions":
        rows = [
            (path, int(at)) for path in paths for at in np.flatnonzero(random.random(shape.rows) < 0.02)
        ]  # in order, as the specification asks
        return delete_files.position_delete(root / "deletes.parquet", rows, sequence_number=2)
    keys = pa.table({"c0": random.integers(0, 2**40, 4_000_000)}).cast(
        pa.schema([arrow_schemas.file_schema(schema).field("c0")])
    )
    return delete_files.equality_delete(
        root / "deletes.parquet", keys, Schema(schema.fields[0]), (1,), sequence_number=2
    )
