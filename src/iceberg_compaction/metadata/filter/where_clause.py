"""Parses `where`: text and schema come in, a bound filter goes out that marks the files which may hold matching rows.
Inclusive everywhere (R47): a doubt keeps the file, so that no file with a matching row is ever left out."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import visitors
from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.metadata.filter import (
    bucketed,
    filter_tree,
    filter_words,
    fit_conditions,
    pruning,
    time_values,
    word_cursor,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow as pa
    from pyiceberg import expressions
    from pyiceberg.partitioning import PartitionSpec

_SHOWN = 160  # characters of a filter, or of what is wrong with it, that a sentence repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter bound to a table's schema."""

    text: str
    schema: Schema  # with every field optional: a required field inside a null struct is null all the same
    expression: expressions.BooleanExpression  # bound, without NOT
    unbound: expressions.BooleanExpression  # the same by names, for projection to partition specs

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The fields whose metrics `select` needs."""
        return tuple(sorted(visitors.extract_field_ids(self.expression)))

    def select(self, files: pa.Table, specs: Mapping[int, PartitionSpec]) -> pa.BooleanArray:
        """Which rows may match. `files` has the metrics of `field_ids`, see metadata.manifest.live_files."""
        by_partition = pruning.by_partition(files, self.unbound, specs, self.schema)
        return pruning.as_array(by_partition & pruning.by_metrics(files, self.expression, self.schema))


def parse(text: str, schema: Schema) -> Filter:
    """The filter for files of a table with this schema; ConfigError says what is wrong with it, and where."""
    optional = _all_optional(schema)
    with _errors_of(text):
        return _bound(fit_conditions.fit(filter_tree.parse(text), optional), optional, text)


def check(text: str) -> None:
    """ConfigError: the filter cannot be read, whatever the table. Its columns are not known, nor the time."""
    pinned = _pinned(text, frozenset(), 0)
    with _errors_of(pinned):
        filter_tree.parse(pinned)


def pin(text: str, schema: Schema, now_ms: int) -> str:
    """The filter with a date or a timestamp for all that depends on the clock, such as current_date() - interval 7
    days: whoever reads or performs a plan later sees the same rows. ConfigError: it cannot be read."""
    return _pinned(text, {name.lower() for name in schema.column_names}, now_ms)


def _pinned(text: str, columns: Collection[str], now_ms: int) -> str:
    pinned, done = [], 0
    with _errors_of(text):
        words = word_cursor.WordCursor(text)
        while (word := words.peek()).kind != "end":
            of_struct = words.at > 0 and words.last().is_mark(".")
            if of_struct or not time_values.is_next(words, columns.__contains__):
                words.next()
                continue
            value = time_values.read(words, now_ms)
            if value.from_clock:
                pinned += [text[done : word.at], f"{value.kind} '{value.text}'"]
                done = words.last().end
    return "".join([*pinned, text[done:]])


@contextlib.contextmanager
def _errors_of(text: str) -> Iterator[None]:
    try:
        text.encode()  # half a character of a damaged argument makes libraries crash
        yield
    except UnicodeEncodeError as error:
        raise errors.ConfigError(f"The filter {_short(repr(text))} cannot be read: {error.reason}.") from None
    except filter_words.FilterError as error:
        where = filter_words.pointed_at(text, error.at)
        raise errors.ConfigError(f"The filter {_short(repr(text))} {error.lead}: {error}.{where}") from error
    except RecursionError:
        raise errors.ConfigError(
            f"The filter {_short(repr(text))} has conditions inside conditions more than {filter_tree.DEPTH} deep; "
            "write it with fewer parentheses."
        ) from None


def bind(unbound: expressions.BooleanExpression, schema: Schema) -> Filter:
    """The same for an expression of AND, OR and predicates whose names and literals fit the schema."""
    return _bound(unbound, _all_optional(schema), str(unbound))


def _bound(unbound: expressions.BooleanExpression, optional: Schema, text: str) -> Filter:
    bound = visitors.bind(optional, bucketed.without(unbound), case_sensitive=True)
    return Filter(text=text, schema=optional, expression=bound, unbound=unbound)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _all_optional(schema: Schema) -> Schema:
    def relax(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: False if key == "required" else relax(value) for key, value in node.items()}
        return [relax(item) for item in node] if isinstance(node, list) else node

    return Schema.model_validate(relax(json.loads(schema.model_dump_json())) | {"identifier-field-ids": []})
