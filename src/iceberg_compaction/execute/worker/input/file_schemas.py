"""The Arrow schemas of input files, and the columns that are read of them. Most files of a table have the same schema,
so all work on it is done once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table.name_mapping import NameMapping


class FileSchema(NamedTuple):
    """The Arrow schema of a file, and its columns in file order."""

    schema: pa.Schema
    leaves: list[arrow_schemas.ArrowLeaf]


class FileSchemas:
    """The Arrow schemas of files. Most files have the same one, and get the same object."""

    def __init__(self, mapping: NameMapping | None, partitioned: Collection[int]) -> None:
        self._mapping = mapping
        self._partitioned = partitioned
        self._pairs: list[tuple[pa.Schema, FileSchema]] = []

    def of(self, stored: pa.Schema) -> FileSchema:
        """The schema with field ids of a file that has this one."""
        for other, file_schema in self._pairs:
            if stored.equals(other, check_metadata=True):
                return file_schema
        schema = arrow_schemas.without_ids(_with_ids(stored, self._mapping), self._partitioned)
        self._pairs.append((stored, FileSchema(schema, arrow_schemas.leaves(schema))))
        return self._pairs[-1][1]


def _with_ids(schema: pa.Schema, mapping: NameMapping | None) -> pa.Schema:
    """The file's schema in plain layouts and with field ids, its own or those of the name mapping (R27, R30)."""
    plain = pa.schema([field.with_type(arrow_schemas.plain(field.type)) for field in schema])
    if arrow_schemas.has_ids(plain):
        return plain
    if mapping is None:
        raise errors.UnsupportedError(
            "it has no field ids and the table has no name mapping; set the table property schema.name-mapping.default"
        )
    return arrow_schemas.with_mapped_ids(plain, mapping.root)


class ReadColumns(NamedTuple):
    """The columns to read of files with one schema."""

    schema: pa.Schema
    columns: list[str] | None  # None: all
    kept: frozenset[str]  # columns that stay dictionaries


class ReadColumnsBySchema:
    """The columns to read, by schema."""

    def __init__(self, dictionaries: frozenset[int], only: frozenset[int] | None) -> None:
        self._dictionaries = dictionaries
        self._only = only
        self._by_schema: dict[int, ReadColumns] = {}  # by its identity: footers hold the schemas

    def of(self, schema: pa.Schema) -> ReadColumns:
        """The columns to read of files with this very schema."""
        if id(schema) not in self._by_schema:
            chosen = _selected(schema, self._only)
            kept = frozenset(column.name for column in schema if arrow_schemas.field_id(column) in self._dictionaries)
            columns = None if len(chosen) == len(schema) else chosen.names
            self._by_schema[id(schema)] = ReadColumns(chosen, columns, kept)
        return self._by_schema[id(schema)]


def _selected(schema: pa.Schema, only: frozenset[int] | None) -> pa.Schema:
    if only is None or any("." in name for name in schema.names):  # a dot means a path to pyarrow
        return schema
    return pa.schema([column for column in schema if arrow_schemas.field_id(column) in only]) or schema
