"""Random manifests: files with any partition and metrics, in manifests as various writers leave them. For tests that
what is written anew is what was there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.manifest import write_manifest as pyiceberg_write_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.manifest import entry_fields, written_manifests
from iceberg_compaction.model.rewrite_task import StagedFile

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.manifest import ManifestFile

_DAY = 86_400_000_000
# Doubles as wide as floats: PyIceberg's decoder rounds them. Times that have a text form.
VALUES: list[tuple[types.PrimitiveType, st.SearchStrategy[Any]]] = [
    (types.BooleanType(), st.booleans()),
    (types.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (types.LongType(), st.integers(-(2**63), 2**63 - 1)),
    (types.FloatType(), st.floats(width=32, allow_nan=False)),
    (types.DoubleType(), st.floats(width=32, allow_nan=False)),
    (types.DateType(), st.integers(-20000, 40000)),
    (types.TimeType(), st.integers(0, _DAY - 1)),
    (types.TimestampType(), st.integers(-_DAY * 9000, _DAY * 40000)),
    (types.TimestamptzType(), st.integers(-_DAY * 9000, _DAY * 40000)),
    (types.StringType(), st.text(max_size=20)),
    (types.UUIDType(), st.uuids()),
    (types.FixedType(3), st.binary(min_size=3, max_size=3)),
    (types.FixedType(3), st.binary(min_size=3, max_size=3)),
    (types.BinaryType(), st.binary(max_size=20)),
    (types.DecimalType(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (types.DecimalType(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (types.DecimalType(30, 4), st.decimals(-(10**25), 10**25, places=4)),
]
SCHEMA = Schema(*(types.NestedField(i + 1, f"p{i}", VALUES[i][0]) for i in range(len(VALUES))), schema_id=7)
COUNTS = st.dictionaries(st.integers(1, 200), st.integers(0, 2**60), max_size=4)
BOUNDS = st.dictionaries(st.integers(1, 200), st.binary(max_size=20), max_size=4)
_METRICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
FACTS = (
    *("content", "file_path", "file_format", "record_count", "file_size_in_bytes", "lower_bounds", "upper_bounds"),
    *(*_METRICS, "key_metadata", "split_offsets", "equality_ids", "sort_order_id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Manifests to be: of our writer or of PyIceberg's, each with files."""

    layout: entry_fields.ManifestLayout
    parts: list[tuple[str, list[StagedFile]]]  # the writer, and its files


def layout_of(chosen: list[int], version: Any = 2) -> entry_fields.ManifestLayout:
    """A spec with identity fields of the chosen types; the first has a name that Avro does not allow."""
    names = [f"p-{index}" if index == chosen[0] else f"p{index}" for index in chosen]
    parts = [PartitionField(i + 1, 1000 + i, IdentityTransform(), name) for i, name in zip(chosen, names, strict=True)]
    return entry_fields.ManifestLayout(spec=PartitionSpec(*parts, spec_id=3), schema=SCHEMA, format_version=version)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """One to four manifests of one spec, of up to three fields."""
    chosen = draw(st.lists(st.integers(0, len(VALUES) - 1), max_size=3, unique=True))
    layout = layout_of(chosen)
    numbers = itertools.count()
    tuples = draw(st.lists(st.tuples(*(st.none() | VALUES[i][1] for i in chosen)), min_size=1, max_size=4))

    def file() -> StagedFile:
        record = Record(*draw(st.sampled_from(tuples)))
        return StagedFile(
            file_path=f"s3://bucket/data/{next(numbers)}-é.parquet",
            file_size_in_bytes=draw(st.integers(0, 2**50)),
            record_count=draw(st.integers(0, 2**40)),
            spec_id=3,
            partition=partition_tuples.encode_one(record, layout.spec, layout.schema),
            **{name: draw(COUNTS) for name in _METRICS},
            lower_bounds=draw(BOUNDS),
            upper_bounds=draw(BOUNDS),
            split_offsets=tuple(draw(st.lists(st.integers(4, 2**40), max_size=3))),
            sort_order_id=draw(st.none() | st.integers(0, 9)),
        )

    writers = draw(st.lists(st.sampled_from(["ours", "ours-v1", "pyiceberg"]), min_size=1, max_size=4))
    return Case(layout=layout, parts=[(writer, [file() for _ in range(draw(st.integers(1, 5)))]) for writer in writers])


def write(case: Case, directory: Path) -> list[ManifestFile]:
    """The manifests, as they stand in the manifest list of a snapshot; the third by sequence number 3, and so on."""
    found = []
    for number, (writer, files) in enumerate(case.parts, start=1):
        make = _write_pyiceberg if writer == "pyiceberg" else _write_ours
        layout = replace(case.layout, format_version=1) if writer == "ours-v1" else case.layout
        row = make(directory / f"source-{number}.avro", layout, files, number)
        row.sequence_number = 0 if writer == "ours-v1" else number
        found.append(row)
    return found


def _write_ours(path: Path, layout: entry_fields.ManifestLayout, files: list[StagedFile], number: int) -> ManifestFile:
    writing = written_manifests.Writing(
        io=PyArrowFileIO(),
        snapshot_id=100 + number,
        format_version=layout.format_version,
        codec="deflate",
        new_path=lambda: str(path),
    )
    return written_manifests.write_manifest(writing, files, layout, number).to_manifest_file()


def _write_pyiceberg(
    path: Path, layout: entry_fields.ManifestLayout, files: list[StagedFile], number: int
) -> ManifestFile:
    output = PyArrowFileIO().new_output(str(path))
    with pyiceberg_write_manifest(2, layout.spec, layout.schema, output, 100 + number, "deflate") as writer:
        for file, record in zip(files, entry_fields.tuples(files, layout), strict=True):
            names = (*_METRICS, "file_path", "record_count", "file_size_in_bytes", "lower_bounds", "upper_bounds")
            data_file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_format=FileFormat.PARQUET,
                partition=record,
                split_offsets=list(file.split_offsets) or None,
                sort_order_id=file.sort_order_id,
                **{name: getattr(file, name) for name in names},
            )
            writer.add_entry(
                ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=100 + number, data_file=data_file)
            )
    return writer.to_manifest_file()


def read(row: ManifestFile, *, live: bool = True) -> list[ManifestEntry]:
    """The entries as PyIceberg reads them, with what they inherit."""
    return row.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=live)


def facts(entry: ManifestEntry) -> dict[str, Any]:
    """All that a manifest says of a live file, but its status."""
    file = entry.data_file
    numbers = ("snapshot_id", "sequence_number", "file_sequence_number")
    return {
        "partition": list(file.partition),
        **{name: getattr(entry, name) for name in numbers},
        **{name: getattr(file, name) for name in FACTS},
    }
