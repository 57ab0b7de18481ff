"""A finished file becomes a staged one: its footer and the measurements of its rows come in, the metrics that its
manifest entry carries go out. For row groups that came as bytes, manifests of the inputs fill the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction.execute.worker.output import column_bounds, file_metrics
from iceberg_compaction.formats.parquet import format_fields
from iceberg_compaction.model import rewrite_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.execute.worker.copy import copied_row_groups
    from iceberg_compaction.execute.worker.output import output_file, output_plan
    from iceberg_compaction.formats.parquet import parquet_footer


_FLOATS = ("FLOAT", "DOUBLE")
_BOUNDS = {format_fields.Statistics.MIN, format_fields.Statistics.MAX}


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


def _groups_by_input(file: output_file.WrittenFile) -> dict[int, list[_InputGroup]]:
    """The row groups of each input that came as bytes, each with its place in the file."""
    groups: dict[int, list[_InputGroup]] = {}
    for copied in file.copied:
        for source in copied.sources:
            groups.setdefault(source.number, []).append(_InputGroup(copied, source, _moved_fields(copied, source)))
    return groups


class _InputGroup(NamedTuple):
    """A row group of an input, as part of a row group of the output."""

    copied: output_file.CopiedGroup
    source: copied_row_groups.Copy
    fields: frozenset[int | None]  # ids of the columns that the input has and that were not encoded from rows


def _moved_fields(copied: output_file.CopiedGroup, source: copied_row_groups.Copy) -> frozenset[int | None]:
    columns = zip(source.columns, copied.moved, strict=True)
    return frozenset(
        source.raw.leaves[column].field_id for column, is_moved in columns if is_moved and column is not None
    )


def _is_whole_input(groups: list[_InputGroup]) -> bool:
    """Whether these are all row groups of their input that have rows, and all rows of these."""
    if any(group.source.deleted for group in groups):
        return False
    return len(groups) == sum(1 for rows in groups[0].source.footer.group_rows if rows)


def _nans_by_manifest(task: rewrite_task.RewriteTask, file: output_file.WrittenFile) -> dict[tuple[int, int], int]:
    """NaNs of copied row groups by row group and field id. A manifest counts those of a whole input, which is enough
    where the count is zero, or where all of its row groups are here: then it does not matter which has how many. A
    joined row group needs the counts of all its inputs."""
    sums = _Sums()
    for number, groups in _groups_by_input(file).items():
        counts = task.nan_counts[number] if task.nan_counts else {}
        usable = {field_id: count for field_id, count in counts.items() if not count or _is_whole_input(groups)}
        for position, group in enumerate(groups):
            sums.add(group, {field_id: 0 if position else count for field_id, count in usable.items()})
    return sums.totals()


class _Sums:
    """Figures of the inputs of each row group, by field id. A figure that one of several inputs lacks is left out,
    unless the input lacks the column."""

    def __init__(self) -> None:
        self._by_group: dict[int, list[tuple[_InputGroup, dict[int, int]]]] = {}

    def add(self, group: _InputGroup, counts: dict[int, int]) -> None:
        self._by_group.setdefault(group.copied.index, []).append((group, counts))

    def totals(self) -> dict[tuple[int, int], int]:
        totals: dict[tuple[int, int], int] = {}
        for index, parts in self._by_group.items():
            for field_id in {field_id for _, counts in parts for field_id in counts}:
                present = [counts for group, counts in parts if field_id in group.fields]
                if present and all(field_id in counts for counts in present):
                    totals[index, field_id] = sum(counts[field_id] for counts in present)
        return totals


def _metrics_by_manifest(
    task: rewrite_task.RewriteTask, file: output_file.WrittenFile
) -> dict[tuple[int, int], file_metrics.ManifestMetrics]:
    """Nulls and bounds of copied columns by row group and field id. A manifest describes a whole input, so it is exact
    only if all of the input's rows are here; and nulls count once, unless a footer has counted them."""
    metrics: dict[tuple[int, int], file_metrics.ManifestMetrics] = {}
    by_input = _groups_by_input(file) if task.told else {}
    for groups in by_input.values():
        if not _is_whole_input(groups) or any(len(group.copied.sources) > 1 for group in groups):
            continue
        columns = [group.source.chunks() for group in groups]
        for field_id, (nulls, low, high) in _metrics_of_input(task, groups).items():
            if not all(field_id in chunks for chunks in columns):
                continue  # it was encoded, and measured on that way
            if any(format_fields.Statistics.NULLS in chunks[field_id].statistics for chunks in columns):
                nulls = None
            for group in groups:
                metrics[group.copied.index, field_id] = file_metrics.ManifestMetrics(nulls=nulls, low=low, high=high)
                nulls = None if nulls is None else 0
    for copied in file.copied if task.told else ():
        numbers = dict.fromkeys(source.number for source in copied.sources)
        inputs = [by_input[number] for number in numbers]
        if len(copied.sources) > 1 and all(_is_whole_input(each) and _is_all_in(each, copied) for each in inputs):
            metrics.update(
                _joined_metrics([each[0] for each in inputs], [_metrics_of_input(task, each) for each in inputs])
            )
    return metrics


def _metrics_of_input(task: rewrite_task.RewriteTask, groups: list[_InputGroup]) -> dict[int, rewrite_task.Told]:
    """Nulls and bounds of an input by its manifest. PyIceberg passes over row groups whose footers lack bounds because
    texts are long. So bounds do not count where some row groups have them and others do not."""
    source = groups[0].source
    floats = {leaf.field_id for leaf in source.raw.leaves if leaf.layout.physical in _FLOATS}
    columns = [group.source.chunks() for group in groups]
    metrics = {}
    for field_id, (nulls, low, high) in task.told[source.number].items():
        chunks = [of_group[field_id] for of_group in columns if field_id in of_group]
        is_bounded = {chunk.statistics.keys() >= _BOUNDS for chunk in chunks if not _is_null(chunk)}
        is_doubtful = len(is_bounded) > 1 and field_id not in floats
        metrics[field_id] = (nulls, None, None) if is_doubtful else (nulls, low, high)
    return metrics


def _is_null(chunk: parquet_footer.Chunk) -> bool:
    return format_fields.optional(chunk.statistics, format_fields.Statistics.NULLS) == chunk.values


def _is_all_in(groups: list[_InputGroup], copied: output_file.CopiedGroup) -> bool:
    return all(group.copied is copied for group in groups)


def _joined_metrics(
    inputs: list[_InputGroup], by_manifest: list[dict[int, rewrite_task.Told]]
) -> dict[tuple[int, int], file_metrics.ManifestMetrics]:
    """The metrics of a row group that holds whole inputs and nothing else, by the first row group of each. Inputs that
    lack a column have nulls. A column that was encoded was measured on that way."""
    rows = [group.source.footer.rows for group in inputs]
    floats = {leaf.field_id for group in inputs for leaf in group.source.raw.leaves if leaf.layout.physical in _FLOATS}
    metrics = {}
    for field_id in frozenset.union(*(group.fields for group in inputs)):
        parts = []
        for group, of_input in zip(inputs, by_manifest, strict=True):
            if field_id not in group.fields:
                parts.append(file_metrics.ManifestMetrics(nulls=group.source.footer.rows))
            elif field_id in of_input:
                nulls, low, high = of_input[field_id]
                parts.append(file_metrics.ManifestMetrics(nulls=nulls, low=low, high=high))
        if field_id is not None and len(parts) == len(inputs):
            merged = file_metrics.merge_manifest_metrics(parts, rows, floats=field_id in floats)
            metrics[inputs[0].copied.index, field_id] = merged
    return metrics
