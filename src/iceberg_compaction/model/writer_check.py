"""Options of the writer in planning: the view of the table as files will be written, and the words of the plan. A view
and a policy come in; what the table has no column for, or what contradicts its codec, is refused."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.model import writer_options

if TYPE_CHECKING:
    from collections.abc import Collection

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView

_LEVELED = ("zstd", "gzip", "brotli")


def apply(view: TableView, policy: Policy) -> TableView:
    """The view with the options of the run instead of the table's own. ConfigError: they do not fit together."""
    if not policy.write_options:
        return view
    properties = view.properties | writer_options.pairs(policy.write_options)
    _check_level(properties, policy)
    return replace(view, properties=properties)


def note(options: tuple[str, ...]) -> str:
    """The options in a sentence of the plan."""
    return f"Files are written with {', '.join(options)} in this run, whatever the table's properties say."


def check_columns(policy: Policy, columns: Collection[str], table: str) -> None:
    """ConfigError: an option is about a column that the table does not have."""
    for name in writer_options.pairs(policy.write_options):
        column = writer_options.column_of(name)
        if column is not None and column not in columns:
            near = difflib.get_close_matches(column, columns, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise errors.ConfigError(
                f"The write option {name} is about {column!r}, which is no column of {table}{hint}."
            )


def _check_level(properties: dict[str, str], policy: Policy) -> None:
    level = writer_options.pairs(policy.write_options).get(writer_options.LEVEL)
    if level is None:
        return
    codec = properties.get(writer_options.CODEC, "zstd").lower()
    if codec not in _LEVELED:
        raise errors.ConfigError(f"{writer_options.LEVEL} has no effect: the codec {codec} has no levels.")
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not least <= int(level) <= most:
        raise errors.ConfigError(f"{writer_options.LEVEL} is {level}; {codec} has levels from {least} to {most}.")
