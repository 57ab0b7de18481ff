"""Replaces manifests by others with the same live entries, as one `replace` snapshot in which no file comes or goes. A
request comes in, the committed snapshot goes out. New manifests are written once, and a digest proves that they list
the same files as the old ones. They stay valid while the branch has all the old ones, whatever else is added."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.metadata import cluster_column
from iceberg_compaction.metadata.manifest import entry_fields, snapshot_manifests, written_manifests
from iceberg_compaction.model import manifest_plan
from iceberg_compaction.operations.rewrite_manifests import cluster_entries, gather_entries, manifest_swap
from iceberg_compaction.operations.rewrite_manifests.manifest_digest import Digest
from iceberg_compaction.storage import remove

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.commit.change import Committer
    from iceberg_compaction.commit.new_snapshot import NewSnapshot

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
        self._request = request
        self._swap = manifest_swap.ManifestSwap(
            pin=request.plan.pin,
            replaced=frozenset(path for group in request.plan.groups for path in group.manifests),
            planned=frozenset(source.manifest_path for source in request.sources),
            run_id=run_id,
            snapshot_id=table.metadata.new_snapshot_id(),
        )
        self.digest = Digest()

    @property
    def snapshot_id(self) -> int:
        return self._swap.snapshot_id

    @property
    def written(self) -> list[str]:
        return self._swap.written

    @property
    def made(self) -> list[written_manifests.NewManifest]:
        return self._swap.made

    @property
    def label(self) -> str:
        return f"snapshot {self.snapshot_id}"

    def prepare(self, table: Table) -> None:
        """Writes the new manifests, and proves that they list the same files as the old ones."""
        by_path = {source.manifest_path: source for source in self._request.sources}
        metadata = table.metadata
        for group in self._request.plan.groups:
            clustering = gather_entries.ManifestClustering(
                writing=self._swap.writing(table),
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
            self.made.extend(clustered.manifests)
            self.digest += clustered.digest

    def stage(self, table: Table, now_ms: int) -> NewSnapshot:
        """Writes the manifest list for the branch as it is now."""
        properties = {**self._request.snapshot_properties, ENTRIES_PROCESSED: str(self.digest.entries)}
        return self._swap.stage(table, now_ms, properties)


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
