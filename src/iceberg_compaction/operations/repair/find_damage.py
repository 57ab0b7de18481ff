"""Finds what is wrong with a snapshot: its manifests are read and its files looked up, a few at a time. Findings go
out, at most one more than a plan holds."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.metadata.manifest import live_files
from iceberg_compaction.model import repair_plan, table_view
from iceberg_compaction.operations.repair import check_file, find_twins, read_manifests
from iceberg_compaction.operations.rewrite_manifests import manifest_digest
from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests
    from iceberg_compaction.model.repair_plan import Finding, RepairGoal
    from iceberg_compaction.operations.repair.read_manifests import ManifestRead
    from iceberg_compaction.record.runs import Run

_LOOKUPS = 16  # files at once: asking is waiting for the store


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDamage:
    """The damage of a snapshot, and how many data files were looked up for it."""

    findings: tuple[Finding, ...] = ()
    data_files: int = 0


def find(table: Table, manifests: SnapshotManifests, goal: RepairGoal, run: Run) -> FoundDamage:
    """Every damage of the snapshot, one more than a plan holds at most. Reads manifests, sizes and, if `deep`,
    footers."""
    looked_up: Counter[int] = Counter()
    search = _find(table, manifests, goal, run, looked_up)
    findings = tuple(itertools.islice(search, repair_plan.MOST_FINDINGS + 1))
    return FoundDamage(findings=findings, data_files=looked_up[table_view.DATA])


def _find(
    table: Table, manifests: SnapshotManifests, goal: RepairGoal, run: Run, looked_up: Counter[int]
) -> Iterator[Finding]:
    manifest_files, twice = find_twins.twice_listed(manifests.manifest_files)
    yield from twice
    search = find_twins.TwinSearch()
    of_manifests: list[Finding] = []

    def files() -> Iterator[check_file.ListedFile]:
        """All live files; what is wrong with manifests is noted on the way."""
        for read in look_ahead.in_order(
            lambda manifest: read_manifests.read(table.io, manifest), manifest_files, at_once=live_files.FETCHES
        ):
            run.cancel.check()
            of_manifests.extend(read.findings)
            search.add(read)
            for file in _listed(read):
                looked_up[file.content] += 1
                yield file

    checked = look_ahead.in_order(
        lambda file: check_file.check(table.io, file, deep=goal.deep), files(), at_once=_LOOKUPS
    )
    seen: set[tuple[object, ...]] = set()  # of findings, which are few: a file that is listed twice is damaged once
    for finding in itertools.chain.from_iterable(checked):
        if finding.key not in seen:
            seen.add(finding.key)
            yield finding
    yield from of_manifests
    yield from search.findings(table)


def _listed(read: ManifestRead) -> Iterator[check_file.ListedFile]:
    live = read.live
    if not live.num_rows:
        return
    columns = zip(
        live["file_path"].to_pylist(),
        manifest_digest.content(live).tolist(),
        pc.utf8_upper(live["file_format"].cast(pa.string())).to_pylist(),
        live["file_size_in_bytes"].to_pylist(),
        live["record_count"].to_pylist(),
        strict=True,
    )
    for path, content, file_format, size, records in columns:
        yield check_file.ListedFile(
            path=path,
            manifest=read.manifest.manifest_path,
            content=content,
            format=file_format,
            size=size,
            records=records,
        )
