"""Reads the paths of data files out of position delete files, where metadata does not name them. Delete files come in,
the distinct paths that they name go out. Of each file one column is read, once for a whole commit, and within a budget
of bytes."""

from __future__ import annotations

import logging
from concurrent import futures
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import fetch
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO

    Result: TypeAlias = pa.Array | errors.CompactionError | None  # the paths; None: the file was not read

_log = logging.getLogger(__name__)

MOST_BYTES = 1 << 30  # of delete files that one commit opens; a busy table has thousands of a few kilobytes
COLUMNS = ["file_path", "file_format", "file_size_in_bytes", "encrypted"]
_THREADS = 8
_COLUMN, _COLUMN_ID = "file_path", b"2147483546"


class NamedPaths:
    """The paths that delete files name, remembered from attempt to attempt: a file's content never changes."""

    def __init__(self, budget: int = MOST_BYTES) -> None:
        self._budget = budget
        self._paths: dict[str, pa.Array] = {}

    def read(self, io: FileIO, files: pa.Table) -> dict[str, Result]:
        """For each of these files (COLUMNS), the paths that it names; the error, if it cannot be read; None, if it is
        encrypted or the budget is used up. Small files come first."""
        smallest_first = files.sort_by("file_size_in_bytes").to_pylist()
        unread = []
        for file in smallest_first:
            size = file["file_size_in_bytes"]
            if file["file_path"] not in self._paths and not file["encrypted"] and size <= self._budget:
                self._budget -= size
                unread.append(file)
        with futures.ThreadPoolExecutor(_THREADS) as pool:
            results = pool.map(lambda file: _read(io, file), unread)
            new = dict(zip((file["file_path"] for file in unread), results, strict=True))
        self._paths |= {path: paths for path, paths in new.items() if isinstance(paths, pa.Array)}
        every = {path: self._paths.get(path, new.get(path)) for path in (file["file_path"] for file in smallest_first)}
        if left := sum(result is None for result in every.values()):
            _log.warning("%d position delete files were not read, because they are encrypted or too large.", left)
        return every


def _read(io: FileIO, file: dict[str, Any]) -> Result:
    where = f"Delete file {file['file_path']}"
    try:
        return _distinct(_columns(io, file, where))
    except errors.CompactionError as error:
        return error


def _columns(io: FileIO, file: dict[str, Any], where: str) -> Iterator[pa.ChunkedArray]:
    """The column of paths, piece by piece."""
    if file["file_format"] == "AVRO":
        data = fetch.read_bytes(io, file["file_path"], where=where)
        rows = avro_decode.read_table(data, {_COLUMN: (_COLUMN,)}, where=where)
        if _COLUMN not in rows.column_names:
            raise errors.MetadataError(f"{where} has no column {_COLUMN}.")
        yield rows[_COLUMN]
        return
    path = file["file_path"]
    with fetch.storage_errors(where, io, path), passing_faults.patiently(io.new_input(path).open) as stream:
        try:
            yield from (_orc if file["file_format"] == "ORC" else _parquet)(stream)
        except (pa.ArrowException, KeyError) as error:
            raise errors.MetadataError(f"{where} could not be read: {str(error).splitlines()[0]}.") from error


def _parquet(stream: Any) -> Iterator[pa.ChunkedArray]:
    import pyarrow.parquet as pq

    name = _name(pq.read_schema(stream), b"PARQUET:field_id")
    stream.seek(0)
    file = pq.ParquetFile(stream, read_dictionary=[name])  # a path is stored once, and so it is read
    for batch in file.iter_batches(1 << 20, columns=[name], use_threads=False):
        yield pa.chunked_array([batch.column(0)])


def _orc(stream: Any) -> Iterator[pa.ChunkedArray]:
    from pyarrow import orc

    file = orc.ORCFile(stream)
    name = _name(file.schema, b"iceberg.id")
    for stripe in range(file.nstripes):
        yield pa.chunked_array([file.read_stripe(stripe, columns=[name]).column(0)])


def _name(schema: pa.Schema, key: bytes) -> str:
    """The column of paths by its reserved id, else by its name."""
    for field in schema:
        if (field.metadata or {}).get(key) == _COLUMN_ID:
            return str(field.name)
    return str(schema.field(_COLUMN).name)


def _distinct(columns: Iterable[pa.ChunkedArray]) -> pa.Array:
    parts = [pc.unique(column).cast(pa.string()) for column in columns]
    return pc.unique(pa.chunked_array(parts, pa.string()))
