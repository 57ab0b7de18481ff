"""The health of a table from metadata alone: the view of the table and a checkup come in, `TableHealth` goes out. Pure:
reads nothing. docs/reference/health.md states every formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.inspect import (
    advice,
    causes,
    delete_cost,
    file_census,
    growth,
    histogram,
    overlap,
    partition_figures,
    prevention,
    score,
    writers,
)
from iceberg_compaction.model.table_health import SpecShare, TableHealth

if TYPE_CHECKING:
    from iceberg_compaction.inspect.file_census import Census
    from iceberg_compaction.inspect.health_request import Checkup
    from iceberg_compaction.inspect.partition_figures import PartitionFigures
    from iceberg_compaction.model.table_view import TableView

_MANIFEST_TARGET = "commit.manifest.target-size-bytes"
_DEFAULT_MANIFEST_TARGET = 8 * 2**20


def assess(view: TableView, checkup: Checkup) -> TableHealth:
    """Health of a table."""
    census = file_census.take(view)
    bars = histogram.edges(checkup.sizes)
    partitions = partition_figures.measure(census, bars)
    figures = _figures(view, census, partitions)
    parts = score.parts(figures)
    points, note = score.score(parts, sick=checkup.sick or checkup.delete_heavy, supported=not view.unsupported)
    clustered, depths = overlap.clustering(view, census)
    specs = _specs(view, census, partitions)
    total = int(partitions.bytes.sum())
    health = TableHealth(
        table=view.table,
        snapshot_id=view.pin.snapshot_id if view.pin else None,
        format_version=view.pin.format_version if view.pin else None,
        data_files=figures.data_files,
        delete_files=figures.delete_files,
        records=figures.records,
        bytes=total,
        mean_file_bytes=total // max(1, figures.data_files),
        target_file_bytes=checkup.sizes.target,
        small_files=figures.small_files,
        small_ratio=delete_cost.ratio(figures.small_files, figures.data_files),
        large_files=figures.large_files,
        partitions=partitions.with_data,
        **_surroundings(view, checkup),
        histogram=histogram.histogram(bars, partitions.files_by_size.sum(axis=0), partitions.bytes_by_size.sum(axis=0)),
        deletes=delete_cost.deletes(census, checkup.applied),
        clustering=clustered,
        specs=specs,
        stale_spec_ratio=delete_cost.ratio(figures.stale_spec_files, figures.data_files),
        worst_partitions=partition_figures.worst(partitions, census, checkup.worst, depths),
        score=points,
        score_parts=parts,
        score_note=note,
        sick=checkup.sick or checkup.delete_heavy,
        advice=(),
        maintainers=checkup.maintainers,
        unsupported=view.unsupported,
    )
    health = health.model_copy(update={"advice": advice.advice(view, checkup, health, figures)})
    return _with_past(health, view, checkup, census)


def _figures(view: TableView, census: Census, partitions: PartitionFigures) -> score.HealthFigures:
    pin = view.pin
    return score.HealthFigures(
        data_files=len(census.sizes),
        delete_files=sum(len(part) for part in census.deletes),
        small_files=int(partitions.small.sum()),
        lone_small_files=partitions.with_small,
        large_files=int(partitions.large.sum()),
        manifests=view.manifests,
        snapshots=view.snapshots,
        records=census.records,
        deleted_rows=int(partitions.deleted_rows.sum()),
        stale_spec_files=sum(spec.files for spec in _specs(view, census, partitions) if pin and not spec.current),
    )


def _specs(view: TableView, census: Census, partitions: PartitionFigures) -> tuple[SpecShare, ...]:
    """The partition specs of the data files, the current one first."""
    by_spec = census.partition_keys.specs()
    files = np.bincount(by_spec, weights=partitions.files).astype(np.int64)
    size = np.bincount(by_spec, weights=partitions.bytes).astype(np.int64)
    current = view.pin.spec_id if view.pin else None
    shares = [
        SpecShare(spec_id=spec_id, files=int(files[spec_id]), bytes=int(size[spec_id]), current=spec_id == current)
        for spec_id in np.flatnonzero(files).tolist()
    ]
    return tuple(sorted(shares, key=lambda spec: (not spec.current, -spec.spec_id)))


def _surroundings(view: TableView, checkup: Checkup) -> dict[str, int | None]:
    """Counts and bytes of manifests, snapshots and metadata files."""
    target = view.properties.get(_MANIFEST_TARGET, "")
    half = (int(target) if target.isdigit() else _DEFAULT_MANIFEST_TARGET) // 2
    manifest_bytes, history = sum(view.manifest_sizes), checkup.history
    own = history.metadata_file_bytes if history else None
    return {
        "manifests": view.manifests,
        "manifest_bytes": manifest_bytes,
        "small_manifests": sum(size < half for size in view.manifest_sizes),
        "snapshots": view.snapshots,
        "refs": view.refs,
        "metadata_files": history.metadata_files if history else 0,
        "metadata_bytes": None if own is None else own + manifest_bytes,
    }


def _with_past(health: TableHealth, view: TableView, checkup: Checkup, census: Census) -> TableHealth:
    """The same with writers, growth, causes and fixes."""
    if checkup.history is not None:
        snapshots = checkup.history.snapshots
        commits = writers.group(snapshots)
        past = {
            "writers": writers.writers(commits, census, checkup.sizes),
            "growth": growth.growth(commits, snapshots),
        }
        health = health.model_copy(update=past)
    remedies = {
        "causes": causes.causes(health, checkup.sizes),
        "fixes": prevention.fixes(health, checkup, view.properties),
    }
    return health.model_copy(update=remedies)
