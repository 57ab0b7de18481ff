"""Table properties that would prevent the problems of a table, each with its reason. They only affect later writes:
none of them loses history or data. A property that somebody set is changed only if its value is part of the problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.inspect import causes, score
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.policies import DEFAULT_TARGET
from iceberg_compaction.model.table_health import PropertyFix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iceberg_compaction.inspect.health_request import Checkup
    from iceberg_compaction.model.table_health import TableHealth, Writer

TARGET = "write.target-file-size-bytes"
DISTRIBUTION = "write.distribution-mode"
ROW_GROUP = "write.parquet.row-group-size-bytes"
CODEC = "write.parquet.compression-codec"
MERGE = "commit.manifest-merge.enabled"
CLEAN = "write.metadata.delete-after-commit.enabled"
VERSIONS = "write.metadata.previous-versions-max"
SAFE = frozenset({TARGET, DISTRIBUTION, ROW_GROUP, CODEC, MERGE, CLEAN, VERSIONS})

_TINY_TARGET = 32 * 2**20
_TINY_ROW_GROUP = 8 * 2**20
_DEFAULT_ROW_GROUP = 128 * 2**20
_MANY_METADATA_FILES = 50
_DEFAULT_VERSIONS = 100
# Engines that do not shuffle rows by partition unless the table asks for it. Spark does by default.
_UNSHUFFLED = ("flink", "unknown")


def fixes(health: TableHealth, checkup: Checkup, properties: Mapping[str, str]) -> tuple[PropertyFix, ...]:
    """The properties to set, the most useful first."""
    return (
        *_distribution(health, checkup, properties),
        *_target(health, properties),
        *_parquet(health, properties),
        *_metadata(health, properties),
    )


def _distribution(health: TableHealth, checkup: Checkup, properties: Mapping[str, str]) -> Iterator[PropertyFix]:
    if checkup.history is None or not checkup.history.partitioned or health.small_files <= health.partitions:
        return
    mode = properties.get(DISTRIBUTION)
    scattering = [
        writer
        for writer in causes.guilty(health)
        if causes.files_per_partition(writer) > causes.SCATTERED and _unshuffled(writer, mode)
    ]
    if scattering:
        writer = scattering[0]
        why = (
            f"{writer.name} adds {causes.files_per_partition(writer):.1f} files to each partition with every commit; "
            "with hash, rows of one partition are written by one task, and fan-out writers are not needed."
        )
        yield PropertyFix(name=DISTRIBUTION, old=mode, new="hash", why=why)


def _unshuffled(writer: Writer, mode: str | None) -> bool:
    return mode == "none" or (mode is None and writer.engine in _UNSHUFFLED)


def _target(health: TableHealth, properties: Mapping[str, str]) -> Iterator[PropertyFix]:
    target = _number(properties.get(TARGET))
    if target is not None and target < _TINY_TARGET and health.bytes > 16 * max(1, health.partitions) * target:
        why = (
            f"The target makes files of {format_size(target)}, but partitions hold "
            f"{format_size(health.bytes // max(1, health.partitions))} on average; {format_size(DEFAULT_TARGET)} is "
            "Iceberg's default."
        )
        yield PropertyFix(name=TARGET, old=properties[TARGET], new=str(DEFAULT_TARGET), why=why)


def _parquet(health: TableHealth, properties: Mapping[str, str]) -> Iterator[PropertyFix]:
    row_group = _number(properties.get(ROW_GROUP))
    if row_group is not None and row_group < _TINY_ROW_GROUP <= health.target_file_bytes // 4:
        why = f"Row groups of {format_size(row_group)} compress badly and cost a request each; 128 MiB is the default."
        yield PropertyFix(name=ROW_GROUP, old=properties[ROW_GROUP], new=str(_DEFAULT_ROW_GROUP), why=why)
    codec = properties.get(CODEC)
    if codec is not None and codec.lower() in ("uncompressed", "none", "gzip"):
        gain = "as small and much faster to read" if codec.lower() == "gzip" else "several times smaller"
        yield PropertyFix(name=CODEC, old=codec, new="zstd", why=f"Zstandard files are {gain}; it is the default.")


def _metadata(health: TableHealth, properties: Mapping[str, str]) -> Iterator[PropertyFix]:
    merge = properties.get(MERGE)
    fair = max(score.FEW_MANIFESTS, (health.data_files + health.delete_files) // score.FILES_PER_MANIFEST)
    if merge is not None and merge.lower() == "false" and health.manifests > fair:
        why = f"{health.manifests:,} manifests for {health.data_files:,} data files: every scan reads them all."
        yield PropertyFix(name=MERGE, old=merge, new="true", why=why)
    clean = properties.get(CLEAN)
    if health.metadata_files >= _MANY_METADATA_FILES and (clean or "false").lower() != "true":
        why = (
            f"{health.metadata_files:,} metadata files are tracked, and older ones stay in storage forever; "
            "with this property, a commit deletes those beyond write.metadata.previous-versions-max."
        )
        yield PropertyFix(name=CLEAN, old=clean, new="true", why=why)
    versions = _number(properties.get(VERSIONS))
    if versions is not None and versions > _DEFAULT_VERSIONS and health.metadata_files > _DEFAULT_VERSIONS:
        why = f"Each of the {health.metadata_files:,} metadata files lists all snapshots; 100 is the default."
        yield PropertyFix(name=VERSIONS, old=properties[VERSIONS], new=str(_DEFAULT_VERSIONS), why=why)


def _number(text: str | None) -> int | None:
    """The number in a property; None if it is not set or no number."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
