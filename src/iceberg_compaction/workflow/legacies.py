"""Checkpoints that dead runs left. Before any file of a dead run is removed, its checkpoints are taken out of its
hands, so that it can add no file to them any more; the files that they name stay. A run may go on with a checkpoint
only if all runs that wrote files for it are surely over, and none of their commits can land any more (R63)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model import checkpoint
from iceberg_compaction.operations.operation import Legacy
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.checkpoint import CheckpointContent
    from iceberg_compaction.model.run_record import CatalogEntry, UnfinishedRun
    from iceberg_compaction.record.checkpoint.checkpoints import HeldHead
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """All checkpoints with files of dead runs, whoever owns them."""

    holdings: tuple[tuple[HeldHead, CheckpointContent], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of the files that must stay."""
        return frozenset(file_names.base_name(path) for _, content in self.holdings for path in content.paths())

    @property
    def writers(self) -> frozenset[str]:
        """The runs that must stay in the journal, so that their files are removed one day."""
        return frozenset(run_id for held, _ in self.holdings for run_id in held.head.writers)

    def adoptable(self, entry: CatalogEntry, over: Collection[str], in_table: frozenset[str]) -> tuple[Legacy, ...]:
        """Those that a run on this catalog entry may go on with. `over`: runs none of whose commits can land any
        more."""
        return tuple(
            Legacy(held=held, content=content, in_table=in_table)
            for held, content in self.holdings
            if held.head.owner == checkpoint.NOBODY and held.head.entry == entry and set(held.head.writers) <= set(over)
        )


def heads(run: Run, table: Table) -> list[HeldHead]:
    """The checkpoints on a table."""
    if run.store is None:
        return []
    return checkpoints.Checkpoints(run.store.entries).heads(str(table.metadata.table_uuid))


def share_commits(
    run: Run, found: Sequence[HeldHead], dead: Sequence[UnfinishedRun], table: Table
) -> list[UnfinishedRun]:
    """The dead runs, each with the commits that the others have made of a checkpoint which they share. If such a commit
    leaves this catalog entry, another one may still have it. The journal has them before the checkpoint is removed:
    later, nobody could know."""
    by_id = {each.start.run_id: each for each in dead}
    for held in found:
        writers = [by_id[run_id] for run_id in held.head.writers if run_id in by_id]
        landed = {each.start.run_id: _landed(each, table) for each in writers}
        for each in writers:
            run_id = each.start.run_id
            others = set().union(*(landed[other] for other in landed if other != run_id))
            if others and run.store is not None:
                attempt = run.store.committed_by_another(run_id, sorted(others))
                by_id[run_id] = each.model_copy(update={"attempt": attempt or each.attempt})
    return list(by_id.values())


def _landed(run: UnfinishedRun, table: Table) -> set[int]:
    """The snapshots that the run has surely committed."""
    if run.attempt is None:
        return set()
    has_last = any(snapshot.snapshot_id == run.attempt.snapshot_id for snapshot in table.metadata.snapshots)
    return set(run.attempt.may_have_landed if has_last else run.attempt.landed)


def release(run: Run, found: Sequence[HeldHead], dead: Collection[str]) -> Estate:
    """Take the checkpoints of these runs out of their hands. Old ones are removed, and nothing keeps their files."""
    if run.store is None or not found:
        return Estate()
    kept = checkpoints.Checkpoints(run.store.entries)
    concerned = [held for held in found if set(dead).intersection(held.head.writers)]
    holdings = []
    for held in concerned:
        current: HeldHead | None = held
        if held.head.owner in dead:
            current = kept.release(held)
        elif _is_worthless(held, run):
            if kept.remove(held):
                continue
            current = None
        holdings.append((held if current is None else current, kept.content(held.head)))
    return Estate(holdings=tuple(holdings))


def _is_worthless(held: HeldHead, run: Run) -> bool:
    """Whether nobody will go on with a checkpoint: it is too old, or its owner has ended and could not remove it. The
    owner is asked for last, because runs are entered in the journal before they own anything."""
    if run.store is None:
        return False
    if held.head.owner == checkpoint.NOBODY:
        return run.clock() - held.head.saved_ms >= run.store.periods.checkpoints_ms
    return not run.store.is_entered(held.head.owner)
