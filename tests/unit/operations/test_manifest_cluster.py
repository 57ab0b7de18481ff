"""Manifests written anew list what the old ones list: any writer, any partition type, old and new format versions,
fields that nobody knows; in the order of partitions, near the target size, with bounds that fit."""

from __future__ import annotations

import itertools
import json
import tempfile
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from pyiceberg import types
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from tests.factories import random_manifests
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_encode, container
from iceberg_compaction.metadata import partition_order, partition_tuples
from iceberg_compaction.metadata.manifest import (
    entry_fields,
    entry_schema,
    rewrite_entries,
    snapshot_manifests,
    written_manifests,
)
from iceberg_compaction.model.rewrite_task import StagedFile
from iceberg_compaction.operations.rewrite_manifests import (
    cluster_entries,
    gather_entries,
    manifest_change,
    manifest_digest,
)
from iceberg_compaction.operations.rewrite_manifests.manifest_digest import Digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile

SNAPSHOT, SEQUENCE = 900, 50


def clustering(
    directory: Path, layout: entry_fields.ManifestLayout, *, target: int = 8 << 20
) -> gather_entries.ManifestClustering:
    numbers = itertools.count()
    writing = written_manifests.Writing(
        io=PyArrowFileIO(),
        snapshot_id=SNAPSHOT,
        format_version=layout.format_version,
        codec="deflate",
        new_path=lambda: str(directory / f"new-{next(numbers)}.avro"),
    )
    return gather_entries.ManifestClustering(
        writing=writing, layout=layout, content=snapshot_manifests.DATA, target=target, column=layout.schema.fields[0]
    )


def cluster(
    sources: Sequence[ManifestFile], how: gather_entries.ManifestClustering
) -> tuple[list[written_manifests.NewManifest], list[ManifestFile]]:
    """Proved, as every rewrite is; the new manifests, and their rows once they have landed."""
    found = cluster_entries.cluster(sources, how)
    back = cluster_entries.read_back(found.manifests, how)
    manifest_change.prove(found.digest, back, planned=found.digest.entries)
    rows = [made.to_manifest_file() for made in found.manifests]
    for row in rows:
        row.sequence_number = SEQUENCE
    return list(found.manifests), rows


def listed(rows: Sequence[ManifestFile]) -> list[dict[str, Any]]:
    found = [random_manifests.facts(entry) for row in rows for entry in random_manifests.read(row)]
    return sorted(found, key=lambda one: str(one["file_path"]))


@given(random_manifests.cases())
@examples(25)
def test_every_entry_is_the_same_and_explicit(case: random_manifests.Case) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sources = random_manifests.write(case, Path(directory))
        made, rows = cluster(sources, clustering(Path(directory), case.layout))
        assert listed(rows) == listed(sources)
        status = {entry.status for row in rows for entry in random_manifests.read(row, live=False)}
        assert status == {ManifestEntryStatus.EXISTING}
        total = sum((one.existing for one in made), written_manifests.NONE)
        files = [file for _, files in case.parts for file in files]
        assert total == written_manifests.Counts(
            files=len(files),
            records=sum(file.record_count for file in files),
            bytes=sum(file.file_size_in_bytes for file in files),
        )
        assert min(one.min_sequence_number or 0 for one in made) == min(
            entry.sequence_number or 0 for row in sources for entry in random_manifests.read(row)
        )


BY_NUMBER = random_manifests.layout_of([1])  # an integer


def staged(number: int, value: int, **changes: Any) -> StagedFile:
    return StagedFile(
        file_path=f"s3://bucket/{number:06d}-{uuid.uuid5(uuid.NAMESPACE_URL, str(number))}.parquet",
        file_size_in_bytes=1000 + number,
        record_count=10,
        spec_id=3,
        partition=partition_tuples.encode_one(Record(value), BY_NUMBER.spec, BY_NUMBER.schema),
        **changes,
    )


def source(
    directory: Path, files: list[StagedFile], number: int, layout: entry_fields.ManifestLayout = BY_NUMBER
) -> ManifestFile:
    case = random_manifests.Case(layout=layout, parts=[("ours", files)])
    (directory / f"{number}").mkdir()
    row = random_manifests.write(case, directory / f"{number}")[0]
    row.sequence_number = row.min_sequence_number = number
    return row


def test_partitions_lie_together_in_the_order_of_their_values(tmp_path: Path) -> None:
    sources = [source(tmp_path, [staged(n * 1000 + i, i) for i in range(300)], n) for n in range(1, 6)]
    made, rows = cluster(sources, clustering(tmp_path, BY_NUMBER, target=16_000))
    values = [entry.data_file.partition[0] for row in rows for entry in random_manifests.read(row)]
    assert values == sorted(values)  # 9 before 10, which as text it would not be
    assert len(made) > 3
    assert all(8_000 < one.length <= 16_000 for one in made[:-1])
    assert made[-1].length <= 20_000
    bounds = [[int.from_bytes(bound or b"", "little") for bound in _bounds(row)] for row in rows]
    there = [[entry.data_file.partition[0] for entry in random_manifests.read(row)] for row in rows]
    assert bounds == [[min(some), max(some)] for some in there]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(bounds))


def _bounds(row: ManifestFile) -> tuple[bytes | None, bytes | None]:
    (summary,) = row.partitions or []
    return summary.lower_bound, summary.upper_bound


def test_files_of_a_partition_are_ordered_by_the_clustering_column(tmp_path: Path) -> None:
    def at(number: int) -> StagedFile:
        return staged(number, 1, lower_bounds={1: bytes([number % 2])})  # the column is a boolean

    sources = [source(tmp_path, [at(n * 10 + i) for i in range(4)], n) for n in (1, 2)]
    _, rows = cluster(sources, clustering(tmp_path, BY_NUMBER))
    lower = [entry.data_file.lower_bounds[1] for entry in random_manifests.read(rows[0])]
    assert lower == [b"\0"] * 4 + [b"\1"] * 4


def test_entries_of_deleted_files_are_left_behind(tmp_path: Path) -> None:
    old = source(tmp_path, [staged(i, i) for i in range(10)], 1)
    gone = pa.array([staged(i, i).file_path for i in range(4)])
    how = clustering(tmp_path, BY_NUMBER)
    without = rewrite_entries.rewrite_manifest(how.writing, old, rewrite_entries.Removed(gone))
    assert without is not None
    row = without.manifest.to_manifest_file()
    row.sequence_number = 2
    _, rows = cluster([row], replace(how, writing=replace(how.writing, snapshot_id=SNAPSHOT + 1)))
    kept = listed([old])[4:]
    assert listed(rows) == kept
    assert {one["snapshot_id"] for one in kept} == {101}  # of the first writer, not of those that moved them


def test_old_types_names_and_unknown_fields_are_brought_together(tmp_path: Path) -> None:
    """The partition column was made long and was renamed; one writer has a field that we do not know."""
    now = entry_fields.ManifestLayout(
        spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "new"), spec_id=3),
        schema=Schema(types.NestedField(1, "number", types.LongType())),
        format_version=2,
    )
    old = entry_fields.ManifestLayout(
        spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "old"), spec_id=3),
        schema=Schema(types.NestedField(1, "number", types.IntegerType())),
        format_version=2,
    )

    def files(layout: entry_fields.ManifestLayout, first: int) -> list[StagedFile]:
        text = [partition_tuples.encode_one(Record(value), layout.spec, layout.schema) for value in (7, None)]
        return [replace_partition(staged(first + i, 0), text[i]) for i in range(2)]

    sources = [source(tmp_path, files(old, 10), 1, old), source(tmp_path, files(now, 20), 2, now)]
    strange = source(tmp_path, files(old, 30), 3, old)
    sources.append(_with_unknown_field(strange))
    _, rows = cluster(sources, clustering(tmp_path, now))
    assert listed(rows) == listed(sources)
    data = Path(rows[0].manifest_path).read_bytes()
    parsed = container.parse(data)
    assert parsed.metadata["writer-note"] == b"keep me"
    table = avro_decode.read(parsed)
    flag = dict(
        zip(
            table["data_file"].combine_chunks().field("file_path").to_pylist(),
            table["data_file"].combine_chunks().field("flavour").to_pylist(),
            strict=True,
        )
    )
    strange_paths = {file.file_path for file in files(old, 30)}
    assert {path for path, value in flag.items() if value == "mint"} == strange_paths
    assert {value for path, value in flag.items() if path not in strange_paths} == {None}
    (partition,) = next(
        field["type"]["fields"]
        for field in next(f for f in parsed.schema["fields"] if f["name"] == "data_file")["type"]["fields"]
        if field["name"] == "partition"
    )
    assert (partition["name"], partition["type"]) == ("new", ["null", "long"])


def replace_partition(file: StagedFile, text: str) -> StagedFile:
    return file.model_copy(update={"partition": text})


def _with_unknown_field(row: ManifestFile) -> ManifestFile:
    """The manifest as a writer of tomorrow would write it."""
    path = Path(row.manifest_path)
    parsed = container.parse(path.read_bytes())
    table, schema = avro_decode.read(parsed), parsed.schema
    data_file = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]
    data_file["fields"].append({"name": "flavour", "type": "string", "field-id": 9999})
    old = table["data_file"].combine_chunks()
    names = [field.name for field in old.type]
    made = pa.StructArray.from_arrays(
        [*(old.field(name) for name in names), pa.array(["mint"] * len(old))], [*names, "flavour"]
    )
    table = table.set_column(table.schema.get_field_index("data_file"), "data_file", made)
    header = {**parsed.metadata, container.SCHEMA: json.dumps(schema).encode(), "writer-note": b"keep me"}
    blocks = avro_encode.blocks(schema, table, parsed.codec, parsed.sync)
    path.write_bytes(b"".join([container.header(header, parsed.sync), *blocks]))
    return row


def test_fields_of_types_that_do_not_go_together_are_refused() -> None:
    schema = entry_fields.avro_schema(BY_NUMBER)
    other = json.loads(json.dumps(schema))
    data_file = next(field for field in other["fields"] if field["name"] == "data_file")["type"]
    next(field for field in data_file["fields"] if field["name"] == "file_size_in_bytes")["type"] = "string"
    with pytest.raises(errors.UnsupportedError, match="file_size_in_bytes in types that do not go together"):
        entry_schema.widened(schema, other, 2)


def test_a_manifest_that_is_not_as_listed_is_named(tmp_path: Path) -> None:
    three, four = (source(tmp_path, [staged(i, i) for i in range(count)], count) for count in (3, 4))
    Path(four.manifest_path).write_bytes(Path(three.manifest_path).read_bytes())
    with pytest.raises(errors.MetadataError, match=r"source-1.avro holds 3 entries, but the manifest list promises 4"):
        cluster_entries.cluster([four], clustering(tmp_path, BY_NUMBER))


@pytest.mark.parametrize("field", ["entries", "records", "bytes", "checksum"])
def test_any_difference_fails_the_proof(field: str) -> None:
    old = Digest(entries=3, records=30, bytes=300, checksum=5)
    new = replace(old, **{field: getattr(old, field) + 1})
    with pytest.raises(errors.ProofError, match="nothing was committed"):
        manifest_change.prove(old, new, planned=3)
    with pytest.raises(errors.MetadataError, match="but the plan counted 4"):
        manifest_change.prove(old, old, planned=4)


def test_the_checksum_sees_every_change_but_that_of_the_order() -> None:
    numbers = [name for name in manifest_digest.SELECT if name not in ("status", "file_path", "partition")]
    columns = {name: pa.array([1, 2, 1]) for name in numbers} | {"file_path": pa.array(["a", "b", "c"])}
    partition = pa.array(["{}", '{"p":1}', "{}"]).dictionary_encode()

    def checksum(changes: dict[str, pa.Array], texts: pa.DictionaryArray = partition) -> int:
        return manifest_digest.digest(pa.table(columns | changes), texts).checksum

    order = pa.array([2, 0, 1])
    assert checksum({name: column.take(order) for name, column in columns.items()}, partition.take(order)) == checksum(
        {}
    )
    seen = {checksum({}), checksum({"file_path": pa.array(["a", "b", "d"])})}
    seen |= {checksum({name: pa.array([1, 1, 2])}) for name in numbers}
    seen.add(checksum({}, pa.array(['{"p":1}', "{}", "{}"]).dictionary_encode()))
    assert len(seen) == 3 + len(numbers)


VALUES = [None, float("-inf"), -1.5, -0.0, 0.0, 2.0, float("inf"), float("nan")]


def test_floats_are_ordered_as_readers_compare_them() -> None:
    layout = random_manifests.layout_of([4])
    texts = [partition_tuples.encode_one(Record(value), layout.spec, layout.schema) for value in VALUES]
    shuffled = [texts[i] for i in (3, 7, 0, 5, 4, 1, 6, 2)]
    ranks = partition_order.ranks(shuffled, layout)
    assert [text for _, text in sorted(zip(ranks.tolist(), shuffled, strict=True))] == texts
    (summary,) = partition_order.summaries([texts[i] for i in (4, 3, 0, 7)], layout)
    assert (summary.contains_null, summary.contains_nan) == (True, True)
    assert np.signbit(np.frombuffer(summary.lower_bound or b"", "<f8"))[0]
    assert not np.signbit(np.frombuffer(summary.upper_bound or b"", "<f8"))[0]
    (nothing,) = partition_order.summaries([texts[0]], layout)
    assert (nothing.contains_null, nothing.lower_bound, nothing.upper_bound) == (True, None, None)


@pytest.mark.parametrize(
    ("index", "values"),
    [
        (1, [-5, 9, 10]),
        (9, ["", "Z", "a", "é", "\uffee", "\U0001f600"]),
        (10, [uuid.UUID(int=1), uuid.UUID(int=2**127)]),
        (13, [b"", b"\x7f", b"\xff"]),
        (14, [Decimal("-1.50"), Decimal("9.00"), Decimal("10.00")]),
        (0, [False, True]),
    ],
)
def test_bounds_are_the_first_and_the_last(index: int, values: list[Any]) -> None:
    layout = random_manifests.layout_of([index])
    texts = [partition_tuples.encode_one(Record(value), layout.spec, layout.schema) for value in values]
    assert partition_order.ranks(texts[::-1], layout).tolist() == list(range(len(texts)))[::-1]
    both = partition_order.summaries(texts[::-1], layout)[0]
    ends = [partition_order.summaries([text], layout)[0].lower_bound for text in (texts[0], texts[-1])]
    assert [both.lower_bound, both.upper_bound] == ends
