"""The columns of a table as far as strategies ask: what it is partitioned and sorted by, and which columns could order
its rows. From metadata alone; a strategy derives the row order of its outputs from it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from iceberg_compaction.model.row_order_terms import SortTerm, Terms

# Types with a moment in time, and how many of their units a day has.
DAY_UNITS = {
    "date": 1,
    "timestamp": 86_400_000_000,
    "timestamptz": 86_400_000_000,
    "timestamp_ns": 86_400_000_000_000,
    "timestamptz_ns": 86_400_000_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnShape:
    """A column with one value per row; columns inside structs have dotted names."""

    name: str
    field_id: int
    type: str  # Iceberg's name of a primitive type

    @property
    def is_time(self) -> bool:
        return self.type in DAY_UNITS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTerm:
    """A field of the current partition spec."""

    name: str
    column: str  # full name of the source
    transform: str  # Iceberg's name


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What rows could be ordered by."""

    columns: tuple[ColumnShape, ...] = ()
    partition: tuple[PartitionTerm, ...] = ()
    sort_order: Terms = ()  # the table's own; empty: none, or one that cannot be followed
    # All sort orders that the table has ever had and that can still be read, by id.
    sort_orders: dict[int, Terms] = field(default_factory=dict)

    @property
    def constant(self) -> set[tuple[str, str]]:
        """Columns and their transforms that have one value in each partition."""
        return {(field.column, field.transform) for field in self.partition}

    def column(self, name: str) -> ColumnShape | None:
        return next((column for column in self.columns if column.name == name), None)

    def require(self, name: str, option: str) -> ColumnShape:
        """The column that an option names. ValueError: there is none."""
        column = self.column(name)
        if column is not None:
            return column
        names = [column.name for column in self.columns]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"{option} names {name!r}, which is no column with one value per row{hint}")

    def bind(self, terms: Terms, option: str) -> Terms:
        """The terms with the ids of their columns. ValueError: there is no such column."""
        return tuple(term.model_copy(update={"field_id": self.require(term.column, option).field_id}) for term in terms)

    def ascending(self, name: str, option: str) -> SortTerm:
        """The term that sorts by a column, the lowest values first."""
        return self.bind((SortTerm(column=name),), option)[0]
