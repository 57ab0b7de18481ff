"""Replaces manifests by others with the same live entries, as one `replace` snapshot in which no file comes or goes. A
request comes in, the committed snapshot goes out. New manifests are written once, and a digest proves that they list
the same files as the old ones. They stay valid while the branch has all the old ones, whatever else is added."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary, spine
from iceberg_compaction.commit.new_snapshot import NewSnapshot
from iceberg_compaction.metadata import cluster_column
from iceberg_compaction.metadata.manifest import entry_fields, snapshot_manifests, written_manifests
from iceberg_compaction.model import manifest_plan, plurals
from iceberg_compaction.operations.rewrite_files.change import validate_replace
from iceberg_compaction.operations.rewrite_manifests import cluster_entries, gather_entries
from iceberg_compaction.operations.rewrite_manifests.manifest_digest import Digest
from iceberg_compaction.storage import exact_paths, file_names, remove

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.commit.change import Committer

ENTRIES_PROCESSED = "entries-processed"  # Iceberg's own names of what a rewrite of manifests did


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """The manifests to rewrite. The plan was made on the table that comes with the request."""

    plan: manifest_plan.ManifestPlan  # neither empty nor without a pin
    sources: Sequence[ManifestFile]  # the live manifests that the plan was made on, with their counts
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    on_entries: Callable[[int], None] = gather_entries.ignore_entries  # called as entries are read


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """The snapshot that was committed."""

    snapshot_id: int
    attempts: int
    manifests: int  # new ones
    digest: Digest  # of the rewritten entries


def rewrite_manifests(
    table: Table, request: RewriteRequest, run: Committer, *, on_commit: Callable[[], None] = lambda: None
) -> RewriteResult:
    """Writes, proves and commits. Raises ConflictError if others replaced the same manifests or kept winning,
    StateUnknownError if the catalog did not tell; in all cases but the last no file is left that the table does not
    use. `on_commit` is called once all is written and proved."""
    change = ManifestRewrite(table, request, run.run_id)
    try:
        with spine.naming_defects(table):
            change.prepare(table)
        on_commit()
    except BaseException:
        run.left_behind(remove.remove_files(table.io, change.written, remove.RemovalProof.NEVER_SENT))
        raise
    committed = spine.commit(table, change, run)
    return RewriteResult(
        snapshot_id=change.snapshot_id,
        attempts=committed.attempts,
        manifests=len(change.made),
        digest=change.digest,
    )


class ManifestRewrite:
    """The request as a change that may take several attempts."""

    def __init__(self, table: Table, request: RewriteRequest, run_id: str) -> None:
        assert request.plan.pin is not None  # a table without a snapshot has an empty plan
        self._request, self._pin = request, request.plan.pin
        self._replaced = frozenset(path for group in request.plan.groups for path in group.manifests)
        self._planned = frozenset(source.manifest_path for source in request.sources)
        self._numbers = itertools.count()
        self._run_id = run_id
        self.snapshot_id = table.metadata.new_snapshot_id()
        self.written: list[str] = []
        self.made: list[written_manifests.NewManifest] = []
        self.digest = Digest()

    @property
    def label(self) -> str:
        return f"snapshot {self.snapshot_id}"

    def prepare(self, table: Table) -> None:
        """Writes the new manifests, and proves that they list the same files as the old ones."""
        by_path = {source.manifest_path: source for source in self._request.sources}
        metadata = table.metadata
        for group in self._request.plan.groups:
            clustering = gather_entries.ManifestClustering(
                writing=self._writing(table, metadata),
                layout=entry_fields.ManifestLayout(
                    spec=metadata.specs()[group.spec_id],
                    schema=metadata.schema(),
                    format_version=metadata.format_version,
                ),
                content=snapshot_manifests.DELETES
                if group.content is manifest_plan.Content.DELETES
                else snapshot_manifests.DATA,
                target=self._request.plan.target_size_bytes,
                column=cluster_column.column(table),
                on_entries=self._request.on_entries,
            )
            clustered = cluster_entries.cluster([by_path[path] for path in group.manifests], clustering)
            prove(clustered.digest, cluster_entries.read_back(clustered.manifests, clustering), planned=group.entries)
            self.made += clustered.manifests
            self.digest += clustered.digest

    def stage(self, table: Table, now_ms: int) -> NewSnapshot:
        """Writes the manifest list for the branch as it is now. Manifests that came since the plan stay, in front."""
        metadata = table.metadata
        head = validate_replace.check_history(metadata, self._pin)
        manifest_files = snapshot_manifests.read(table.io, head).manifest_files
        live = [manifest for manifest in manifest_files if snapshot_manifests.has_live_files(manifest)]
        self._check_present(live)
        kept = [
            written_manifests.with_counts(table.io, manifest)
            for manifest in live
            if manifest.manifest_path not in self._replaced
        ]
        newer = [manifest for manifest in kept if manifest.manifest_path not in self._planned]
        older = [manifest for manifest in kept if manifest.manifest_path in self._planned]
        figures = snapshot_summary.SummaryFigures(
            added=written_manifests.NONE,
            removed=written_manifests.NONE,
            changed_partitions=0,
            manifests_created=len(self.made),
            manifests_kept=len(kept),
            manifests_replaced=len(self._replaced),
        )
        properties = {**self._request.snapshot_properties, ENTRIES_PROCESSED: str(self.digest.entries)}
        name = file_names.manifest_list(self._run_id, next(self._numbers), snapshot_id=self.snapshot_id)
        path = self._new_path(metadata, name)
        next_files = [*newer, *(made.to_manifest_file() for made in self.made), *older]
        sequence_number = metadata.next_sequence_number()
        written_manifests.write_list(self._writing(table, metadata), path, next_files, head, sequence_number)
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=max(now_ms, metadata.last_updated_ms),
            manifest_list=path,
            summary=snapshot_summary.summarize(figures, head.summary, properties),
            schema_id=metadata.current_schema_id,
        )
        return NewSnapshot(
            parent=metadata,
            branch=self._pin.branch,
            snapshot=snapshot,
            files=frozenset((path, *(made.path for made in self.made))),
        )

    def _check_present(self, live: Sequence[ManifestFile]) -> None:
        if missing := self._replaced - {manifest.manifest_path for manifest in live}:
            are = plurals.form(len(missing), "is", "are")
            raise errors.ConflictError(
                f"{len(missing)} of the manifests to replace {are} no longer in the table "
                f"(such as {min(missing)}), because another commit rewrote or merged them; run again."
            )

    def _writing(self, table: Table, metadata: TableMetadata) -> written_manifests.Writing:
        return written_manifests.Writing(
            io=table.io,
            snapshot_id=self.snapshot_id,
            format_version=metadata.format_version,
            codec=written_manifests.codec(metadata.properties),
            new_path=lambda: self._new_path(metadata, file_names.manifest(self._run_id, next(self._numbers))),
        )

    def _new_path(self, metadata: TableMetadata, name: str) -> str:
        path = load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(exact_paths.check_new(path, metadata.location))
        return path


def prove(old: Digest, new: Digest, *, planned: int) -> None:
    """Raises if the new manifests do not list exactly the files of the old ones."""
    if old.entries != planned:
        raise errors.MetadataError(
            f"The manifests to rewrite hold {old.entries} live files, but the plan counted {planned}; nothing was "
            "committed."
        )
    if old != new:
        raise errors.ProofError(
            f"The new manifests list {new.entries} files with {new.records} rows and {new.bytes} bytes (checksum "
            f"{new.checksum:016x}), the old ones {old.entries} with {old.records} and {old.bytes} "
            f"({old.checksum:016x}); nothing was committed."
        )
