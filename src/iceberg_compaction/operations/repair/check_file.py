"""Compares one entry of a manifest with the file in storage: a request for its size, and its footer where that is asked
for or the size is another. Findings go out. A store that refuses or is silent is an error, never a missing file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.metadata import fetch
from iceberg_compaction.model import plurals, table_view
from iceberg_compaction.model.repair_plan import Damage, Finding, Remedy
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_PARQUET = "PARQUET"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A live entry."""

    path: str
    manifest: str
    content: int
    format: str
    size: int
    records: int


def check(io: FileIO, file: ListedFile, *, deep: bool) -> tuple[Finding, ...]:
    """What is wrong with the entry, or with the file."""
    where = f"File {file.path}"
    with fetch.storage_errors(where, io, file.path):
        try:
            size = passing_faults.patiently(lambda: len(io.new_input(file.path)))
        except FileNotFoundError:
            return (_missing(file),)
        if size == file.size and not (deep and file.format == _PARQUET):
            return ()
        if file.format != _PARQUET:
            reason = f"{size} bytes; whether it is whole cannot be told for {file.format}"
            return (_finding(file, Damage.UNREADABLE, Remedy.RESTORE, f"{file.size} bytes", reason),)
        records = passing_faults.patiently(lambda: _rows(io, file.path))
    if records is None:
        actual = f"{size} bytes that do not end in a footer"
        return (_finding(file, Damage.UNREADABLE, Remedy.RESTORE, f"{file.size} bytes", actual),)
    findings = []
    if size != file.size:
        findings.append(_finding(file, Damage.SIZE, Remedy.FIX, f"{file.size} bytes", f"{size} bytes", size))
    if records != file.records:
        stated, actual = (plurals.count(number, "row") for number in (file.records, records))
        findings.append(_finding(file, Damage.RECORDS, Remedy.FIX, stated, actual, records))
    return tuple(findings)


def _rows(io: FileIO, path: str) -> int | None:
    """The rows of a Parquet file, by its footer; None: it has none that can be read."""
    with io.new_input(path).open() as stream:
        try:
            return int(pq.ParquetFile(stream).metadata.num_rows)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        except OSError as error:
            if "thrift" in str(error).lower():  # Arrow's word for a footer that is no footer
                return None
            raise


def _missing(file: ListedFile) -> Finding:
    # Without a delete file, rows that are deleted would come back, so that it cannot be dropped.
    remedy = Remedy.DROP_MISSING if file.content == table_view.DATA else Remedy.RESTORE
    kind = "a data file" if file.content == table_view.DATA else "a delete file"
    stated = f"{kind} of {file.size} bytes with {plurals.count(file.records, 'row')}"
    return _finding(file, Damage.MISSING, remedy, stated, "no file is there")


def _finding(
    file: ListedFile, damage: Damage, remedy: Remedy, stated: str, actual: str, value: int | None = None
) -> Finding:
    return Finding(
        damage=damage,
        remedy=remedy,
        path=file.path,
        manifest=file.manifest,
        stated=stated,
        actual=actual,
        value=value,
        records=file.records,
    )
