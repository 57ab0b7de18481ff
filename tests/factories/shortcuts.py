"""What libraries work out anew each time, and tests ask for thousands of times, is kept in the processes of tests: the
metadata of a transaction and the readers of manifests of PyIceberg, and the commands of an application of Typer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyiceberg.avro import file as avro_file
from pyiceberg.table import Transaction
from pyiceberg.table.update import update_table_metadata
from pyiceberg.utils.schema_conversion import AvroSchemaConversion
from typer import main

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_make_command = main.get_command_from_info
_make_reader = avro_file.resolve_reader
_schemas: dict[str, Schema] = {}
_readers: dict[Any, Any] = {}


def install() -> None:
    """For all of this process."""
    Transaction.table_metadata = property(_table_metadata)  # type: ignore[assignment,method-assign]
    avro_file.AvroFileHeader.get_schema = _schema  # type: ignore[method-assign]
    avro_file.resolve_reader = _reader
    main.get_command_from_info = _command


def _table_metadata(transaction: Any) -> TableMetadata:
    """As PyIceberg's, but not as a deep copy for each of the seventeen looks of one append."""
    base, updates = transaction._table.metadata, transaction._updates
    kept = getattr(transaction, "_kept_metadata", None)
    if kept is None or kept[0] is not base or kept[1] is not updates:
        kept = transaction._kept_metadata = (base, updates, update_table_metadata(base, updates))
    metadata: TableMetadata = kept[2]
    return metadata


def _schema(header: Any) -> Schema:
    """As PyIceberg's, but the schema of a file is understood once, however many files have it."""
    text = header.meta["avro.schema"]
    if text not in _schemas:
        _schemas[text] = AvroSchemaConversion().avro_to_iceberg(json.loads(text))
    return _schemas[text]


def _reader(file: Any, read: Any, types: Any, enums: Any) -> Any:
    """As PyIceberg's. Schemas of files are those of `_schema`; both are kept, so that no other gets their address."""
    key = (id(file), id(read), *types.items(), *enums.items())
    if key not in _readers:
        _readers[key] = (_make_reader(file, read, types, enums), file, read)
    return _readers[key][0]


def _command(*alone: Any, command_info: Any = None, **more: Any) -> Any:
    """As Typer's, but the signature of each verb is read once, not at every call. An application of a single command,
    whose info comes by position, changes what it gets."""
    if command_info is None:
        return _make_command(*alone, **more)
    if not hasattr(command_info, "kept_command"):
        command_info.kept_command = _make_command(command_info=command_info, **more)
    return command_info.kept_command
