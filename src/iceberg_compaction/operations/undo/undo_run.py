"""The operation `undo`: judges the way back, compares the rows before and after it, and commits. An undo is a rewrite,
too: the table holds the same rows before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary, spine
from iceberg_compaction.model import events, outcome, plurals
from iceberg_compaction.model.proof import Side
from iceberg_compaction.model.undo_plan import UndoPlan, UndoWay
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.past_runs import measured_files, run_commits
from iceberg_compaction.operations.rewrite_files.groups import prove_groups
from iceberg_compaction.operations.undo import judge_undo, later_deletes, undo_change
from iceberg_compaction.operations.verify import compare_partitions, recorded_proof
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.operations.undo.judge_undo import UndoRequest, WayBack
    from iceberg_compaction.record.runs import Run


@dataclass(slots=True, kw_only=True)
class UndoRun(BeginsAnew):
    """Undo a run, all of its commits or none. `despite_differences`: the replaced files come back even if the files
    that the run wrote are damaged or hold other rows."""

    request: UndoRequest
    despite_differences: bool = False
    _branch: str | None = None  # of the run, once the plan is made

    @property
    def table(self) -> str:
        return self.request.table

    @property
    def branch(self) -> str:
        return self._branch or self.request.branch or "main"

    @property
    def command(self) -> str:
        return journal.command_line(f"undo {self.request.undone_run_id}", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[UndoPlan]:
        """The way back, from metadata."""
        plan = judge_undo.plan(self.request, table, run.cache)
        self._branch = plan.branch
        figures = {"files": plan.files_added, "bytes": plan.bytes_added, "groups": 0}
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence, **figures))
        return PlannedWork(plan=plan)

    def idle(self, plan: UndoPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Conflict(table=self.table, sentence=plan.sentence, run_id=run.run_id)

    def perform(
        self, planned: PlannedWork[UndoPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        try:
            back = judge_undo.judge(self.request, table, run.cache)
        except later_deletes.UndoRefusal as refusal:
            raise errors.ConflictError(f"The run cannot be undone any more: {refusal}.") from refusal
        rows = self._compare(back, table, run, engines)
        change = undo_change.UndoChange(self.request, table, run, self._properties(table, run, rows))
        run.emit(events.Committing(table=self.table, run_id=run.run_id))
        committed = spine.commit(table, change, run.finishing())
        assert change.back is not None  # the committed attempt has judged
        result = self._outcome(change.back, change.snapshot_id, run, rows)
        head = result.head_snapshot_id
        run.emit(events.Committed(table=self.table, run_id=run.run_id, snapshot_id=head, attempts=committed.attempts))
        return result.model_copy(update={"attempts": committed.attempts})

    def _compare(self, back: WayBack, table: Table, run: Run, engines: EngineFactory) -> Side:
        """The rows that come back. Raises an error if they are not those that leave."""
        if not back.leaving.num_rows and not back.returning.num_rows:
            return Side(row_checksum=0)  # only metadata changes, and no engine has to start
        schema = table.schema()
        requests = [
            measured_files.FilesToMeasure(live=live, paths=files["file_path"].combine_chunks(), schema=schema)
            for live, files in ((back.before, back.leaving), (back.after, back.returning))
        ]
        with engines() as engine:
            leaving, returning = measured_files.measure(table, requests, engine, run)
        broken = [each.failure for each in returning if each.failure is not None]
        if broken:
            raise errors.ExecuteError(
                f"The run cannot be undone: a file that it replaced cannot be read. {broken[0].sentence}"
            )
        after, before = measured_files.total(returning), measured_files.total(leaving)
        failures = [each.failure for each in leaving if each.failure is not None]
        difference = "" if failures else compare_partitions.difference_of(after, before, schema)
        if (failures or difference) and not self.despite_differences:
            raise errors.ProofError(self._difference_words(failures, difference))
        return after

    def _difference_words(self, failures: list[Failure], difference: str) -> str:
        reason = failures[0].sentence if failures else f"{difference}."
        return (
            f"The table would not hold the same rows after the undo, so nothing was changed. {reason} "
            f"`iceberg-compact verify {self.request.undone_run_id} --table {self.table}` names the files; with "
            "--despite-differences the replaced files come back all the same."
        )

    def _properties(self, table: Table, run: Run, rows: Side) -> dict[str, str]:
        return {
            **snapshot_summary.signature(run.run_id),
            run_commits.UNDOES: self.request.undone_run_id,
            prove_groups.SCHEMA_ID: str(table.metadata.current_schema_id),
            prove_groups.PROOF_ROWS: str(rows.rows),
            prove_groups.PROOF_CHECKSUM: recorded_proof.checksum_text(rows),
        }

    def _outcome(self, back: WayBack, snapshot_id: int, run: Run, rows: Side) -> outcome.Undone:
        rolled_back = back.way is UndoWay.ROLLBACK
        head = back.target if rolled_back else snapshot_id
        files = f"{plurals.count(back.returning.num_rows, 'file')} came back for {back.leaving.num_rows:,}"
        held = plurals.count(rows.rows, "row")
        where = (
            f"the branch {back.branch} went back to snapshot {head}"
            if rolled_back
            else f"snapshot {head} replaces its files"
        )
        return outcome.Undone(
            table=self.table,
            sentence=f"Run {self.request.undone_run_id} is undone: {where}. {files}, with the same {held}.",
            run_id=run.run_id,
            undone_run_id=self.request.undone_run_id,
            way="rollback" if rolled_back else "replace",
            head_snapshot_id=head,
            snapshot_id=None if rolled_back else head,
            snapshot_ids=() if rolled_back else (head,),
            files_removed=back.leaving.num_rows,
            files_added=back.returning.num_rows,
            bytes_removed=sum(back.leaving["file_size_in_bytes"].to_pylist()),
            bytes_added=sum(back.returning["file_size_in_bytes"].to_pylist()),
            records=rows.rows,
        )
