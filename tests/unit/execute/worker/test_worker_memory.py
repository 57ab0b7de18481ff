"""The memory of a task stays bounded, whatever few bytes of its inputs stand for. Peaks are those of a process that
does nothing but one task; decoded at once, each of these inputs takes more than a gigabyte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, ListType, LongType, MapType, NestedField, StringType, StructType
from tests.factories import bombs, delete_files, tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.model import table_view
from iceberg_compaction.model.policies import CopyMode, ProofLevel
from iceberg_compaction.model.rewrite_task import DeleteFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = 900  # megabytes; a process that has only loaded the libraries takes 150


def _optional(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def _counted(rows: int) -> pa.Array:
    return pa.array(np.arange(rows + 1, dtype=np.int32))


def _listed(texts: pa.Array, each: int = 1) -> pa.Array:
    offsets = pa.array(np.arange(0, len(texts) + 1, each, dtype=np.int32))
    kind = pa.list_(pa.field("element", texts.type))
    return pa.Array.from_buffers(kind, len(texts) // each, [None, offsets.buffers()[1]], children=[texts])


def _mapped(texts: pa.Array) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [pa.array(["k"] * len(texts)), texts],
        fields=[pa.field("key", pa.string(), False), pa.field("value", texts.type)],
    )
    kind = pa.map_(pa.string(), pa.field("value", texts.type))
    return pa.Array.from_buffers(kind, len(texts), [None, _counted(len(texts)).buffers()[1]], children=[entries])


LISTED = ListType(11, StringType(), element_required=False)
MAPPED = MapType(12, StringType(), 13, StringType(), value_required=False)
LONG = 250_000  # characters of a text


def _texts() -> dict[str, tuple[Any, pa.Array]]:
    """The same few texts again and again, in every place where they can be."""
    few = bombs.texts(500, 4, LONG)
    return {
        "text": (StringType(), few),
        "bytes": (BinaryType(), few.cast(pa.dictionary(pa.int32(), pa.binary()))),
        "list": (LISTED, _listed(bombs.texts(5000, 4, LONG // 10), 10)),
        "map": (MAPPED, _mapped(few)),
        "struct": (StructType(_optional(14, "a", StringType())), pa.StructArray.from_arrays([few], ["a"])),
    }


def _one_text() -> dict[str, tuple[Any, pa.Array]]:
    return {"text": (StringType(), bombs.texts(100_000, 1, 20_000))}


def _constants() -> dict[str, tuple[Any, pa.Array]]:
    return {f"c{n}": (LongType(), pa.array(np.zeros(400_000, np.int64))) for n in range(120)}


def _prefixes() -> dict[str, tuple[Any, pa.Array]]:
    """Texts that are stored as what they add to the one before."""
    return {"text": (StringType(), pa.array([f"{'z' * LONG}{number}" for number in range(900)]))}


@pytest.mark.parametrize(
    ("make", "options"),
    [
        pytest.param(_texts, {}, marks=pytest.mark.lab),
        (_one_text, {}),
        pytest.param(_constants, {}, marks=pytest.mark.lab),
        pytest.param(
            _prefixes,
            {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
            marks=pytest.mark.lab,
        ),
    ],
)
def test_memory_is_bounded_whatever_few_bytes_stand_for(
    tmp_path: Path, make: Callable[[], dict[str, tuple[Any, pa.Array]]], options: dict[str, Any]
) -> None:
    made = make()
    schema = Schema(*(_optional(100 + place, name, kind) for place, (name, (kind, _)) in enumerate(made.items())))
    columns = {name: array for name, (_, array) in made.items()}
    rows = len(next(iter(columns.values())))
    paths = [
        bombs.write(tmp_path / f"{n}.parquet", columns, arrow_schemas.file_schema(schema), **options) for n in range(2)
    ]
    level = ProofLevel.COUNTS if make is _constants else ProofLevel.CHECKSUM
    found = bombs.rewrite(tasks.make_task(paths), tasks.make_context(tmp_path, schema, verify=level))
    assert found["rows"] == 2 * rows
    assert found["megabytes"] < MOST


def test_so_it_is_where_rows_are_sorted(tmp_path: Path) -> None:
    schema = Schema(_optional(1, "id", LongType()), _optional(2, "c", StringType()))
    columns = {"id": pa.array(range(100_000, 0, -1)), "c": bombs.texts(100_000, 3, 20_000)}
    paths = [bombs.write(tmp_path / f"{n}.parquet", columns, arrow_schemas.file_schema(schema)) for n in range(2)]
    order = SortOrder(SortField(source_id=2, transform=IdentityTransform()), order_id=1).model_dump_json()
    context = tasks.make_context(tmp_path, schema).model_copy(update={"sort_order": order})
    found = bombs.rewrite(tasks.make_task(paths), context)
    assert found["rows"] == 200_000
    assert found["megabytes"] < MOST


@pytest.mark.parametrize("content", ["positions", pytest.param("keys", marks=pytest.mark.lab)])
def test_so_it_is_while_deletes_are_loaded(tmp_path: Path, content: str) -> None:
    """A data file and a delete file that both are small and stand for much."""
    schema = Schema(_optional(1, "id", LongType()), _optional(2, "c", StringType()))
    columns = {"id": pa.array(range(1000)), "c": bombs.texts(1000, 4, 400_000)}
    path = bombs.write(tmp_path / "data.parquet", columns, arrow_schemas.file_schema(schema))
    deleted, at = 2000, tmp_path / "deletes.parquet"
    if content == "keys":
        keys = {"c": bombs.texts(deleted, 3, 400_000)}  # of the four texts that there are
        bombs.write(at, keys, arrow_schemas.file_schema(schema))
    else:
        names = pa.DictionaryArray.from_arrays(
            pa.array(np.arange(deleted, dtype=np.int32) % 2), pa.array(["z" * 400_000, str(path)])
        )
        places = {"file_path": names, "pos": pa.array(np.arange(deleted) * 3 // 8)}
        bombs.write(at, places, delete_files.POSITIONS)
    delete = DeleteFile(
        file_path=str(at),
        file_format="PARQUET",
        file_size_in_bytes=at.stat().st_size,
        record_count=deleted,
        content=table_view.EQUALITY_DELETES if content == "keys" else table_view.POSITION_DELETES,
        sequence_number=2,
        equality_ids=(2,) if content == "keys" else (),
    )
    task = tasks.make_task([path]).model_copy(update={"deletes": (delete,), "sequence_numbers": (1,)})
    found = bombs.rewrite(task, tasks.make_context(tmp_path, schema))
    assert (found["rows"], found["deleted"]) == (250, 750)
    assert found["megabytes"] < MOST


def test_a_row_that_does_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    schema = Schema(_optional(1, "id", LongType()), _optional(2, "c", LISTED))
    columns = {"id": pa.array([1, 2]), "c": _listed(bombs.texts(8000, 1, 400_000), 4000)}
    path = bombs.write(tmp_path / "in.parquet", columns, arrow_schemas.file_schema(schema))
    limits = budgets.Budgets(row_bytes=2**30 - 1)
    with pytest.raises(
        errors.UnsupportedError,
        match=r"in.parquet cannot be .*: it has a row of 1.5 GiB, but a row may take at most 1.0 GiB of memory",
    ):
        execute_task.rewrite(tasks.make_task([path]), tasks.make_context(tmp_path, schema), "0", limits)
    assert not tasks.files_below(tmp_path)


def test_pages_that_do_not_fit_into_memory_are_refused(tmp_path: Path) -> None:
    schema = Schema(_optional(1, "id", LongType()), _optional(2, "c", StringType()))
    columns = {"id": pa.array(range(100)), "c": pa.array(["y" * 10**6] * 100)}
    path = bombs.write(tmp_path / "in.parquet", columns, arrow_schemas.file_schema(schema), use_dictionary=False)
    limits = budgets.Budgets(page_bytes=2**25)
    context = tasks.make_context(tmp_path, schema).model_copy(update={"copy_row_groups": CopyMode.NEVER})
    with pytest.raises(errors.UnsupportedError, match=r"in.parquet cannot be .*: its pages decompress to 95.4 MiB"):
        execute_task.rewrite(tasks.make_task([path]), context, "0", limits)
    assert not tasks.files_below(tmp_path)


def test_pages_that_move_as_bytes_need_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "_TINY_CHUNK", 0)  # compressed, it is a file of a few kilobytes
    schema = Schema(_optional(1, "id", LongType()), _optional(2, "c", StringType()))
    columns = {"id": pa.array(range(100)), "c": pa.array(["y" * 10**6] * 100)}
    path = bombs.write(tmp_path / "in.parquet", columns, arrow_schemas.file_schema(schema), use_dictionary=False)
    limits = budgets.Budgets(page_bytes=2**25)
    result = execute_task.rewrite(tasks.make_task([path]), tasks.make_context(tmp_path, schema), "0", limits)
    assert (result.effort.joined_groups, result.effort.encoded_groups) == (1, 0)


def test_texts_inside_lists_are_read_where_their_dictionary_was_given_up(tmp_path: Path) -> None:
    """pyarrow cannot read such columns as dictionaries."""
    schema = Schema(_optional(1, "id", LongType()), _optional(2, "c", LISTED))
    words = pa.array([f"w{number:06}" if number % 7 == 0 else None for number in range(90_000)])
    columns = {"id": pa.array(range(30_000)), "c": _listed(words, 3)}
    path = bombs.write(
        tmp_path / "in.parquet",
        columns,
        arrow_schemas.file_schema(schema),
        dictionary_pagesize_limit=20_000,
        data_page_size=999,
    )
    result = execute_task.rewrite(tasks.make_task([path]), tasks.make_context(tmp_path, schema), "0")
    assert tasks.read_rows(result) == tasks.comparable(pq.read_table(path).to_pylist())
