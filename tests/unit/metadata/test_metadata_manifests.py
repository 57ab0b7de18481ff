"""Manifests that we write are the manifests that PyIceberg reads: new ones of any partition type, and rewritten ones,
in which only what must change has changed."""

from __future__ import annotations

import itertools
import json
import uuid
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.manifest import entry_fields, rewrite_entries, snapshot_manifests, written_manifests
from iceberg_compaction.model.rewrite_task import StagedFile

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry, ManifestFile

FACTS = [
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "key_metadata",
    "split_offsets",
    "equality_ids",
    "sort_order_id",
]


@st.composite
def cases(draw: st.DrawFn) -> tuple[entry_fields.ManifestLayout, list[StagedFile], list[Record]]:
    chosen = draw(st.lists(st.integers(0, len(random_manifests.VALUES) - 1), max_size=4, unique=True))
    layout = (
        random_manifests.layout_of(chosen, draw(st.sampled_from([1, 2])))
        if chosen
        else flat(draw(st.sampled_from([1, 2])))
    )
    tuples = draw(
        st.lists(st.tuples(*(st.none() | random_manifests.VALUES[i][1] for i in chosen)), min_size=1, max_size=8)
    )
    records = [Record(*values) for values in tuples]
    files = [
        StagedFile(
            file_path=f"s3://bucket/data/{number}-é.parquet",
            file_size_in_bytes=draw(st.integers(0, 2**50)),
            record_count=draw(st.integers(0, 2**50)),
            spec_id=3,
            partition=partition_tuples.encode_one(record, layout.spec, layout.schema),
            column_sizes=draw(random_manifests.COUNTS),
            value_counts=draw(random_manifests.COUNTS),
            null_value_counts=draw(random_manifests.COUNTS),
            nan_value_counts=draw(random_manifests.COUNTS),
            lower_bounds=draw(random_manifests.BOUNDS),
            upper_bounds=draw(random_manifests.BOUNDS),
            split_offsets=tuple(draw(st.lists(st.integers(4, 2**40), max_size=3))),
            sort_order_id=draw(st.none() | st.integers(0, 9)),
        )
        for number, record in enumerate(records)
    ]
    return layout, files, records


def flat(version: int = 2) -> entry_fields.ManifestLayout:
    return entry_fields.ManifestLayout(
        spec=PartitionSpec(spec_id=3),
        schema=Schema(types.NestedField(1, "id", types.LongType())),
        format_version=version,
    )


def writing(
    directory: Path, snapshot_id: int = 77, version: int = 2, codec: Any = "deflate"
) -> written_manifests.Writing:
    return written_manifests.Writing(
        io=PyArrowFileIO(),
        snapshot_id=snapshot_id,
        format_version=version,
        codec=codec,
        new_path=lambda: str(directory / f"{uuid.uuid4()}.avro"),
    )


def landed(made: written_manifests.NewManifest, sequence_number: int) -> ManifestFile:
    """The row as it stands in the manifest list of a snapshot with that sequence number."""
    row = made.to_manifest_file()
    row.sequence_number = sequence_number
    return row


def read(row: ManifestFile) -> list[ManifestEntry]:
    return row.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)


def facts(entry: ManifestEntry) -> dict[str, Any]:
    """All that a manifest says of a file."""
    file = entry.data_file
    return {
        "partition": list(file.partition),
        **{name: getattr(file, name) for name in FACTS},
    }


@examples(40)
@given(case=cases())
def test_a_new_manifest_says_what_was_staged(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[entry_fields.ManifestLayout, list[StagedFile], list[Record]]
) -> None:
    layout, files, records = case
    made = written_manifests.write_manifest(
        writing(tmp_path_factory.mktemp("m"), version=layout.format_version), files, layout, sequence=5
    )
    row = landed(made, 9)
    numbers = (5, 9) if layout.format_version == 2 else (9, 9)  # version 1 states none
    assert row.manifest_length == Path(row.manifest_path).stat().st_size
    assert (row.added_files_count, row.added_rows_count) == (len(files), sum(f.record_count for f in files))
    assert row.min_sequence_number == 5
    for entry, file, record in zip(read(row), files, records, strict=True):
        assert entry.status == ManifestEntryStatus.ADDED
        assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (77, *numbers)
        expected = file.model_dump() | {"partition": list(record), "file_format": "PARQUET", "key_metadata": None}
        expected |= {"split_offsets": list(file.split_offsets) or None, "equality_ids": None}
        assert facts(entry) == {key: expected[key] for key in facts(entry)}


@examples(40)
@given(case=cases(), removed=st.sets(st.integers(0, 7), min_size=1), again=st.sets(st.integers(0, 7), min_size=1))
def test_rewriting_changes_status_and_numbers_only(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[entry_fields.ManifestLayout, list[StagedFile], list[Record]],
    removed: set[int],
    again: set[int],
) -> None:
    layout, files, _ = case
    directory = tmp_path_factory.mktemp("m")
    version = layout.format_version
    row = landed(written_manifests.write_manifest(writing(directory, 77, version), files, layout, sequence=5), 9)
    before = {entry.data_file.file_path: facts(entry) for entry in read(row)}
    live = dict.fromkeys(before, (77, 5, 9) if version == 2 else (77, 0, 0))
    if version == 1:
        row.sequence_number = 0
    for snapshot_id, chosen in ((78, removed), (79, again)):
        gone = {file.file_path for index, file in enumerate(files) if index in chosen} & live.keys()
        paths = rewrite_entries.Removed(pa.array([*sorted(gone), "elsewhere"]))
        rewritten = rewrite_entries.rewrite_manifest(writing(directory, snapshot_id, version), row, paths)
        if rewritten is None:
            assert not gone
            continue
        assert sorted(rewritten.removed) == sorted(gone)
        row = landed(rewritten.manifest, snapshot_id if version == 2 else 0)
        found = {
            entry.data_file.file_path: (
                entry.status,
                (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number),
                facts(entry),
            )
            for entry in read(row)
        }
        expected = {
            path: (ManifestEntryStatus.DELETED, (snapshot_id, *numbers[1:]), before[path])
            if path in gone
            else (ManifestEntryStatus.EXISTING, numbers, before[path])
            for path, numbers in live.items()
        }
        assert found == expected
        live = {path: numbers for path, numbers in live.items() if path not in gone}
        assert row.manifest_length == Path(row.manifest_path).stat().st_size
        assert row.existing_files_count == len(live)
        assert row.deleted_files_count == len(gone)
        assert row.existing_rows_count == sum(before[path]["record_count"] for path in live)
        if live and version == 2:
            assert row.min_sequence_number == 5


@examples(30)
@given(case=cases(), removed=st.sets(st.integers(0, 7)), cuts=st.sets(st.integers(1, 7), min_size=1))
def test_merging_changes_status_and_numbers_only(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[entry_fields.ManifestLayout, list[StagedFile], list[Record]],
    removed: set[int],
    cuts: set[int],
) -> None:
    """Manifests of several snapshots, of which one has entries that were DELETED before, beside one of this commit."""
    layout, files, _ = case
    directory, version = tmp_path_factory.mktemp("m"), layout.format_version
    rows, live = [], {}
    for number, (start, stop) in enumerate(itertools.pairwise([0, *sorted(cuts), len(files)])):
        if start >= len(files[:stop]):
            continue
        snapshot_id = 70 + number
        made = written_manifests.write_manifest(
            writing(directory, snapshot_id, version), files[start:stop], layout, sequence=5
        )
        rows.append(landed(made, 9 + number if version == 2 else 0))
        numbers = (snapshot_id, 5, 9 + number) if version == 2 else (snapshot_id, 0, 0)
        live |= {file.file_path: (numbers, ManifestEntryStatus.EXISTING) for file in files[start:stop]}
    first = rewrite_entries.Removed(pa.array([files[0].file_path]))
    before = rewrite_entries.rewrite_manifest(writing(directory, 90, version), rows[0], first)
    assert before is not None
    rows[0] = landed(before.manifest, 20 if version == 2 else 0)
    del live[files[0].file_path]
    new = [file.model_copy(update={"file_path": f"{file.file_path}-new"}) for file in files]
    rows.insert(
        0, written_manifests.write_manifest(writing(directory, 91, version), new, layout, sequence=6).to_manifest_file()
    )
    gone = {file.file_path for index, file in enumerate(files) if index in removed} & live.keys()
    made_one = rewrite_entries.merge_manifests(
        writing(directory, 91, version), rows, rewrite_entries.Removed(pa.array(sorted(gone), pa.string())), layout
    )
    live |= {path: ((91, *live[path][0][1:]), ManifestEntryStatus.DELETED) for path in gone}
    added = (91, 6, 21) if version == 2 else (91, 0, 0)
    live |= {file.file_path: (added, ManifestEntryStatus.ADDED) for file in new}
    assert made_one.sources == tuple(row.manifest_path for row in rows)
    assert sorted(made_one.removed) == sorted(gone)
    row = landed(made_one.manifest, 21 if version == 2 else 0)
    found = {
        entry.data_file.file_path: (
            (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number),
            entry.status,
        )
        for entry in read(row)
    }
    assert found == live
    known = {file.file_path: file for file in (*files, *new)}
    assert all(entry.data_file.record_count == known[entry.data_file.file_path].record_count for entry in read(row))
    told = {entry.data_file.file_path: facts(entry) for entry in read(row)}
    said = {e.data_file.file_path: facts(e) for source in rows for e in read(source)}
    assert told == {path: said[path] for path in told}
    counts = (row.added_files_count, row.existing_files_count, row.deleted_files_count)
    assert counts == (len(new), len(live) - len(new) - len(gone), len(gone))
    assert row.manifest_length == Path(row.manifest_path).stat().st_size


def many(count: int, layout: entry_fields.ManifestLayout) -> list[StagedFile]:
    return [
        StagedFile(
            file_path=f"s3://bucket/{number:08}-{uuid.uuid5(uuid.NAMESPACE_URL, str(number))}.parquet",
            file_size_in_bytes=1000 + number,
            record_count=number,
            spec_id=layout.spec.spec_id,
            partition="{}",
            lower_bounds={1: number.to_bytes(8, "little")},
        )
        for number in range(count)
    ]


def test_unchanged_blocks_are_copied_as_they_are(tmp_path: Path) -> None:
    layout = flat()
    files = many(5000, layout)
    row = landed(written_manifests.write_manifest(writing(tmp_path), files, layout, sequence=5), 9)
    for snapshot_id, gone in ((78, 3), (79, 4)):
        removed = rewrite_entries.Removed(pa.array([files[gone].file_path]))
        rewritten = rewrite_entries.rewrite_manifest(writing(tmp_path, snapshot_id), row, removed)
        assert rewritten is not None
        last, row = row, landed(rewritten.manifest, snapshot_id)
    old, new = (container.parse(Path(r.manifest_path).read_bytes()) for r in (last, row))
    blocks = [{p.data[s:e] for s, e in zip(p.starts, p.ends, strict=True)} for p in (old, new)]
    assert len(old.counts) == 10
    assert len(blocks[0] - blocks[1]) == 2  # that of the removed file, and that of the entry deleted before
    assert len(read(row)) == 4999
    assert row.existing_files_count == 4998


def test_small_manifests_are_rewritten_together_as_each_for_itself(tmp_path: Path) -> None:
    """Of several Avro schemas, some with nothing to remove."""
    layouts, rows, gone = [flat(), flat(1)], [], []
    for number in range(12):
        layout = layouts[number % 3 == 2]
        (tmp_path / str(number)).mkdir()
        files = many(number + 1, layout)
        files = [file.model_copy(update={"file_path": f"{file.file_path}-{number}"}) for file in files]
        made = written_manifests.write_manifest(
            writing(tmp_path / str(number), 77, layout.format_version), files, layout, sequence=5
        )
        rows.append(landed(made, 9))
        gone += [file.file_path for file in files[:: number % 4 + 1] if number % 4]
    removed = rewrite_entries.Removed(pa.array(gone))
    together = rewrite_entries.rewrite_small_manifests(writing(tmp_path, 78), rows, removed)
    for number, (row, found) in enumerate(zip(rows, together, strict=True)):
        alone = rewrite_entries.rewrite_manifest(writing(tmp_path, 78), row, removed)
        assert (found is None) == (alone is None) == (number % 4 == 0)
        if found is None or alone is None:
            continue
        paths = found.manifest.path, alone.manifest.path
        parsed = [container.parse(Path(path).read_bytes()) for path in paths]
        assert avro_decode.read(parsed[0]).equals(avro_decode.read(parsed[1]))
        assert parsed[0].metadata == parsed[1].metadata
        assert (found.removed, found.removed_counts, found.sources) == (
            alone.removed,
            alone.removed_counts,
            alone.sources,
        )


def test_fields_that_we_do_not_know_are_kept(tmp_path: Path) -> None:
    layout = flat()
    row = landed(written_manifests.write_manifest(writing(tmp_path), many(10, layout), layout, sequence=5), 9)
    parsed = container.parse(Path(row.manifest_path).read_bytes())
    schema = parsed.schema
    schema["fields"].append({"name": "future", "type": ["null", "string"], "default": None, "field-id": 999})
    table = avro_decode.read(parsed).append_column("future", pa.array([f"f{n}" if n % 2 else None for n in range(10)]))
    metadata = {**parsed.metadata, container.SCHEMA: json.dumps(schema).encode(), "unheard-of": b"x"}
    data = container.header(metadata, parsed.sync) + b"".join(avro_encode.blocks(schema, table, "deflate", parsed.sync))
    Path(row.manifest_path).write_bytes(data)
    removed = rewrite_entries.Removed(pa.array([many(10, layout)[1].file_path]))
    rewritten = rewrite_entries.rewrite_manifest(writing(tmp_path, 78), row, removed)
    assert rewritten is not None
    after = container.parse(Path(rewritten.manifest.path).read_bytes())
    assert after.metadata["unheard-of"] == b"x"
    assert sorted(avro_decode.read(after)["future"].to_pylist(), key=str) == sorted(
        table["future"].to_pylist(), key=str
    )


def test_a_snappy_manifest_is_read_and_written_in_a_codec_of_ours(tmp_path: Path) -> None:
    layout = flat()
    files = many(10, layout)
    row = landed(written_manifests.write_manifest(writing(tmp_path, codec="null"), files, layout, sequence=5), 9)
    parsed = container.parse(Path(row.manifest_path).read_bytes())
    count, at = container.get_long(parsed.data, int(parsed.starts[0]))
    size, at = container.get_long(parsed.data, at)
    body = parsed.data[at : at + size]
    packed = pa.Codec("snappy").compress(body, asbytes=True) + zlib.crc32(body).to_bytes(4, "big")
    header = container.header({**parsed.metadata, container.CODEC: b"snappy"}, parsed.sync)
    Path(row.manifest_path).write_bytes(header + container.block(count, packed, parsed.sync))
    removed = rewrite_entries.Removed(pa.array([files[0].file_path]))
    rewritten = rewrite_entries.rewrite_manifest(writing(tmp_path, 78), row, removed)
    assert rewritten is not None
    assert container.parse(Path(rewritten.manifest.path).read_bytes()).codec == "deflate"
    assert [entry.status for entry in read(landed(rewritten.manifest, 10))] == [ManifestEntryStatus.EXISTING] * 9 + [
        ManifestEntryStatus.DELETED
    ]


def test_a_manifest_without_removed_files_is_not_written(tmp_path: Path) -> None:
    layout = flat()
    row = landed(written_manifests.write_manifest(writing(tmp_path), many(3, layout), layout, sequence=5), 9)
    before = list(tmp_path.iterdir())
    assert rewrite_entries.rewrite_manifest(writing(tmp_path), row, rewrite_entries.Removed(pa.array(["x"]))) is None
    assert list(tmp_path.iterdir()) == before


def test_removed_paths_are_found_in_small_and_large_manifests() -> None:
    removed = rewrite_entries.Removed(pa.array([f"f{n}" for n in range(100)]))
    for count in (1, 5, 200):
        paths = pa.chunked_array([[f"f{n * 3}" for n in range(count)]])
        assert removed.among(paths).tolist() == [n * 3 < 100 for n in range(count)]


def test_a_shorter_manifest_than_the_list_says_is_refused(tmp_path: Path) -> None:
    layout = flat()
    files = many(5000, layout)
    row = landed(written_manifests.write_manifest(writing(tmp_path), files, layout, sequence=5), 9)
    path = Path(row.manifest_path)
    path.write_bytes(path.read_bytes()[: int(container.parse(path.read_bytes()).ends[0])])
    with pytest.raises(errors.MetadataError, match="but the manifest list promises 5000"):
        rewrite_entries.rewrite_manifest(writing(tmp_path), row, rewrite_entries.Removed(pa.array(["x"])))


def test_a_live_entry_that_states_no_number_and_inherits_none_is_refused(tmp_path: Path) -> None:
    layout = flat()
    files = many(2, layout)
    row = landed(written_manifests.write_manifest(writing(tmp_path), files, layout, sequence=5), 9)
    parsed = container.parse(Path(row.manifest_path).read_bytes())
    table = avro_decode.read(parsed).set_column(
        0, "status", pa.array([0, 0], pa.int32())
    )  # EXISTING, no file sequence number
    blocks = avro_encode.blocks(parsed.schema, table, "deflate", parsed.sync)
    Path(row.manifest_path).write_bytes(container.header(parsed.metadata, parsed.sync) + b"".join(blocks))
    with pytest.raises(errors.MetadataError, match="file_sequence_number"):
        rewrite_entries.rewrite_manifest(
            writing(tmp_path), row, rewrite_entries.Removed(pa.array([files[0].file_path]))
        )


def test_counts_that_old_lists_leave_out_are_read_from_the_manifest(tmp_path: Path) -> None:
    layout = flat()
    files = many(10, layout)
    row = landed(written_manifests.write_manifest(writing(tmp_path), files, layout, sequence=5), 9)
    removed = rewrite_entries.Removed(pa.array([file.file_path for file in files[:3]]))
    rewritten = rewrite_entries.rewrite_manifest(writing(tmp_path, 78), row, removed)
    assert rewritten is not None
    full = landed(rewritten.manifest, 10)
    bare = landed(rewritten.manifest, 10)
    for index in range(7, 13):
        bare[index] = None
    assert snapshot_manifests.has_live_files(bare)
    completed = written_manifests.with_counts(PyArrowFileIO(), bare)
    assert [completed[index] for index in range(15)] == [full[index] for index in range(15)]
    assert (full.existing_files_count, full.deleted_files_count) == (7, 3)


def test_the_header_is_what_the_spec_demands(tmp_path: Path) -> None:
    layout = random_manifests.layout_of([9, 11, 12, 14, 15])
    record = Record("a", b"abc", b"xyz", None, None)
    text = partition_tuples.encode_one(record, layout.spec, layout.schema)
    file = StagedFile(file_path="f", file_size_in_bytes=1, record_count=1, spec_id=3, partition=text)
    for version in (1, 2):
        made = written_manifests.write_manifest(
            writing(tmp_path, version=version), [file], replace(layout, format_version=version), sequence=5
        )
        parsed = container.parse(Path(made.path).read_bytes())
        told = {key: parsed.metadata[key].decode() for key in parsed.metadata if not key.startswith("avro")}
        assert Schema.model_validate_json(told.pop("schema")) == layout.schema
        assert [PartitionField.model_validate(f) for f in json.loads(told.pop("partition-spec"))] == list(
            layout.spec.fields
        )
        content = {"content": "data"} if version == 2 else {}
        assert told == {"schema-id": "7", "partition-spec-id": "3", "format-version": str(version), **content}
        names = [name for name in _names(parsed.schema) if name]
        assert len(names) == len(set(names))  # Avro forbids to define a name twice
        assert all("field-id" in field for field in _fields(parsed.schema))


def _fields(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return list(itertools.chain.from_iterable(_fields(kind) for kind in schema))
    if not isinstance(schema, dict):
        return []
    own = schema.get("fields", [])
    return [*own, *(f for field in own for f in _fields(field["type"])), *_fields(schema.get("items"))]


def _names(schema: Any) -> list[str | None]:
    kinds = [field["type"] for field in _fields(schema)]
    flat_kinds = [kind for entry in kinds for kind in (entry if isinstance(entry, list) else [entry])]
    return [kind.get("name") for kind in flat_kinds if isinstance(kind, dict)]


def test_partition_types_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(9, 1000, IdentityTransform(), "dropped"), spec_id=3)
    layout = entry_fields.ManifestLayout(spec=spec, schema=flat().schema, format_version=2)
    file = StagedFile(file_path="f", file_size_in_bytes=1, record_count=1, spec_id=3, partition='{"dropped":1}')
    with pytest.raises(errors.UnsupportedError, match="spec 3"):
        written_manifests.write_manifest(writing(tmp_path), [file], layout, sequence=5)
    assert list(tmp_path.iterdir()) == []
