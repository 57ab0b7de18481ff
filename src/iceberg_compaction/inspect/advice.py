"""What a person can do about a table, most useful first. Its figures come in, sentences go out, each naming a command,
a property or a number; none for a healthy one."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from iceberg_compaction.inspect import health_request, score
from iceberg_compaction.model import byte_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.inspect.health_request import Checkup
    from iceberg_compaction.inspect.score import Figures
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_view import TableView

TARGET_PROPERTY = "write.target-file-size-bytes"
CROWDED = 4  # files that hold a value, on average, from which on sorting is worth a thought
HEAVY_METADATA_FILE = 8 * 2**20


def advice(view: TableView, checkup: Checkup, found: TableHealth, figures: Figures) -> tuple[str, ...]:
    """All that can be said about the table as it is; `causes` says how it became so."""
    told = [f"Not supported yet: {reason.rstrip('.')}." for reason in view.unsupported]
    if checkup.sick:
        strategy = checkup.policy.strategy.value
        told.append(f"Run: iceberg-compact run --table {shlex.quote(view.table)} --strategy {strategy}")
    if checkup.worn:
        told.append(
            f"Run: iceberg-compact run --table {shlex.quote(view.table)} --strategy delete-files "
            f"--delete-file-threshold {health_request.MANY_DELETES}"
        )
    if (figures.small_files - figures.lone_small_files) * 2 > figures.data_files:
        told.append(_sizes(view, checkup, found))
    told += _deletes(found)
    if figures.manifests > figures.fair_manifests:
        told.append(
            f"{figures.manifests:,} manifests for {figures.data_files + figures.delete_files:,} files slow planning "
            "down; check that commit.manifest-merge.enabled is true."
        )
    told += _layout(found, checkup)
    told += _past(found, checkup)
    return tuple(told)


def _sizes(view: TableView, checkup: Checkup, found: TableHealth) -> str:
    target = byte_size.format_size(checkup.sizes.target)
    if checkup.policy.target_file_size_bytes is not None:
        origin = f"The target asked for is {target}"
    elif TARGET_PROPERTY in view.properties:
        origin = f"{TARGET_PROPERTY} is {target}"
    else:
        origin = f"{TARGET_PROPERTY} is not set, so the target is {target}"
    mean = byte_size.format_size(found.mean_file_bytes)
    return f"{origin}, but files have {mean} on average: let the writer commit less often."


def _deletes(found: TableHealth) -> Iterator[str]:
    deletes = found.deletes
    if not deletes.files:
        return
    kinds = {
        "position": deletes.position_files,
        "equality": deletes.equality_files,
        "deletion vectors": deletes.vectors,
    }
    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    met = ""
    if deletes.per_data_file_mean is not None:
        met = f", {deletes.per_data_file_mean:.1f} for a data file on average and {deletes.per_data_file_max:,} at most"
    if deletes.files > (deletes.dangling_files or 0):
        yield f"{deletes.files:,} delete files ({listed}) are applied whenever the table is read{met}."
    if deletes.dangling_files:
        yield f"{deletes.dangling_files:,} delete files apply to no data file any more: a run drops them."
    if deletes.deleted_row_ratio >= 0.1:
        yield f"{deletes.deleted_row_ratio:.0%} of the rows are deleted, but still stored and read."


def _layout(found: TableHealth, checkup: Checkup) -> Iterator[str]:
    if found.stale_spec_ratio:
        old = sum(spec.files for spec in found.specs if not spec.current)
        yield (
            f"{old:,} of {found.data_files:,} data files are of an older partition spec, so filters on the current "
            "partition fields skip fewer of them."
        )
    clustering = found.clustering
    # Many small files overlap anyway; compaction comes first.
    if clustering is None or clustering.column is None or checkup.sick or found.small_ratio >= 0.5:
        return
    if clustering.depth >= CROWDED:
        yield (
            f"A value of {clustering.column} lies in the range of {clustering.depth:.1f} files of its partition on "
            f"average; if queries filter on it, sort by it: ALTER TABLE {found.table} WRITE ORDERED BY "
            f"{clustering.column}, then rewrite."
        )


def _past(found: TableHealth, checkup: Checkup) -> Iterator[str]:
    if found.snapshots > score.MANY_SNAPSHOTS:
        yield (
            f"{found.snapshots:,} snapshots are kept, and the files of all of them; expire old ones, in Spark by "
            f"CALL system.expire_snapshots(table => '{found.table}'). history.expire.max-snapshot-age-ms and "
            "history.expire.min-snapshots-to-keep say what is kept."
        )
    heavy = checkup.history.metadata_file_bytes if checkup.history else None
    if heavy is not None and heavy > HEAVY_METADATA_FILE:
        yield (
            f"The metadata file has {byte_size.format_size(heavy)} and is written anew with every commit; fewer "
            "snapshots make it smaller."
        )
