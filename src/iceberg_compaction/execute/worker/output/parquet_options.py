"""Writer options from the table's properties (R44). Properties come in, arguments of pyarrow's writer go out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.output import column_encodings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.schema import Schema

MIB = 2**20
_PREFIX = "write.parquet."
_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
    "uncompressed": "none",
    "none": "none",
}
_LEVELED = ("zstd", "gzip", "brotli")
_USUAL_GZIP = 6  # the level of everybody else; pyarrow's own takes several times as long for little
_AT_ONCE = 1024  # values that pyarrow encodes before it looks whether a page is full
_WIDE = 8  # times the size of a page; so many values at once would be too much
_LONG = 2**63 - 1
_PAGE = 2**30  # bytes of a page at most, whatever the table asks for: its header counts them in 31 bits
_FILTER = 128 * MIB  # bytes of a Bloom filter that pyarrow makes at most
_INT = 2**31 - 1
_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0", "parquet_1_0": "1.0", "parquet_2_0": "2.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeColumn:
    """A column that may have a dictionary or not, whichever is smaller."""

    name: str  # of the top-level column
    below: tuple[int, ...]  # positions from there through structs
    path: str  # in Parquet


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options for the encoding of output files."""

    row_group_bytes: int
    parquet: dict[str, Any]  # arguments of pyarrow.parquet.ParquetWriter
    free: tuple[FreeColumn, ...]

    def arguments(self, first: pa.Table) -> dict[str, Any]:
        """Arguments for a file or a row group that begins with these rows, which may lack columns."""
        room, chosen = self.parquet["dictionary_pagesize_limit"], dict(self.parquet)
        positions = {name: position for position, name in enumerate(first.schema.names)}
        free = {
            (positions[column.name], *column.below): column.path for column in self.free if column.name in positions
        }
        if plain := {free[path] for path in column_encodings.without_dictionary(first, free, room)}:
            chosen["use_dictionary"] = [path for path in self.parquet["use_dictionary"] if path not in plain]
        if (each := first.nbytes / max(1, first.num_rows)) * _AT_ONCE > _WIDE * self.parquet["data_page_size"]:
            chosen["write_batch_size"] = max(1, int(self.parquet["data_page_size"] / each))
        return chosen


def write_options(properties: Mapping[str, str], schema: Schema, columns: pa.Schema, rows: int) -> WriteOptions:
    """The options for files of this table; `columns` is the schema of the files and `rows` an upper bound of their
    rows, which sizes a Bloom filter unless the table gives its size."""
    wanted = properties.get("write.format.default", "parquet").lower()
    if wanted != "parquet":
        raise errors.UnsupportedError(f"The table asks for {wanted} files, only parquet can be written yet.")
    named = _columns_by_name(schema, columns)
    off = {path for name, path in named.items() if not _flag(properties, f"dict-encoding-enabled.column.{name}", True)}
    unseen = {path for name, path in named.items() if not _flag(properties, f"stats-enabled.column.{name}", True)}
    parquet: dict[str, Any] = {
        **_compression(properties),
        "version": "2.6",
        "data_page_size": min(_number(properties, "page-size-bytes", MIB), _PAGE),
        "max_rows_per_page": _number(properties, "page-row-limit", 20_000),
        "dictionary_pagesize_limit": min(_number(properties, "dict-size-bytes", 2 * MIB), _PAGE),
        "data_page_version": _page_version(properties),
        "use_dictionary": [path for path in named.values() if path not in off],
        "write_statistics": [path for path in named.values() if path not in unseen] if unseen else True,
        "write_page_index": True,
        "write_page_checksum": True,  # as Java's writer does, so that readers notice a damaged page
        "store_schema": False,  # the Parquet schema is enough; Arrow's own copy would only pin our in-memory types
        "store_decimal_as_integer": True,  # as Iceberg's spec lays decimals out
    }
    if filters := _bloom_filters(properties, named, rows):
        parquet["bloom_filter_options"] = filters
    return WriteOptions(
        row_group_bytes=_number(properties, "row-group-size-bytes", 128 * MIB),
        parquet=parquet,
        free=_free(properties, schema, columns),
    )


def _compression(properties: Mapping[str, str]) -> dict[str, Any]:
    name = properties.get(f"{_PREFIX}compression-codec", "zstd").lower()
    if (codec := _CODECS.get(name)) is None:
        supported = ", ".join(sorted(_CODECS))
        raise errors.UnsupportedError(f"The table's codec {name!r} cannot be written; known ones are {supported}.")
    level = properties.get(f"{_PREFIX}compression-level")
    if level is None or level == "null" or codec not in _LEVELED:
        return {"compression": codec, "compression_level": _USUAL_GZIP if codec == "gzip" else None}
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    return {
        "compression": codec,
        "compression_level": _number(properties, "compression-level", 0, least=least, most=most),
    }


def _page_version(properties: Mapping[str, str]) -> str:
    name = properties.get(f"{_PREFIX}page-version", "v1").lower()
    if name not in _PAGE_VERSIONS:
        raise errors.UnsupportedError(f"{_PREFIX}page-version is {name!r}; known ones are v1 and v2.")
    return _PAGE_VERSIONS[name]


def _bloom_filters(properties: Mapping[str, str], named: Mapping[str, str], rows: int) -> dict[str, dict[str, Any]]:
    largest = min(_number(properties, "bloom-filter-max-bytes", MIB), _FILTER)
    filters: dict[str, dict[str, Any]] = {}
    for name, path in named.items():
        if not _flag(properties, f"bloom-filter-enabled.column.{name}", False):
            continue
        chance = _chance(properties, f"bloom-filter-fpp.column.{name}")
        distinct = _number(properties, f"bloom-filter-ndv.column.{name}", max(rows, 1))
        filters[path] = {"ndv": max(1, min(distinct, _fitting(largest, chance), _INT)), "fpp": chance}
    return filters


def _fitting(size: int, chance: float) -> int:
    """How many values a block filter of at most this many bytes holds; its size is a power of two."""
    bits = 8 << (max(size, 32).bit_length() - 1)
    return int(-bits * math.log(1 - chance ** (1 / 8)) / 8)


def _chance(properties: Mapping[str, str], name: str) -> float:
    text = properties.get(_PREFIX + name, "0.01")
    try:
        chance = float(text)
    except ValueError:
        chance = 0.0
    if not 0.0 < chance < 1.0:
        raise errors.UnsupportedError(
            f"The table's property {_PREFIX}{name} is {text!r}, not a number between 0 and 1."
        )
    return chance


def _columns_by_name(schema: Schema, columns: pa.Schema) -> dict[str, str]:
    """Column names as the table's properties write them, with the path of the column in a file."""
    paths = {}
    for leaf in arrow_schemas.leaves(columns):
        if (name := schema.find_column_name(leaf.field_id)) is not None:
            paths[name] = _path(columns, leaf.path)
    return paths


def _free(properties: Mapping[str, str], schema: Schema, columns: pa.Schema) -> tuple[FreeColumn, ...]:
    """Columns that are no dictionaries yet, and whose encoding no property of the table names."""
    free = []
    for leaf in arrow_schemas.leaves(columns):
        name = schema.find_column_name(leaf.field_id)
        if f"{_PREFIX}dict-encoding-enabled.column.{name}" in properties or leaf.repeated:
            continue
        if not pa.types.is_dictionary(leaf.type) and not pa.types.is_boolean(leaf.type):
            name = columns.field(leaf.path[0]).name
            free.append(FreeColumn(name=name, below=leaf.path[1:], path=_path(columns, leaf.path)))
    return tuple(free)


def _path(columns: pa.Schema, positions: tuple[int, ...]) -> str:
    field = columns.field(positions[0])
    parts = [field.name]
    for position in positions[1:]:
        if pa.types.is_map(field.type):
            parts.append("key_value")
        elif not pa.types.is_struct(field.type):
            parts.append("list")
        is_map = pa.types.is_map(field.type)
        field = arrow_schemas.children(field.type)[position]
        parts.append(("key", "value")[position] if is_map else field.name)
    return ".".join(parts)


def _flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    return properties.get(_PREFIX + name, str(default)).lower() == "true"


def _number(properties: Mapping[str, str], name: str, default: int, *, least: int = 1, most: int = _LONG) -> int:
    text = properties.get(_PREFIX + name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise errors.UnsupportedError(f"The table's property {_PREFIX}{name} is {text[:40]!r}, not a number.") from None
    if number < least:
        raise errors.UnsupportedError(f"The table's property {_PREFIX}{name} is {text[:40]}, less than {least}.")
    if number > most:
        raise errors.UnsupportedError(f"The table's property {_PREFIX}{name} is {text[:40]}, more than {most}.")
    return number
