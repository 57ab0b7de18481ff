"""Decides whether a table may be rewritten at all. It names every feature that this version cannot carry over without
loss, all of them at once and before anything is written."""

from __future__ import annotations

import collections
from importlib import util
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import schema as iceberg_schema
from pyiceberg import transforms, types

from iceberg_compaction.model import plurals, table_view
from iceberg_compaction.storage import exact_paths

if TYPE_CHECKING:
    from pyiceberg.table import Table

NEWEST_FORMAT_VERSION = 2
ENCRYPTION_KEY = "encryption.key-id"
_DELETE_FORMATS = ("PARQUET", "AVRO", "ORC")

_FOREIGN_TYPES = (
    types.TimestampNanoType,
    types.TimestamptzNanoType,
    types.UnknownType,
    types.GeometryType,
    types.GeographyType,
)


def unsupported(table: Table, files: pa.Table) -> tuple[str, ...]:
    """Why the table must not be rewritten, one sentence each; empty: it may. `files` are its live files (FILES)."""
    return (
        *_table_reasons(table),
        *_schema_reasons(table),
        *_spec_reasons(table, files),
        *_file_reasons(files),
        *_equality_reasons(table, files),
    )


def _table_reasons(table: Table) -> list[str]:
    reasons = []
    version, properties = table.metadata.format_version, table.properties
    if version > NEWEST_FORMAT_VERSION:
        reasons.append(f"The table has format version {version}; versions 1 and 2 can be rewritten.")
    if ENCRYPTION_KEY in properties:
        reasons.append(f"The table is encrypted ({ENCRYPTION_KEY} is set).")
    written = properties.get("write.format.default", "parquet")
    if written.lower() != "parquet":
        reasons.append(f"The table writes {written.upper()} files (write.format.default); only Parquet can be written.")
    if provider := properties.get("write.location-provider.impl"):
        reasons.append(
            f"The table places its files with the Java class {provider} (write.location-provider.impl), "
            "which cannot be loaded here."
        )
    python_provider = properties.get("write.py-location-provider.impl", "")
    # Looking at a table must not run code that its properties name, so only the package is looked for.
    package = python_provider.partition(".")[0]
    if python_provider and (not package.isidentifier() or util.find_spec(package) is None):
        reasons.append(
            f"The table places its files with the Python class {python_provider} (write.py-location-provider.impl), "
            "which is not installed here."
        )
    return reasons + _folder_reasons(table)


def _folder_reasons(table: Table) -> list[str]:
    """New files must lie where every reader looks for them (R52)."""
    reasons = []
    for key, name in (("write.data.path", "data"), ("write.metadata.path", "metadata")):
        chosen, location = table.properties.get(key), table.location()
        folder = (chosen or f"{location.rstrip('/')}/{name}").rstrip("/")
        if reason := exact_paths.unfit(folder, location):
            where = key if chosen else "the table's location"
            reasons.append(f"New files cannot be placed in {folder!r} ({where}): the path {reason}.")
    return reasons


def _schema_reasons(table: Table) -> list[str]:
    schema = table.schema()
    columns = [
        f"{schema.find_column_name(field_id)} ({field.field_type})"
        for field_id, field in sorted(iceberg_schema.index_by_id(schema).items())
        if isinstance(field.field_type, _FOREIGN_TYPES)
    ]
    return [f"Columns of types that cannot be rewritten: {', '.join(columns)}."] if columns else []


def _spec_reasons(table: Table, files: pa.Table) -> list[str]:
    reasons = []
    specs, current = table.specs(), table.spec().spec_id
    lost = unwritable_specs(table)
    for spec_id in sorted(set(pc.unique(files["spec_id"]).to_pylist()) | {current}):
        for field in specs[spec_id].fields:
            where = f"Partition field {field.name} of spec {spec_id}"
            if isinstance(field.transform, transforms.UnknownTransform):
                reasons.append(f"{where} has a transform that is not known here: {field.transform!r}.")
        if spec_id == current and spec_id in lost:
            reasons.append(f"Partition spec {spec_id} is derived from a column that the table no longer has.")
    return reasons


def unwritable_specs(table: Table) -> frozenset[int]:
    """Specs with a field whose source column is gone, and with it the type of its values. Files of such a spec can be
    read and rewritten into the current spec, but nothing can be added to the spec."""
    columns = iceberg_schema.index_by_id(table.schema())
    return frozenset(
        spec_id
        for spec_id, spec in table.specs().items()
        if any(field.source_id not in columns for field in spec.fields)
    )


def _file_reasons(files: pa.Table) -> list[str]:
    reasons = []
    if encrypted := sum(chunk.true_count for chunk in files["encrypted"].chunks):
        reasons.append(f"{plurals.count(encrypted, 'live file')} with encryption keys.")
    formats = files["file_format"]
    deletes = files["content"].to_numpy() != table_view.DATA
    if deletes.any():
        reasons += _delete_format_reasons(formats.filter(pa.array(deletes)))
        formats = formats.filter(pa.array(~deletes))
    for name, number in sorted(_counts(formats).items()):
        if name != "PARQUET":
            reasons.append(f"{plurals.count(number, 'live data file')} in format {name}, not Parquet.")
    return reasons


def _delete_format_reasons(formats: pa.ChunkedArray) -> list[str]:
    reasons = []
    for name, number in sorted(_counts(formats).items()):
        if name == "PUFFIN":
            reasons.append(f"{plurals.count(number, 'live deletion vector')}; vectors are not applied yet.")
        elif name not in _DELETE_FORMATS:
            files = plurals.count(number, "live delete file")
            reasons.append(f"{files} in format {name}, which cannot be read here.")
    return reasons


def _equality_reasons(table: Table, files: pa.Table) -> list[str]:
    """Fields that equality deletes compare must be known to a schema of the table, old or new (R23)."""
    equality = files.filter(pc.equal(files["content"], table_view.EQUALITY_DELETES))["equality_ids"]
    if not len(equality):
        return []
    reasons = []
    if unnamed := sum(not ids for ids in equality.to_pylist()):
        reasons.append(f"{plurals.count(unnamed, 'live equality delete file')} without the fields to compare.")
    field_ids = {field_id for schema in table.schemas().values() for field_id in iceberg_schema.index_by_id(schema)}
    lost = sorted(set(pc.unique(pc.list_flatten(equality)).to_pylist()) - field_ids)
    if lost:
        reasons.append(f"Equality deletes compare fields that no schema of the table knows: {lost}.")
    return reasons


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    """The number of rows of each value of a dictionary column; Arrow would hash the values of a million rows."""
    counts: collections.Counter[str] = collections.Counter()
    for chunk in column.chunks:
        numbers = np.bincount(chunk.indices.to_numpy(), minlength=len(chunk.dictionary))
        counts.update({text: int(number) for text, number in zip(chunk.dictionary.to_pylist(), numbers, strict=True)})
    return {text: number for text, number in counts.items() if number}
