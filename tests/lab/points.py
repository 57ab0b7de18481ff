"""Where a compaction may die: every step from planning to the last line in the run store, by the function that does it.
The table of tests.lab.scene has three groups, so that a run makes three commits: of a function that is called once
for each, the first call is in the first, and so on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

_HOUSE = "iceberg_compaction."


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The n-th call of a function, and whether death comes before or after it."""

    name: str
    target: str
    when: str
    nth: int = 1
    meddle: str = ""  # another writer comes in between, see tests.lab.meddle
    manifests: bool = False  # while manifests are rewritten

    @property
    def doubtful(self) -> bool:
        """Whether table metadata with a snapshot is left that nobody can tell from metadata which was published, and
        taken back when the catalog entry was made anew: then the run's files stay."""
        return self.name in _DOUBTFUL


_DOUBTFUL = {
    "table metadata is written and not swapped in",
    "metadata of the second commit is written and not swapped in",
    "metadata with joined manifests is written and not swapped in",
}


def _point(name: str, target: str, when: str, nth: int = 1, meddle: str = "") -> Point:
    return Point(
        name=name,
        target=target if target.startswith("pyiceberg.") else _HOUSE + target,
        when=when,
        nth=nth,
        meddle=meddle,
    )


_STORE, _FILE = "record.sql_store.SqlStore.", "execute.worker.output_file.EncodedFile."
_METADATA = "pyiceberg.catalog.MetastoreCatalog._write_metadata"

PLANNING = [
    _point("the table is loaded", "catalog.tables.load_table", "after"),
    _point("before the inventory", "metadata.inventory.take_inventory", "before"),
    _point("what was read is about to be cached", "metadata.cache.Cache.store", "before"),
    _point("what was read is cached", "metadata.cache.Cache.store", "after"),
    _point("the inventory is taken", "metadata.inventory.take_inventory", "after"),
    _point("the plan is made", "plan.build.build", "after"),
    _point("before the run is in the journal", _STORE + "begin", "before"),
    _point("the run is in the journal", _STORE + "begin", "after"),
    _point("tasks are about to be handed out", "execute.worker.context.build_context", "after"),
]
REWRITING = [
    _point("first task begins", "execute.worker.rewrite.rewrite", "before"),
    _point("a file is open and empty", _FILE + "write", "before"),
    _point("a file has rows and no footer", _FILE + "write", "after"),
    _point("a file is about to be closed", _FILE + "finish", "before"),
    _point("a file is closed", _FILE + "finish", "after"),
    _point("footers are read back", "execute.worker.verify.read_footers", "after"),
    _point("first task ends", "execute.worker.rewrite.rewrite", "after"),
    _point("a file of the second group has rows and no footer", _FILE + "write", "after", 2),
    _point("last task ends", "execute.worker.rewrite.rewrite", "after", 3),
]
COMMITTING = [
    _point("first commit begins", "commit.replace.replace", "before"),
    _point("first manifest is about to be written", "metadata.manifests.write_bytes", "before"),
    _point("first manifest is written", "metadata.manifests.write_bytes", "after"),
    _point("a later manifest is written", "metadata.manifests.write_bytes", "after", 5),
    _point("manifest list is about to be written", "metadata.manifests.write_list", "before"),
    _point("manifest list is written", "metadata.manifests.write_list", "after"),
    _point("before the journal hears of the snapshot", _STORE + "publishing", "before"),
    _point("the journal has heard of the snapshot", _STORE + "publishing", "after"),
    _point("before table metadata is written", _METADATA, "before"),
    _point("table metadata is written and not swapped in", _METADATA, "after"),
    _point("first snapshot has landed", "catalog.publish.publish", "after"),
    _point("first commit ends", "commit.replace.replace", "after"),
    _point("second commit begins", "commit.replace.replace", "before", 2),
    _point("second manifest list is written", "metadata.manifests.write_list", "after", 2),
    _point("metadata of the second commit is written and not swapped in", _METADATA, "after", 2),
    _point("second snapshot has landed", "catalog.publish.publish", "after", 2),
    _point("last snapshot is about to be published", "catalog.publish.publish", "before", 3),
    _point("last snapshot has landed", "catalog.publish.publish", "after", 3),
]
ENDING = [
    _point("before the run leaves the journal", _STORE + "finish", "before"),
    _point("the run has left the journal", _STORE + "finish", "after"),
    _point("before the run is remembered", _STORE + "save", "before"),
    _point("the run is remembered", _STORE + "save", "after"),
]
# Another writer came first: attempts are repeated, groups are in conflict, and there is something to remove.
CONTENDED = [
    _point("the race is lost", "catalog.publish.reload", "before", 2, "append"),
    _point("second attempt is staged", "metadata.manifests.write_list", "after", 2, "append"),
    _point("second attempt has landed", "catalog.publish.publish", "after", 2, "append"),
    _point("before the first attempt is removed", "storage.remove.remove_files", "before", 1, "append"),
    _point("the first attempt is removed", "storage.remove.remove_files", "after", 1, "append"),
    _point("before manifests of a conflict are removed", "storage.remove.remove_files", "before", 1, "delete"),
    _point("some manifests of a conflict are removed", "storage.remove._remove", "after", 3, "delete"),
    _point("before data files of a conflict are removed", "storage.remove.remove_files", "before", 2, "delete"),
    _point("data files of a conflict are removed", "storage.remove.remove_files", "after", 2, "delete"),
    _point("what conflicted is planned anew", "plan.build.build", "after", 2, "delete"),
]
POINTS = [*PLANNING, *REWRITING, *COMMITTING, *ENDING, *CONTENDED]
# A rewrite of manifests dies; of the table's delete manifests it makes one.
MANIFESTS = [
    dataclasses.replace(_point(name, target, when, nth, meddle), manifests=True)
    for name, target, when, nth, meddle in (
        ("manifests are about to be joined", "metadata.manifest_cluster.cluster", "before", 1, ""),
        ("manifests are joined", "metadata.manifest_cluster.cluster", "after", 1, ""),
        ("joined manifests are read back", "metadata.manifest_cluster.read_back", "after", 1, ""),
        ("the list of joined manifests is written", "metadata.manifests.write_list", "after", 1, ""),
        ("the journal has heard of joined manifests", _STORE + "publishing", "after", 1, ""),
        ("metadata with joined manifests is written and not swapped in", _METADATA, "after", 1, ""),
        ("joined manifests have landed", "catalog.publish.publish", "after", 1, ""),
        ("joined manifests have landed at the second attempt", "catalog.publish.publish", "after", 2, "append"),
    )
]
# A second run dies while it removes what a first one left behind.
SETTLING = [
    _point("leftovers are about to be looked for", "catalog.listing.list_files", "before"),
    _point("leftovers are found", "catalog.listing.list_files", "after"),
    _point("the dead run is taken over", _STORE + "take_over", "after"),
    _point("what the table knows is read", "metadata.reachable.names", "after"),
    _point("one leftover is removed", "storage.remove._remove", "after"),
    _point("leftovers are removed", "storage.remove.remove_files", "after"),
]
BY_NAME = {point.name: point for point in [*POINTS, *SETTLING]}
# A catalog on a server writes table metadata itself; before the first file is written all is as with any other.
REST = [point for point in [*REWRITING, *COMMITTING, *CONTENDED] if point.target != _METADATA]
# For Iceberg Java: one of each class of state that a crash may leave a table in.
CLASSES = [
    BY_NAME[name]
    for name in (
        "last task ends",
        "table metadata is written and not swapped in",
        "first snapshot has landed",
        "second attempt has landed",
        "what conflicted is planned anew",
    )
]
