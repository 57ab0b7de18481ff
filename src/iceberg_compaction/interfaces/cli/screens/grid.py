"""A table that fits the screen and cuts nothing. Where width is short, columns drop out in a stated order, and a line
says which; a name that is too long for its column stands on a line of its own, above its figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from iceberg_compaction.interfaces.cli.screens.paragraphs import Paragraph
from iceberg_compaction.interfaces.cli.screens.printable import printable
from iceberg_compaction.model import plurals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_GAP = 2
_WIDEST_NAMES = 0.4  # of the screen, for names in a column


@dataclass(frozen=True, slots=True, kw_only=True)
class GridColumn:
    """One column. `drop`: the column with the highest number drops out first; 0 stays. `sentence`: its text may take
    several lines of so many cells at least."""

    name: str
    right: bool = False
    drop: int = 0
    sentence: int = 0


def figures(name: str, *, drop: int = 0) -> GridColumn:
    """A column of numbers."""
    return GridColumn(name=name, right=True, drop=drop)


def sentences(name: str, *, least: int = 24, drop: int = 0) -> GridColumn:
    """A column whose text may take several lines."""
    return GridColumn(name=name, sentence=least, drop=drop)


@dataclass(slots=True, kw_only=True)
class Grid:
    """Columns and rows; the first column has the names. Cells are markup. `elsewhere`: the way to see columns that
    dropped out. `instead`: lines that stand for a column, by its name, if it dropped out."""

    columns: tuple[GridColumn, ...]
    title: str | None = None
    header: bool = True
    elsewhere: str = "--output json has all"
    instead: dict[str, list[RenderableType]] = field(default_factory=dict)
    rows: list[tuple[Text, ...]] = field(default_factory=list)

    def add_row(self, *cells: str) -> None:
        """One more row; cells that are not given are empty."""
        given = [*cells, *[""] * (len(self.columns) - len(cells))]
        cells_and_columns = zip(given, self.columns, strict=True)
        clean = (printable(cell, lines=bool(column.sentence)) for cell, column in cells_and_columns)
        self.rows.append(tuple(Text.from_markup(cell) for cell in clean))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, dropped = self._choose(options.max_width)
        widths = self._widths(shown, options.max_width)
        if self.title is not None:
            yield Text(self.title, style="bold")
        if self.header:
            yield _line([Text(self.columns[at].name, style="bold") for at in shown], self._of(shown), widths)
            yield Text("─" * min(options.max_width, sum(widths) + _GAP * (len(widths) - 1)), style="dim")
        for row in self.rows:
            yield from self._row(console, [row[at] for at in shown], self._of(shown), widths)
        if dropped:
            names = ", ".join(self.columns[at].name for at in dropped)
            form = plurals.form(len(dropped), "Column", "Columns")
            note = f"{form} left out for lack of width: {names} ({self.elsewhere})."
            yield Paragraph(text=note, style="dim")
            for at in dropped:
                yield from self.instead.get(self.columns[at].name, [])
        yield Text("")

    def _of(self, shown: Sequence[int]) -> list[GridColumn]:
        return [self.columns[at] for at in shown]

    def _choose(self, width: int) -> tuple[list[int], list[int]]:
        """The columns that fit, and those that drop out. A column without any text is in neither."""
        shown = [at for at in range(len(self.columns)) if at == 0 or not self.rows or self._natural(at)]
        dropped: list[int] = []
        while self._least(shown, width) > width:
            candidates = [at for at in shown if self.columns[at].drop]
            if not candidates:
                break
            last = max(candidates, key=lambda at: self.columns[at].drop)
            shown.remove(last)
            dropped.append(last)
        return shown, sorted(dropped)

    def _natural(self, at: int) -> int:
        """The cells that the texts of a column take; 0 if all are empty."""
        widest = max((row[at].cell_len for row in self.rows), default=0)
        return max(widest, Text(self.columns[at].name).cell_len if self.header else 0) if widest or not self.rows else 0

    def _names(self, width: int) -> int:
        """The cells of the first column, without names that are too long for it."""
        most = max(int(width * _WIDEST_NAMES), 1)
        head = len(self.columns[0].name) if self.header else 0
        return max([head, *(row[0].cell_len for row in self.rows if row[0].cell_len <= most)])

    def _least(self, shown: Sequence[int], width: int) -> int:
        """The cells that these columns need."""
        needs = [min(self._natural(at), self.columns[at].sentence or self._natural(at)) for at in shown if at]
        return self._names(width) + sum(needs) + _GAP * len(needs)

    def _widths(self, shown: Sequence[int], width: int) -> list[int]:
        """The cells of each column. Names may use the room that is left, and sentences all of it."""
        widths = [self._names(width) if at == 0 else self._natural(at) for at in shown]
        wide = [number for number, at in enumerate(shown) if self.columns[at].sentence]
        fixed = sum(cells for number, cells in enumerate(widths) if number not in wide) + _GAP * (len(widths) - 1)
        if not wide:
            room = width - fixed + widths[0]
            widths[0] = max(widths[0], *(row[0].cell_len for row in self.rows if row[0].cell_len <= room), 0)
        for number in wide:
            least = min(widths[number], self.columns[shown[number]].sentence)
            widths[number] = max(min(widths[number], (width - fixed) // len(wide)), least)
        return widths

    def _row(self, console: Console, cells: list[Text], columns: list[GridColumn], widths: list[int]) -> Iterator[Text]:
        if cells[0].cell_len > widths[0]:
            name = cells[0].copy()
            name.no_wrap, name.overflow = True, "ignore"
            yield name
            cells = [Text(""), *cells[1:]]
        parts = [
            list(cell.wrap(console, cells_wide)) if column.sentence else [cell]
            for cell, column, cells_wide in zip(cells, columns, widths, strict=True)
        ]
        for number in range(max(len(part) for part in parts)):
            yield _line([part[number] if number < len(part) else Text("") for part in parts], columns, widths)


def _line(cells: Sequence[Text], columns: Sequence[GridColumn], widths: Sequence[int]) -> Text:
    """One line of cells, each padded to its column; nothing behind the last one."""
    line = Text(no_wrap=True, overflow="ignore")
    for cell, column, width in zip(cells, columns, widths, strict=True):
        padding = " " * max(0, width - cell.cell_len)
        line.append_text(Text(padding) + cell if column.right else cell + Text(padding))
        line.append(" " * _GAP)
    line.rstrip()
    return line


def grid(*columns: str | GridColumn, title: str | None = None, header: bool = True) -> Grid:
    """An empty table; a column whose name starts with `>` is right-aligned."""
    made = [
        one if isinstance(one, GridColumn) else GridColumn(name=one.lstrip(">"), right=one.startswith(">"))
        for one in columns
    ]
    return Grid(columns=tuple(made), title=title, header=header)
