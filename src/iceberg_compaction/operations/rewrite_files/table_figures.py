"""The table before a run and after each of its commits, in few figures: from the view that the plan was made on, and
from the files that each commit removed and added. Nothing is read for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction.inspect import histogram
from iceberg_compaction.model import events
from iceberg_compaction.model.run_figures import PartitionExtremes, PlanForecast, TableFigures
from iceberg_compaction.model.table_view import DATA
from iceberg_compaction.model.triggers import Triggers
from iceberg_compaction.plan.triggers import extremes, measures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.model.table_health import SizeBucket
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.operations.rewrite_files.change.replace_files import CommitResult
    from iceberg_compaction.operations.rewrite_files.groups.prove_groups import ProvedGroup
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

    Ints = NDArray[np.int64]

_NONE = np.array([], np.int64)


def before(view: TableView, sizes: Sizes) -> TableFigures:
    """The table as the plan saw it."""
    is_data = pc.equal(view.files["content"], DATA)
    data = view.files.filter(is_data).select(["file_size_in_bytes", "record_count", "row_groups"])
    files = data["file_size_in_bytes"].to_numpy()
    row_groups = data["row_groups"]
    return TableFigures(
        snapshot_id=view.pin.snapshot_id if view.pin else None,
        data_files=data.num_rows,
        small_files=int((files < sizes.min).sum()),
        large_files=int((files > sizes.max).sum()),
        bytes=int(files.sum()),
        records=pc.sum(data["record_count"]).as_py() or 0,
        delete_files=view.files.num_rows - data.num_rows,
        snapshots=view.snapshots,
        target_file_bytes=sizes.target,
        row_groups=None if row_groups.null_count else pc.sum(row_groups).as_py() or 0,
        histogram=_histogram(files, sizes),
        extremes=_extremes(view, sizes),
    )


def _extremes(view: TableView, sizes: Sizes) -> PartitionExtremes | None:
    """What triggers compare with, if the past of the table was looked up for them."""
    if view.past is None:
        return None
    triggers = Triggers()
    return extremes.of(measures.measure(view, sizes, triggers), sizes, triggers, view.past.now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The files of one commit."""

    snapshot_id: int
    removed: Ints  # sizes of data files
    added: Sequence[StagedFile]
    removed_row_groups: int | None  # None: some are not known
    removed_delete_files: int
    deleted_rows: int  # of the removed files, that no file has any more


def of_groups(plan: Plan, groups: Sequence[ProvedGroup], result: CommitResult) -> FileChange:
    """The files of committed groups."""
    rows = [group.row for group in groups]
    slices = [plan.files["file_size_in_bytes"].slice(row["first"], row["files"]).to_numpy() for row in rows]
    told = not any(row["untold_files"] for row in rows)
    return FileChange(
        snapshot_id=result.snapshot_id,
        removed=np.concatenate([_NONE, *slices]),
        added=[file for group in groups for file in group.staged],
        removed_row_groups=sum(row["row_groups"] for row in rows) if told else None,
        removed_delete_files=result.removed_delete_files,
        deleted_rows=sum(group.proof.deleted_rows for group in groups),
    )


def after(table: TableFigures, sizes: Sizes, change: FileChange) -> TableFigures:
    """The same table after a commit."""
    gone, come = change.removed, np.array([file.file_size_in_bytes for file in change.added], np.int64)
    steps = {
        "data_files": len(come) - len(gone),
        "small_files": int((come < sizes.min).sum()) - int((gone < sizes.min).sum()),
        "large_files": int((come > sizes.max).sum()) - int((gone > sizes.max).sum()),
        "bytes": int(come.sum()) - int(gone.sum()),
        "records": -change.deleted_rows,
        "delete_files": -change.removed_delete_files,
        "snapshots": 1,
    }
    return table.model_copy(
        update={
            **{name: max(0, getattr(table, name) + step) for name, step in steps.items()},
            "snapshot_id": change.snapshot_id,
            "extremes": None,  # no longer what they were, and partitions are not told apart here
            "row_groups": _row_groups(table, change),
            "histogram": _moved(table.histogram, _histogram(gone, sizes), _histogram(come, sizes)),
        }
    )


def after_deletes(table: TableFigures, snapshot_id: int, step: int) -> TableFigures:
    """The same table after a commit of delete files alone, which are so many more or fewer."""
    return table.model_copy(
        update={
            "snapshot_id": snapshot_id,
            "delete_files": max(0, table.delete_files + step),
            "snapshots": table.snapshots + 1,
            "extremes": None,
        }
    )


def _row_groups(table: TableFigures, change: FileChange) -> int | None:
    if table.row_groups is None or change.removed_row_groups is None:
        return None
    return max(0, table.row_groups - change.removed_row_groups + sum(len(file.split_offsets) for file in change.added))


def _moved(
    table: Sequence[SizeBucket], gone: Sequence[SizeBucket], come: Sequence[SizeBucket]
) -> tuple[SizeBucket, ...]:
    return tuple(
        bar.model_copy(
            update={
                "files": max(0, bar.files - old.files + new.files),
                "bytes": max(0, bar.bytes - old.bytes + new.bytes),
            }
        )
        for bar, old, new in zip(table, gone, come, strict=True)
    )


def forecast(plan: Plan | EmptyPlan) -> PlanForecast:
    """The expectations of a plan."""
    rates = plan.copying.rates
    return PlanForecast(
        files=plan.input_files,
        bytes=plan.input_bytes,
        groups=len(plan.groups),
        output_files=plan.output_files,
        copied_bytes=plan.copying.copied_bytes,
        core_seconds=plan.copying.core_seconds,
        measured=any(rate.runs for rate in (rates.encoding, rates.copying, rates.joining)),
        cost=plan.cost.cost,
        saving=plan.cost.saving,
        currency="USD",
    )


def emit_planned(plan: Plan | EmptyPlan, view: TableView, run: Run, ledger: Ledger) -> None:
    """Inform of a plan, and of the table that it was made on."""
    table = ledger.figures = before(view, plan.sizes)
    run.emit(
        events.Planned(
            table=plan.table,
            run_id=run.run_id,
            sentence=plan.sentence,
            files=plan.input_files,
            bytes=plan.input_bytes,
            groups=len(plan.groups),
            forecast=forecast(plan),
            before=table,
        )
    )


def _histogram(files: Ints, sizes: Sizes) -> tuple[SizeBucket, ...]:
    bars = histogram.edges(sizes)
    bar = bars.bar_of(files)
    counts = np.bincount(bar, minlength=len(bars.lows))
    totals = np.bincount(bar, weights=files, minlength=len(bars.lows)).astype(np.int64)
    return histogram.histogram(bars, counts, totals)
