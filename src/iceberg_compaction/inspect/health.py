"""What a table looks like, whether it is sick, and why, from metadata alone: an inventory and what else is known come
in, `TableHealth` goes out. Pure: reads nothing. docs/health.md states every formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.inspect import (
    advice,
    causes,
    clustering,
    deletes,
    growth,
    histogram,
    partitions,
    prevention,
    score,
    writers,
)
from iceberg_compaction.inspect import census as census_module
from iceberg_compaction.model.health import SpecShare, TableHealth

if TYPE_CHECKING:
    from iceberg_compaction.inspect.census import Census
    from iceberg_compaction.inspect.checkup import Checkup
    from iceberg_compaction.inspect.partitions import Partitions
    from iceberg_compaction.model.table import Inventory

_MANIFEST_TARGET = "commit.manifest.target-size-bytes"
_DEFAULT_MANIFEST_TARGET = 8 * 2**20


def assess(inventory: Inventory, checkup: Checkup) -> TableHealth:
    """Health of a table."""
    census = census_module.take(inventory)
    bars = histogram.edges(checkup.sizes)
    places = partitions.measure(census, bars)
    figures = _figures(inventory, census, places)
    parts = score.parts(figures)
    points, note = score.score(parts, sick=checkup.sick or checkup.worn, supported=not inventory.unsupported)
    clustered, depths = clustering.clustering(inventory, census)
    specs = _specs(inventory, census, places)
    total = int(places.bytes.sum())
    found = TableHealth(
        table=inventory.table,
        snapshot_id=inventory.pin.snapshot_id if inventory.pin else None,
        format_version=inventory.pin.format_version if inventory.pin else None,
        data_files=figures.data_files,
        delete_files=figures.delete_files,
        records=figures.records,
        bytes=total,
        mean_file_bytes=total // max(1, figures.data_files),
        target_file_bytes=checkup.sizes.target,
        small_files=figures.small_files,
        small_ratio=deletes.ratio(figures.small_files, figures.data_files),
        large_files=figures.large_files,
        partitions=places.with_data,
        **_surroundings(inventory, checkup),
        histogram=histogram.histogram(bars, places.files_by_size.sum(axis=0), places.bytes_by_size.sum(axis=0)),
        deletes=deletes.deletes(census, checkup.applied),
        clustering=clustered,
        specs=specs,
        stale_spec_ratio=deletes.ratio(figures.stale_spec_files, figures.data_files),
        worst_partitions=partitions.worst(places, census, checkup.worst, depths),
        score=points,
        score_parts=parts,
        score_note=note,
        sick=checkup.sick or checkup.worn,
        advice=(),
        unsupported=inventory.unsupported,
    )
    found = found.model_copy(update={"advice": advice.advice(inventory, checkup, found, figures)})
    return _with_past(found, inventory, checkup, census)


def _figures(inventory: Inventory, census: Census, places: Partitions) -> score.Figures:
    pin = inventory.pin
    return score.Figures(
        data_files=len(census.sizes),
        delete_files=sum(len(part) for part in census.deletes),
        small_files=int(places.small.sum()),
        lone_small_files=places.with_small,
        large_files=int(places.large.sum()),
        manifests=inventory.manifests,
        snapshots=inventory.snapshots,
        records=census.records,
        deleted_rows=int(places.deleted_rows.sum()),
        stale_spec_files=sum(spec.files for spec in _specs(inventory, census, places) if pin and not spec.current),
    )


def _specs(inventory: Inventory, census: Census, places: Partitions) -> tuple[SpecShare, ...]:
    """The partition specs that data files are of, the current one first."""
    by_spec = census.places.specs()
    files = np.bincount(by_spec, weights=places.files).astype(np.int64)
    size = np.bincount(by_spec, weights=places.bytes).astype(np.int64)
    current = inventory.pin.spec_id if inventory.pin else None
    found = [
        SpecShare(spec_id=spec_id, files=int(files[spec_id]), bytes=int(size[spec_id]), current=spec_id == current)
        for spec_id in np.flatnonzero(files).tolist()
    ]
    return tuple(sorted(found, key=lambda spec: (not spec.current, -spec.spec_id)))


def _surroundings(inventory: Inventory, checkup: Checkup) -> dict[str, int | None]:
    """Counts and bytes of what is around the files."""
    target = inventory.properties.get(_MANIFEST_TARGET, "")
    half = (int(target) if target.isdigit() else _DEFAULT_MANIFEST_TARGET) // 2
    manifest_bytes, history = sum(inventory.manifest_sizes), checkup.history
    own = history.metadata_file_bytes if history else None
    return {
        "manifests": inventory.manifests,
        "manifest_bytes": manifest_bytes,
        "small_manifests": sum(size < half for size in inventory.manifest_sizes),
        "snapshots": inventory.snapshots,
        "refs": inventory.refs,
        "metadata_files": history.metadata_files if history else 0,
        "metadata_bytes": None if own is None else own + manifest_bytes,
    }


def _with_past(found: TableHealth, inventory: Inventory, checkup: Checkup, census: Census) -> TableHealth:
    """Who made the table so, and how to prevent it."""
    if checkup.history is not None:
        snapshots = checkup.history.snapshots
        commits = writers.group(snapshots)
        known = {
            "writers": writers.writers(commits, census, checkup.sizes),
            "growth": growth.growth(commits, snapshots),
        }
        found = found.model_copy(update=known)
    prevented = {
        "causes": causes.causes(found, checkup.sizes),
        "fixes": prevention.fixes(found, checkup, inventory.properties),
    }
    return found.model_copy(update=prevented)
