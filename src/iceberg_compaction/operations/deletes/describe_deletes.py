"""The plan of `deletes` for people: what leaves in each partition and why, what stays, and what a rewrite would cost
instead. A choice comes in, a plan goes out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model import byte_size, deletes_plan, plurals, table_view
from iceberg_compaction.model.rewrite_task import Granularity
from iceberg_compaction.model.upkeep_plan import UpkeepStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from iceberg_compaction.model.table_view import Pin
    from iceberg_compaction.operations.deletes.choose_deletes import ChoiceScope, ChosenDeletes

    Ints = NDArray[np.int64]
    _Why = Callable[[Ints], str]

_MOST_LINES = 20  # of one kind; the other partitions share a line
_MUCH = 0.3  # of a data file's rows, from which on a rewrite does more for readers than position deletes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """What the plan has beside the choice."""

    id: str
    table: str
    now_ms: int
    pin: Pin | None
    notes: tuple[str, ...] = ()


def plan(table: Table, chosen: ChosenDeletes, scope: ChoiceScope, facts: PlanFacts) -> deletes_plan.DeletesPlan:
    """The choice as a plan."""
    words = _Words(table, chosen, scope)
    paths = chosen.live["file_path"]

    def named(rows: Ints) -> tuple[str, ...]:
        return tuple(paths.take(pa.array(rows)).to_pylist())

    return deletes_plan.DeletesPlan(
        id=facts.id,
        table=facts.table,
        table_uuid=str(table.metadata.table_uuid),
        branch="main" if facts.pin is None else facts.pin.branch,
        created_ms=facts.now_ms,
        sentence=words.sentence(),
        steps=words.steps(),
        kept=words.kept(),
        notes=(*words.notes(), *facts.notes),
        pin=facts.pin,
        granularity=scope.granularity,
        dangling=named(chosen.dangling),
        merged=named(np.flatnonzero(chosen.is_merged)),
        converted=named(np.flatnonzero(chosen.is_converted)),
    )


class _Words:
    def __init__(self, table: Table, chosen: ChosenDeletes, scope: ChoiceScope) -> None:
        self._table, self._chosen, self._scope = table, chosen, scope
        live = chosen.live
        self._bytes = live["file_size_in_bytes"].to_numpy()
        self._records = live["record_count"].to_numpy()
        self._specs = live["spec_id"].to_numpy()
        self._content = live["content"].to_numpy()
        self._converted = np.flatnonzero(chosen.is_converted)
        self._merged = np.flatnonzero(chosen.is_merged)

    def sentence(self) -> str:
        dangling, merged, converted = (len(rows) for rows in (self._chosen.dangling, self._merged, self._converted))
        sentences = []
        if dangling:
            verbs = plurals.form(dangling, "applies to nothing and leaves", "apply to nothing and leave")
            sentences.append(f"{_delete_files(dangling)} {verbs}")
        if merged:
            files, be = plurals.count(merged, "position delete file"), plurals.form(merged, "is", "are")
            sentences.append(f"{files} {be} merged")
        if converted:
            files, become = (
                plurals.count(converted, "equality delete file"),
                plurals.form(converted, "becomes", "become"),
            )
            sentences.append(f"{files} {become} position deletes")
        if sentences:
            text = "; ".join(sentences)
            return f"{text}. No data file is touched."
        deletes = int((self._content != table_view.DATA).sum())
        if not deletes:
            return "The table has no delete files."
        return f"Nothing is worth doing: {_delete_files(deletes)} {plurals.form(deletes, 'stays as it is', 'stay')}."

    def steps(self) -> tuple[UpkeepStep, ...]:
        return (
            *self._lines("dangling", self._chosen.dangling, lambda rows: "They apply to no data file."),
            *self._lines("merge", self._merged, self._why_merged),
            *self._lines("convert", self._converted, self._why_converted),
        )

    def kept(self) -> tuple[UpkeepStep, ...]:
        """The delete files that stay, by kind."""
        chosen = np.zeros(self._chosen.live.num_rows, np.bool_)
        for rows in (self._chosen.dangling, self._merged, self._converted):
            chosen[rows] = True
        goal, limited = self._scope.goal, self._scope.selected is not None or self._scope.given is not None
        reasons = {
            table_view.POSITION_DELETES: (
                "position deletes",
                "Data files have one file of them at most." if goal.merge else "Merging was not asked for.",
            ),
            table_view.EQUALITY_DELETES: (
                "equality deletes",
                "They apply to nothing that is sure." if goal.convert else "Conversion was not asked for.",
            ),
        }
        steps = []
        for content, (name, reason) in reasons.items():
            rows = np.flatnonzero((self._content == content) & ~chosen)
            if len(rows):
                why = "They lie outside of what was asked for, or need nothing." if limited else reason
                steps.append(self._step(name, rows, why))
        return tuple(steps)

    def notes(self) -> tuple[str, ...]:
        data, cold = self._data_of(self._converted), self._cold()
        if not len(self._converted):
            return cold
        size, rows = int(self._bytes[data].sum()), int(self._records[data].sum())
        keys = int(self._records[self._converted].sum())
        notes = [
            f"A rewrite of the {plurals.count(len(data), 'data file')} that equality deletes reach would read and "
            f"write {byte_size.format_size(size)}; conversion reads only the columns that they compare, and writes "
            "positions."
        ]
        if rows and keys >= _MUCH * rows:
            notes.append(
                f"The deletes have {keys:,} keys for {rows:,} rows. Where most of them match, "
                "`iceberg-compact run --strategy delete-files` does more for readers: it takes the rows out."
            )
        return (*notes, *cold)

    def _cold(self) -> tuple[str, ...]:
        count = self._chosen.cold
        if not count:
            return ()
        stay, them = plurals.form(count, "stays", "stay"), plurals.form(count, "it", "them")
        return (
            f"{_delete_files(count)} {stay}: to merge or convert {them} would read files in a cold tier of the store, "
            "which --rewrite-cold-tiers allows.",
        )

    def _why_merged(self, rows: Ints) -> str:
        data = len(self._data_of(rows))
        unit = "each data file" if self._scope.granularity is Granularity.FILE else "the partition"
        files = plurals.count(data, "data file")
        return f"They are for {files}, some of which readers open several for; {unit} gets one, without dead rows."

    def _why_converted(self, rows: Ints) -> str:
        data = self._data_of(rows)
        count, stored = int(self._records[rows].sum()), int(self._records[data].sum())
        keys = plurals.count(count, "key")
        reach = f"{plurals.count(len(data), 'data file')} ({byte_size.format_size(int(self._bytes[data].sum()))})"
        why = f"Readers compare {keys} with each row of {reach}; positions cost them next to nothing."
        if stored and count >= _MUCH * stored:
            why += f" Up to {min(1.0, count / stored):.0%} of these rows may be deleted: to rewrite them may be better."
        return why

    def _data_of(self, rows: Ints) -> Ints:
        """The data files of the groups that replace these files, in their partitions."""
        if not len(rows):
            return np.empty(0, np.int64)
        is_mine = np.zeros(self._chosen.live.num_rows, np.bool_)
        is_mine[rows] = True
        groups = [group for group in self._chosen.groups if is_mine[group.replaced].any()]
        data = np.concatenate([group.data for group in groups])
        if np.isin(self._specs[rows], list(self._scope.global_specs)).any():
            return data
        return data[np.isin(self._chosen.parts[data], np.unique(self._chosen.parts[rows]))]

    def _lines(self, kind: str, rows: Ints, why: _Why) -> list[UpkeepStep]:
        """A line for each of the partitions with most files, and one for the others."""
        by_part: dict[int, list[int]] = defaultdict(list)
        for row, part in zip(rows.tolist(), self._chosen.parts[rows].tolist(), strict=True):
            by_part[part].append(row)
        ordered = sorted(by_part.values(), key=lambda part: (-len(part), part[0]))
        most = ordered[:_MOST_LINES] if len(ordered) > _MOST_LINES + 1 else ordered
        steps = []
        for part in most:
            own = np.array(part, np.int64)
            steps.append(self._step(f"{kind}, {self._name(part[0])}", own, why(own)))
        if rest := [row for part in ordered[len(most) :] for row in part]:
            left = plurals.count(len(ordered) - len(most), "more partition")
            own = np.array(rest, np.int64)
            steps.append(self._step(f"{kind}, {left}", own, why(own)))
        return steps

    def _step(self, name: str, rows: Ints, why: str) -> UpkeepStep:
        return UpkeepStep(name=name, count=len(rows), bytes=int(self._bytes[rows].sum()), sentence=why)

    def _name(self, row: int) -> str:
        spec = self._table.specs()[int(self._specs[row])]
        if not spec.fields:
            return "whole table"
        text = self._chosen.live["partition"][row].as_py()
        return partition_tuples.path(text, spec, self._table.schema())


def _delete_files(count: int) -> str:
    return plurals.count(count, "delete file")
