"""The operation `orphans`: files that nothing of a table refers to go into quarantine, or are deleted on explicit word.
Before every batch the table is loaded again: what has become part of it meanwhile stays (R50)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.model import byte_size, events, orphan_plan, outcome, plurals, times
from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhoods
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.orphans import (
    orphan_uploads,
    plan_orphans,
    quarantine,
    references,
    scan_folders,
)
from iceberg_compaction.record import journal
from iceberg_compaction.storage import remove

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.orphan_plan import OrphanFiles, OrphanPlan
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

BATCH = 1000  # files between two looks at the table


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphans(BeginsAnew):
    """Move the orphans of a table into quarantine, or delete them."""

    table: str
    goal: orphan_plan.OrphanGoal = field(default_factory=orphan_plan.OrphanGoal)
    to_quarantine: bool = True
    quarantine: str | None = None  # a folder; None: one in the table's location
    given: orphan_plan.OrphanPlan | None = None  # a plan that was made before; nothing goes that it does not name
    neighbourhoods: Neighbourhoods = field(default_factory=Neighbourhoods)
    branch: str = "main"
    engines: EngineFactory | None = None  # that may list folders
    spread_from: int = plan_orphans.MANY_FILES  # files of the table for an engine to list folders; 0: it always does

    @property
    def command(self) -> str:
        return journal.command_line("orphans remove", self.table, self.branch)

    def with_engines(self, engines: EngineFactory) -> RemoveOrphans:
        return replace(self, engines=engines)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[OrphanPlan]:
        """List and compare. Writes nothing."""
        if self.given is not None and self.given.table_uuid != str(table.metadata.table_uuid):
            raise errors.StalePlanError(f"The plan was made for another table than {self.table} is now; plan again.")
        request = plan_orphans.OrphanRequest(
            table=self.table,
            goal=self.goal,
            quarantine=self.quarantine,
            neighbourhoods=self.neighbourhoods,
            to_quarantine=self.to_quarantine,
            given=self.given,
            engines=self.engines,
            spread_from=self.spread_from,
        )
        plan = plan_orphans.build(request, table, run)
        figures = {"files": len(plan.files.paths), "bytes": plan.files.bytes, "groups": 0}
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence, **figures))
        return PlannedWork(plan=plan)

    def perform(
        self, planned: PlannedWork[OrphanPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        plan = planned.plan
        if plan.refusal is not None:
            raise errors.RefusedError(plan.refusal)
        work = _Work(operation=self, plan=plan, table=table, run=run)
        work.perform()
        return work.outcome()

    def idle(self, plan: OrphanPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=plan.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)


def of_plan(plan: OrphanPlan) -> RemoveOrphans:
    """The operation that performs a plan which was made before."""
    return RemoveOrphans(
        table=plan.table,
        goal=plan.goal,
        to_quarantine=plan.to_quarantine,
        quarantine=plan.quarantine,
        given=plan,
    )


@dataclass(slots=True, kw_only=True)
class _Work:
    """A plan under way."""

    operation: RemoveOrphans
    plan: OrphanPlan
    table: Table
    run: Run
    gone: int = 0
    bytes: int = 0
    needed: int = 0  # files that became part of the table since the plan was made
    left: list[str] = field(default_factory=list)  # paths that could not be moved or deleted
    absent: int = 0  # files that somebody else has removed since the plan was made
    aborted: int = 0
    referred: references.References | None = None  # of `table`, if that is not what the plan was made on

    def perform(self) -> None:
        files = self.plan.files
        for number, rows in enumerate(quarantine.batches(len(files.paths), BATCH)):
            self.run.cancel.check()
            batch = self._still_orphans(files.select(list(rows)))
            self._remove(number, batch)
            self._emit(rows.stop)
        for upload in self.plan.uploads:
            self.run.cancel.check()
            self.aborted += orphan_uploads.abort(self.table.io, upload)

    def _still_orphans(self, files: OrphanFiles) -> OrphanFiles:
        """The proof, at the moment of removal: the table as it is now refers to none of them, and no run that has begun
        meanwhile wrote one."""
        spellings = plan_orphans.spellings_of(self.table, self.plan.goal)
        current = publish.reload(self.table)
        if current.metadata_location == self.plan.metadata_location:
            kept = files
        else:
            if self.referred is None or current.metadata_location != self.table.metadata_location:
                self.referred = references.read(current, spellings)
            kept = plan_orphans.unneeded(files, self.referred)
        self.table = current
        of_runs = scan_folders.of_runs(
            pa.array(kept.paths, pa.string()), plan_orphans.unfinished_runs(current, self.run)
        )
        kept = kept.select([int(number) for number in (~of_runs).nonzero()[0]])
        self.needed += len(files.paths) - len(kept.paths)
        return kept

    def _remove(self, number: int, files: OrphanFiles) -> None:
        if not files.paths:
            return
        io = self.table.io
        if self.operation.to_quarantine:
            arrival = quarantine.Arrival(
                run_id=self.run.run_id,
                table=self.plan.table,
                table_uuid=self.plan.table_uuid,
                at_ms=self.run.clock(),
                confirm=self._still_orphans,
            )
            moved = quarantine.put(io, self.folder, number, files, arrival)
            gone, left = moved.gone, moved.left
            self.absent += moved.absent
        else:
            left = list(remove.remove_files(io, files.paths, remove.RemovalProof.ORPHAN))
            stayed = frozenset(left)
            gone = [path for path in files.paths if path not in stayed]
        self.left += left
        self.gone += len(gone)
        sizes = dict(zip(files.paths, files.sizes, strict=True))
        self.bytes += sum(sizes[path] for path in gone)

    @property
    def folder(self) -> str:
        return quarantine.folder_of(self.table, self.operation.quarantine)

    def _emit(self, done: int) -> None:
        self.run.emit(
            events.Rewriting(
                table=self.plan.table,
                run_id=self.run.run_id,
                files_done=done,
                files_total=len(self.plan.files.paths),
                bytes_done=self.bytes,
                bytes_total=self.plan.files.bytes,
            )
        )

    def outcome(self) -> outcome.Outcome:
        done = "moved to quarantine" if self.operation.to_quarantine else "deleted"
        done = f"{plurals.form(self.gone, 'was', 'were')} {done}"
        words = [f"{plurals.count(self.gone, 'orphan file')} of {byte_size.format_size(self.bytes)} {done}."]
        if self.needed:
            words.append(f"{plurals.count(self.needed, 'file')} became part of the table meanwhile and stayed.")
        if self.absent:
            words.append(f"{plurals.count(self.absent, 'file')} had been removed by somebody else.")
        if self.left:
            words.append(f"{plurals.count(len(self.left), 'file')} could not be removed, such as {self.left[0]}.")
        if self.plan.uploads:
            words.append(
                f"{self.aborted:,} of {plurals.count(len(self.plan.uploads), 'unfinished upload')} were aborted."
            )
        figures = {"files": self.gone, "bytes": self.bytes, "uploads": self.aborted, "left": len(self.left)}
        common = {
            "table": self.plan.table,
            "sentence": " ".join(words),
            "run_id": self.run.run_id,
            "plan_id": self.plan.id,
        }
        if self.left and not self.gone:
            return outcome.Failed(**common)
        return outcome.Maintained(operation="orphans", figures=figures, notes=self._notes(), **common)

    def _notes(self) -> tuple[str, ...]:
        """What can still be undone, and until when."""
        if not self.gone:
            return ()
        if not self.operation.to_quarantine:
            return ("The files were deleted and cannot be brought back.",)
        until = times.timestamptz((self.run.clock() + orphan_plan.PURGE_MS) // 1000 * 1_000_000)
        command = journal.command_line("orphans restore", self.plan.table, "main").strip("`")
        purge = journal.command_line("orphans purge", self.plan.table, "main")
        return (
            f"They are in {self.folder}/{self.run.run_id}. `{command} --run {self.run.run_id}` brings them back, until "
            f"{purge} deletes them, which it does not do before {until}.",
        )
