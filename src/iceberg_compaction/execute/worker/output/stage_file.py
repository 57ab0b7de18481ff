"""A finished file becomes a staged one: its footer and the measurements of its rows come in, the metrics that its
manifest entry carries go out. For row groups that came as bytes, manifests of the inputs fill the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.output import column_bounds, file_metrics
from iceberg_compaction.formats.parquet import format_fields
from iceberg_compaction.model import rewrite_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.execute.worker.output import output_file, output_plan


def stage(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    plan: output_plan.OutputPlan,
    file: output_file.WrittenFile,
    row_checksums: Mapping[str, int],
) -> rewrite_task.StagedFile:
    """The file with all that its manifest entry needs. `row_checksums` are by path."""
    modes = column_bounds.modes(plan.schema, context.properties, context.sort_order)
    file.rows.nans.update(_nans_by_manifest(task, file))
    file.rows.by_manifest.update(_metrics_by_manifest(task, file))
    metrics = file_metrics.file_metrics(file.metadata, plan.schema, plan.columns, file.rows, modes)
    return rewrite_task.StagedFile(
        file_path=file.path,
        file_size_in_bytes=file.size,
        record_count=file.metadata.num_rows,
        spec_id=plan.spec.spec_id,
        partition=file.partition,
        column_sizes=metrics.column_sizes,
        value_counts=metrics.value_counts,
        null_value_counts=metrics.null_value_counts,
        nan_value_counts=metrics.nan_value_counts,
        lower_bounds=metrics.lower_bounds,
        upper_bounds=metrics.upper_bounds,
        split_offsets=file_metrics.split_offsets(file.metadata),
        sort_order_id=plan.order_id,
        row_checksum=row_checksums.get(file.path),
    )


def _groups_by_input(file: output_file.WrittenFile) -> dict[int, list[output_file.CopiedGroup]]:
    groups: dict[int, list[output_file.CopiedGroup]] = {}
    for group in file.copied:
        groups.setdefault(group.step.number, []).append(group)
    return groups


def _is_whole_input(groups: list[output_file.CopiedGroup]) -> bool:
    """Whether these are all row groups of their input that have rows."""
    return len(groups) == sum(1 for rows in groups[0].step.footer.group_rows if rows)


def _nans_by_manifest(task: rewrite_task.RewriteTask, file: output_file.WrittenFile) -> dict[tuple[int, int], int]:
    """NaNs of copied row groups by row group and field id. A manifest counts those of a whole input, which is enough
    where the count is zero, or where all of its row groups are here: then it does not matter which has how many."""
    nans: dict[tuple[int, int], int] = {}
    for number, groups in _groups_by_input(file).items():
        for field_id, count in (task.nan_counts[number] if task.nan_counts else {}).items():
            if not count or _is_whole_input(groups):
                nans.update({(group.index, field_id): 0 for group in groups})
                nans[groups[0].index, field_id] = count
    return nans


def _metrics_by_manifest(
    task: rewrite_task.RewriteTask, file: output_file.WrittenFile
) -> dict[tuple[int, int], file_metrics.ManifestMetrics]:
    """Nulls and bounds of copied columns by row group and field id. A manifest describes a whole input, so it is exact
    only if all of the input's rows are here; and nulls count once, unless a footer has counted them."""
    metrics: dict[tuple[int, int], file_metrics.ManifestMetrics] = {}
    for number, groups in _groups_by_input(file).items() if task.told else ():
        if not _is_whole_input(groups):
            continue
        columns = [group.step.chunks() for group in groups]
        for field_id, (nulls, low, high) in task.told[number].items():
            if not all(field_id in chunks for chunks in columns):
                continue  # it was encoded, and measured on that way
            if any(format_fields.Statistics.NULLS in chunks[field_id].statistics for chunks in columns):
                nulls = None
            for group in groups:
                metrics[group.index, field_id] = file_metrics.ManifestMetrics(nulls=nulls, low=low, high=high)
                nulls = None if nulls is None else 0
    return metrics
