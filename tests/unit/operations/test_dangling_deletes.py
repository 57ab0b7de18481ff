"""Which delete files leave with a rewrite: equal to the rules taken pair by pair on any small table. And what a
position delete file names, in each format."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import delete_files
from tests.factories import delete_rules as rules
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.metadata.deletes import delete_index, delete_paths, useless_deletes
from iceberg_compaction.model.rewrite_plan import PLAN_FILES
from iceberg_compaction.model.rewrite_task import StagedFile
from iceberg_compaction.model.table_view import FILES, Pin
from iceberg_compaction.operations.rewrite_files.change import dangling_deletes
from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceGroup, ReplaceRequest

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

UNPARTITIONED = frozenset({0, 3})
A, B, NULL = '{"p": "a"}', '{"p": "b"}', '{"p": null}'
PLACES = st.sampled_from([(0, "{}"), (1, A), (1, B), (1, NULL), (2, A), (3, NULL)])
PATHS = st.sampled_from([f"f{number}" for number in range(14)] + ["gone", "new0", "new1"])
UNREAD = [None, errors.MetadataError("damaged")]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], ReplaceRequest, dict[str, Any]]:
    """A table's files, a rewrite of some of its data files, and what its position delete files name."""
    kinds = st.sampled_from(["data", "data", "equality", "equality", "shared", "named", "vector"])
    rows = [draw(files(number, draw(kinds))) for number in range(draw(st.integers(1, 14)))]
    named = {row["file_path"]: draw(st.frozensets(PATHS, max_size=3)) for row in rows if row["content"] == 1}
    unread = {path: draw(st.sampled_from(UNREAD)) for path in named if draw(st.integers(0, 9)) == 0}
    data = [row for row in rows if not row["content"]]
    removed = [row for row in data if draw(st.booleans())]
    outputs = draw(st.lists(PLACES, max_size=2))
    request = ReplaceRequest(
        tidies=draw(st.booleans()),
        pin=Pin(
            table_uuid="u",
            snapshot_id=1,
            sequence_number=draw(st.integers(2, 4)),
            schema_id=0,
            spec_id=0,
            format_version=2,
        ),
        groups=(
            ReplaceGroup(
                id=0,
                removed=pa.Table.from_pylist(
                    [{name: row[name] for name in PLAN_FILES.names} for row in removed], PLAN_FILES
                ),
                partitions=tuple({(row["spec_id"], row["partition"]) for row in removed}),
                added=tuple(
                    StagedFile(
                        file_path=f"new{n}", file_size_in_bytes=1, record_count=1, spec_id=place[0], partition=place[1]
                    )
                    for n, place in enumerate(outputs)
                ),
            ),
        ),
    )
    return rows, request, {path: unread.get(path, paths) for path, paths in named.items()}


@st.composite
def files(draw: st.DrawFn, number: int, kind: str) -> dict[str, Any]:
    spec_id, partition = draw(PLACES)
    return {
        "file_path": f"f{number}",
        "content": {"data": 0, "equality": 2}.get(kind, 1),
        "file_format": "PUFFIN" if kind == "vector" else "PARQUET",
        "spec_id": spec_id,
        "partition": partition,
        "record_count": 1,
        "file_size_in_bytes": 1,
        "sequence_number": draw(st.integers(0, 5)),
        "file_sequence_number": 5,
        "encrypted": False,
        "referenced_data_file": draw(PATHS) if kind in ("named", "vector") else None,
    }


class Told(delete_paths.NamedPaths):
    """Knows without reading."""

    def __init__(self, named: dict[str, Any]) -> None:
        super().__init__()
        self._named = named

    def read(self, io: FileIO, files: pa.Table) -> dict[str, Any]:
        found = {path: self._named[path] for path in files["file_path"].to_pylist()}
        return {path: pa.array(sorted(p), pa.string()) if isinstance(p, frozenset) else p for path, p in found.items()}


def leaves(
    delete: dict[str, Any], after: list[dict[str, Any]], request: ReplaceRequest, named: frozenset[str] | None
) -> bool:
    """R17, R18 in plain words; `after` are the data files once the rewrite has landed."""
    everywhere = delete["spec_id"] in UNPARTITIONED
    equality = delete["content"] == rules.EQUALITY
    rewritten = (delete["spec_id"], delete["partition"]) in request.partitions
    if not rewritten and not request.tidies and not (equality and everywhere):
        return False  # the rewrite has nothing to do with it
    met = [data for data in after if rules.in_scope(data, delete, UNPARTITIONED)]
    paths = {data["file_path"] for data in after}
    if rules.is_vector(delete):
        return False
    if equality:
        doubtful = not everywhere and set(json.loads(delete["partition"]).values()) == {None}
        return not met and not (doubtful and any(d["sequence_number"] < delete["sequence_number"] for d in after))
    if delete["referenced_data_file"] is not None:
        return delete["referenced_data_file"] not in paths
    return not met or (rewritten and named is not None and not named & paths)


@examples(150)
@hypothesis.given(cases())
def test_r17_r18_delete_files_that_leave_are_those_of_the_rules(
    case: tuple[list[dict[str, Any]], ReplaceRequest, dict[str, Any]],
) -> None:
    rows, request, named = case
    found = dangling_deletes.find(PyArrowFileIO(), table(rows), request, UNPARTITIONED, Told(named))
    removed = set(request.removed["file_path"].to_pylist())
    added = [
        {"file_path": f.file_path, "content": 0, "spec_id": f.spec_id, "partition": f.partition}
        | {"sequence_number": request.pin.sequence_number}
        for f in request.added
    ]
    after = [row for row in rows if not row["content"] and row["file_path"] not in removed] + added
    readable = {path: paths for path, paths in named.items() if isinstance(paths, frozenset)}
    deletes = [row for row in rows if row["content"]]
    expected = {d["file_path"] for d in deletes if leaves(d, after, request, readable.get(d["file_path"]))}
    assert set(found["file_path"].to_pylist()) == expected
    hypothesis.event(f"{len(expected)} leave")


@examples(100)
@hypothesis.given(cases())
def test_what_a_plan_counts_is_what_a_commit_without_files_drops(
    case: tuple[list[dict[str, Any]], ReplaceRequest, dict[str, Any]],
) -> None:
    """Otherwise a table would be planned for again and again."""
    rows, request, named = case
    live = table([row for row in rows if not rules.is_vector(row)])
    try:
        index = delete_index.build(live, unpartitioned_specs=UNPARTITIONED)
    except errors.MetadataError:
        hypothesis.reject()
    request = dataclasses.replace(request, groups=(), tidies=True)
    found = dangling_deletes.find(PyArrowFileIO(), live, request, UNPARTITIONED, Told(named))
    assert useless_deletes.of_snapshot(live, index, UNPARTITIONED) == found.num_rows
    hypothesis.event(f"{found.num_rows} leave")


def table(rows: list[dict[str, Any]]) -> pa.Table:
    half = len(rows) // 2  # in two pieces, as from two manifests
    pieces = [
        pa.Table.from_pylist(part, pa.schema([_plain(field) for field in FILES])) for part in (rows[:half], rows[half:])
    ]
    return pa.concat_tables([piece.cast(FILES) for piece in pieces])


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field


# ---- what position delete files name


def listed(path: str, file_format: str = "PARQUET", size: int = 100, encrypted: bool = False) -> dict[str, Any]:
    return {"file_path": path, "file_format": file_format, "file_size_in_bytes": size, "encrypted": encrypted}


def read(rows: list[dict[str, Any]], paths: delete_paths.NamedPaths | None = None) -> dict[str, Any]:
    schema = pa.schema([("file_path", pa.string()), ("file_format", pa.string())])
    schema = schema.append(pa.field("file_size_in_bytes", pa.int64())).append(pa.field("encrypted", pa.bool_()))
    return (paths or delete_paths.NamedPaths()).read(PyArrowFileIO(), pa.Table.from_pylist(rows, schema))


@pytest.mark.parametrize("file_format", ["PARQUET", "AVRO", "ORC"])
def test_distinct_paths_in_every_format(tmp_path: Path, file_format: delete_files.Format) -> None:
    rows = [(f"s3://lake/{n // 500}.parquet", n) for n in range(1500)]
    file = delete_files.position_delete(tmp_path / "d", rows, sequence_number=1, file_format=file_format)
    (found,) = read([listed(file.file_path, file_format)]).values()
    assert found.to_pylist() == [f"s3://lake/{n}.parquet" for n in range(3)]


def test_the_column_is_found_by_its_id_whatever_its_name(tmp_path: Path) -> None:
    field = pa.field("target", pa.string(), metadata={"PARQUET:field_id": "2147483546"})
    pq.write_table(pa.table([["a", "b", "a"]], schema=pa.schema([field])), tmp_path / "d")
    (found,) = read([listed(str(tmp_path / "d"))]).values()
    assert found.to_pylist() == ["a", "b"]


def test_what_cannot_be_read_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"nothing of the kind")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "strange")
    rows = [listed(str(tmp_path / name)) for name in ("missing", "damaged", "strange")]
    found = read([*rows, listed("secret", encrypted=True)])
    assert [type(named) for named in found.values()] == [errors.MetadataError] * 3 + [type(None)]
    assert "missing is missing" in str(found[str(tmp_path / "missing")])


def test_small_files_come_first_and_a_file_is_read_once(tmp_path: Path) -> None:
    for name in ("small", "large"):
        delete_files.position_delete(tmp_path / name, [(name, 1)], sequence_number=1)
    rows = [listed(str(tmp_path / "large"), size=70), listed(str(tmp_path / "small"), size=40)]
    paths = delete_paths.NamedPaths(budget=100)
    found = read(rows, paths)
    assert found[str(tmp_path / "large")] is None
    assert found[str(tmp_path / "small")].to_pylist() == ["small"]
    (tmp_path / "small").unlink()
    assert read(rows, paths)[str(tmp_path / "small")].to_pylist() == ["small"]
