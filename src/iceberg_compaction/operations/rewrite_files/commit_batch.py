"""The commit of one batch. Proved groups come in; what became of each is entered in the ledger, and files of groups
that surely did not become part of the table are removed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.model import events, file_group
from iceberg_compaction.operations import run_facts
from iceberg_compaction.operations.rewrite_files import table_figures
from iceberg_compaction.operations.rewrite_files.change import replace_files, validate_replace
from iceberg_compaction.operations.rewrite_files.groups import prove_groups

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.rewrite_files.groups.collect_groups import Batch
    from iceberg_compaction.operations.rewrite_files.staged_files import StagedFiles
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.checkpoint.open_checkpoint import OpenCheckpoint
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommits:
    """All that the commits of a plan share."""

    table: Table
    plan: Plan
    run: Run
    ledger: Ledger
    checkpoint: OpenCheckpoint | None = None

    def commit(self, batch: Batch, staged: StagedFiles) -> None:
        """Publish the groups. Once this begins, their files are removed only if they surely did not land. Raises
        ConflictError if nothing of the plan can land any more; what of this batch conflicts is only entered."""
        self.run.emit(events.Committing(table=self.plan.table, run_id=self.run.run_id, groups=len(batch.groups)))
        if self.checkpoint is not None:
            self.checkpoint.flush()
        staged.hold(batch.staged)
        try:
            result = replace_files.replace(self.table, self._request(batch), self.run.finishing())
        except errors.StateUnknownError as error:
            self.ledger.doubt([group.id for group in batch.groups], str(error))
            raise
        except errors.ConflictError as error:
            staged.release(batch.staged)
            self.ledger.conflict({group.id: error.conflicts.get(group.id, str(error)) for group in batch.groups})
            self._check_others()
        except errors.CompactionError:
            staged.release(batch.staged)
            raise
        except BaseException as error:  # neither the catalog's word nor ours, so that nobody knows how far it came
            sentence = f"The commit was interrupted ({type(error).__name__})."
            self.ledger.doubt([group.id for group in batch.groups], sentence)
            raise
        else:
            self._enter(batch, result)
            staged.release(file for group in batch.groups if group.id in result.conflicts for file in group.staged)
            self._emit_committed(result)

    def _request(self, batch: Batch) -> replace_files.ReplaceRequest:
        groups = tuple(
            replace_files.ReplaceGroup(
                id=group.id,
                removed=self.plan.files.slice(group.row["first"], group.row["files"]),
                partitions=file_group.partition_keys(group.row),
                added=group.staged,
                deleted_records=group.proof.deleted_rows,
            )
            for group in batch.groups
        )
        return replace_files.ReplaceRequest(
            pin=self.plan.pin,
            groups=groups,
            snapshot_properties=prove_groups.snapshot_properties(self.plan, self.run, batch=batch.number),
            operation=Operation.REPLACE if self.plan.past_rows is None else Operation.OVERWRITE,
            tidies=self.plan.useless_deletes > 0 and not self.ledger.commits,  # once will do: it looks at all files
            group_properties=lambda landed: prove_groups.group_properties(
                [group for group in batch.groups if group.id in set(landed)]
            ),
        )

    def _enter(self, batch: Batch, result: replace_files.CommitResult) -> None:
        groups = [group for group in batch.groups if group.id in set(result.landed)]
        added = [file for group in groups for file in group.staged]
        self.ledger.enter_commit(
            run_facts.CommitFacts(
                snapshot_id=result.snapshot_id,
                groups=tuple(group.id for group in groups),
                files_added=len(added),
                bytes_added=sum(file.file_size_in_bytes for file in added),
                proof=prove_groups.together(group.proof for group in groups),
                effort=prove_groups.all_efforts(group.effort for group in groups),
                attempts=result.attempts,
                removed_delete_files=result.removed_delete_files,
            )
        )
        self.ledger.conflict(result.conflicts)
        if self.ledger.figures is not None:
            change = table_figures.of_groups(self.plan, groups, result)
            self.ledger.figures = table_figures.after(self.ledger.figures, self.plan.sizes, change)

    def _emit_committed(self, result: replace_files.CommitResult) -> None:
        self.run.emit(
            events.Committed(
                table=self.plan.table,
                run_id=self.run.run_id,
                snapshot_id=result.snapshot_id,
                groups=len(set(result.landed)),
                attempts=result.attempts,
                after=self.ledger.figures,
            )
        )

    def _check_others(self) -> None:
        """After a batch of which nothing landed: raises ConflictError if no other batch of the plan can land either,
        so that nothing is rewritten in vain."""
        try:
            validate_replace.check_history(publish.reload(self.table).metadata, self.plan.pin)
        except errors.CatalogError as error:
            _log.warning("Whether other groups can still be committed could not be looked up: %s", error)
