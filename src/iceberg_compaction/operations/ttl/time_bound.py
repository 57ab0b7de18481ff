"""The bound of rows past their time. A goal and a table come in; filters of the rows that stay and that go
come out. Rows without a value stay, and so does every file that metadata does not surely tell to hold none of them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg import expressions, types
from pyiceberg.expressions import literals
from pyiceberg.table.snapshots import Operation

from iceberg_compaction import errors
from iceberg_compaction.metadata import maintainers, snapshot_log
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.model import times, ttl_plan
from iceberg_compaction.model.past_rows import PastRows

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.ttl_plan import TtlGoal

# PyIceberg's own types do not describe how its predicates are made.
_NEWER: Any = expressions.GreaterThanOrEqual
_MISSING: Any = expressions.IsNull
_OLDER: Any = expressions.LessThan
_DAY = ttl_plan.TimeUnit.DAYS.micros
_WHOLE = (types.IntegerType, types.LongType)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBound:
    """Rows before this moment are past their time."""

    column: str
    micros: int  # since 1970, in UTC
    kept: where_clause.Filter  # the rows that stay
    newer: where_clause.Filter  # those of them that have a time
    past: where_clause.Filter  # the others
    rows: PastRows  # the same for workers

    @property
    def words(self) -> str:
        return times.timestamptz(self.micros)


def bound(goal: TtlGoal, table: Table, branch: str, now_ms: int) -> TimeBound:
    """The bound of a goal, as of now. ConfigError: the goal does not fit the table."""
    name, field = _find(goal.column, table)
    micros = _moment(goal, table, branch, now_ms)
    literal = _literal(goal, name, field.field_type, micros)
    newer = _NEWER(name, literal)
    kept = expressions.Or(newer, _MISSING(name))
    return TimeBound(
        column=name,
        micros=micros,
        kept=where_clause.bind(kept, table.schema()),
        newer=where_clause.bind(newer, table.schema()),
        past=where_clause.bind(_OLDER(name, literal), table.schema()),
        rows=PastRows(field_id=field.field_id, least=int(literal.value)),
    )


def _find(column: str, table: Table) -> tuple[str, types.NestedField]:
    names = [field.name for field in table.schema().fields]
    matches = [column] if column in names else [name for name in names if name.lower() == column.lower()]
    if len(matches) != 1:
        near = ", ".join(difflib.get_close_matches(column, names, n=3) or names[:10])
        raise errors.ConfigError(f"The table has no column {column!r} at its top level; there is {near}.")
    return matches[0], table.schema().find_field(matches[0])


def _moment(goal: TtlGoal, table: Table, branch: str, now_ms: int) -> int:
    if (goal.older_than_ms is None) == (goal.before_micros is None):
        raise errors.ConfigError("Say which rows go, either by their age or by a moment before which they are.")
    if goal.before_micros is not None:
        return goal.before_micros
    assert goal.older_than_ms is not None
    start = now_ms if goal.since is ttl_plan.Since.NOW else _last_write(table, branch)
    return (start - goal.older_than_ms) * 1000


def _last_write(table: Table, branch: str) -> int:
    """When rows were last added or changed, in milliseconds. Commits of housekeeping change none, and our own never
    count; without any other, nothing is old."""
    for snapshot in snapshot_log.line(table.metadata, branch):
        if not _is_upkeep(snapshot):
            return int(snapshot.timestamp_ms)
    raise errors.ConfigError(
        "No snapshot that the table still has wrote rows, so there is no last write to count from; give --since now."
    )


def _is_upkeep(snapshot: Snapshot) -> bool:
    summary = snapshot.summary
    if summary is None:
        return False
    texts = summary.additional_properties
    return summary.operation is Operation.REPLACE or maintainers.OURS[1] in texts or maintainers.is_amoro(texts)


def _literal(goal: TtlGoal, name: str, kind: types.IcebergType, micros: int) -> literals.Literal[int]:
    """The least value that stays. A day or a second stays if any part of it does."""
    if not isinstance(kind, _WHOLE) and goal.unit is not None:
        raise errors.ConfigError(f"Column {name} is a {kind}, which needs no unit; leave --unit out.")
    match kind:
        case types.TimestampType():
            return literals.TimestampLiteral(micros)
        case types.TimestamptzType():
            return literals.LongLiteral(micros).to(kind)
        case types.DateType():
            return literals.DateLiteral(micros // _DAY)
        case types.IntegerType() | types.LongType():
            if goal.unit is None:
                raise errors.ConfigError(
                    f"Column {name} has whole numbers; say what it counts with --unit days|s|ms|us."
                )
            return literals.LongLiteral(micros // goal.unit.micros)
        case _:
            raise errors.ConfigError(
                f"Column {name} is a {kind}; rows can be told by a date, a timestamp or a whole number only."
            )
