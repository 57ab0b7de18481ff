"""The points at which a run may die: every step from the first look at the table to the last line in the run store,
each as a moment at a port (see tests.factories.ports). The table of tests.lab.scene has three groups, so that a run
makes three commits: of a call that is made once for each, the first is in the first commit, and so on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tests.factories.ports import AFTER, BEFORE, HALF_WAY, Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A moment with a name, and what happens besides."""

    name: str
    moment: Moment
    meddle: str = ""  # another writer comes in between, see tests.lab.meddle
    manifests: bool = False  # while manifests are rewritten
    deletes: bool = False  # while delete files are replaced
    only_clients: bool = False  # it is there only where clients of the catalog write table metadata

    @property
    def doubtful(self) -> bool:
        """Whether table metadata with a snapshot is left that nobody can tell from metadata which was published, and
        taken back when the catalog entry was made anew: then the run's files stay."""
        return self.only_clients and self.moment.when == AFTER


def _point(name: str, call: str, when: str, nth: int = 1, since: str = "", **more: str | bool) -> Point:
    clients = call.startswith("io.table-metadata.")
    given = {"only_clients": clients, **more}
    return Point(name=name, moment=Moment(call=call, when=when, nth=nth, since=since), **given)  # type: ignore[arg-type]


PLANNING = [
    _point("the run plans", "event.planning", BEFORE),
    _point("before the table is loaded", "catalog.load_table", BEFORE),
    _point("the table is loaded", "catalog.load_table", AFTER),
    _point("before the manifest list is read", "io.manifest-list.read", BEFORE),
    _point("a manifest is read", "io.manifest.read", AFTER),
    _point("manifest entries are about to be cached", "cache.store", BEFORE),
    _point("manifest entries are cached", "cache.store", AFTER),
    _point("before unfinished runs are read", "store.unfinished", BEFORE),
    _point("the history is read", "store.history", AFTER),
    _point("before efforts of earlier runs are read", "store.efforts", BEFORE),
    _point("the plan is made", "event.planned", AFTER),
    _point("the engine is made", "engine.open", AFTER),
    _point("before the run is in the journal", "store.begin", BEFORE),
    _point("the run is in the journal", "store.begin", AFTER),
    _point("before the run may own a checkpoint", "store.running_row", BEFORE),
    _point("before the plan is in a checkpoint", "entries.checkpoint", BEFORE),
    _point("the plan is stored and its checkpoint has no head", "entries.checkpoint-head", BEFORE),
    _point("the plan is in a checkpoint", "entries.checkpoint-head", AFTER),
    _point("tasks are about to be handed out", "engine.start", BEFORE),
]
REWRITING = [
    _point("first task begins", "engine.task", BEFORE),
    _point("a data file is read", "io.data-file.read", AFTER, since="engine.start"),
    _point("a file is about to be opened", "io.data-file.create", BEFORE),
    _point("a file is open and empty", "io.data-file.create", AFTER),
    _point("a file has half of its first bytes", "io.data-file.write", HALF_WAY),
    _point("a file has rows and no footer", "io.data-file.write", HALF_WAY, 4),
    _point("a file is about to be closed", "io.data-file.close", BEFORE),
    _point("a file is closed", "io.data-file.close", AFTER),
    _point("footers are read back", "io.data-file.read-back", AFTER),
    _point("first task ends", "engine.task", AFTER),
    _point("the end of the first task is emitted", "event.task-ended", BEFORE),
    _point("a file of the second group has rows and no footer", "io.data-file.write", HALF_WAY, 4, "event.committed"),
    _point("progress of the first group is emitted", "event.rewriting", BEFORE, 2),
    _point("last task ends", "engine.task", AFTER, 3),
]
COMMITTING = [
    _point("first commit begins", "event.committing", BEFORE),
    _point("first manifest is about to be written", "io.manifest.create", BEFORE),
    _point("first manifest is half written", "io.manifest.write", HALF_WAY),
    _point("first manifest is written", "io.manifest.close", AFTER),
    _point("a later manifest is written", "io.manifest.close", AFTER, 5),
    _point("manifest list is about to be written", "io.manifest-list.create", BEFORE),
    _point("manifest list is half written", "io.manifest-list.write", HALF_WAY, 20),
    _point("manifest list is written", "io.manifest-list.close", AFTER),
    _point("before the first results are in the checkpoint", "entries.checkpoint", BEFORE, 2),
    _point("the first results are in the checkpoint", "entries.checkpoint", AFTER, 2),
    _point("before the journal has the snapshot", "store.publishing", BEFORE),
    _point("the journal has the snapshot", "store.publishing", AFTER),
    _point("first snapshot is about to be published", "catalog.commit_table", BEFORE),
    _point("before table metadata is written", "io.table-metadata.create", BEFORE),
    _point("table metadata is half written", "io.table-metadata.write", HALF_WAY),
    _point("table metadata is written and not in the journal", "io.table-metadata.close", AFTER),
    _point("table metadata is written and not swapped in", "store.publishing", AFTER, 2, only_clients=True),
    _point("first snapshot has landed", "catalog.commit_table", AFTER),
    _point("first snapshot has landed and the journal does not have it", "store.committed", BEFORE),
    _point("the journal has the first commit", "store.committed", AFTER),
    _point("first commit ends", "event.committed", BEFORE),
    _point("second commit begins", "event.committing", BEFORE, 2),
    _point("second manifest list is written", "io.manifest-list.close", AFTER, 2),
    _point("metadata of the second commit is not swapped in", "io.table-metadata.close", AFTER, 2),
    _point("second snapshot has landed", "catalog.commit_table", AFTER, 2),
    _point("last snapshot is about to be published", "catalog.commit_table", BEFORE, 3),
    _point("last snapshot has landed", "catalog.commit_table", AFTER, 3),
]
ENDING = [
    _point("before the checkpoint is removed", "entries.checkpoint-head", BEFORE, 2),
    _point("the head of the checkpoint is removed", "entries.checkpoint-head", AFTER, 2),
    _point("before the run leaves the journal", "store.finish", BEFORE),
    _point("the run has left the journal", "store.finish", AFTER),
    _point("before the run is in the history", "store.save", BEFORE),
    _point("the run is in the history", "store.save", AFTER),
    _point("the run has finished", "event.finished", BEFORE),
]
# Another writer came first: attempts are repeated, groups are in conflict, and there is something to remove.
CONTENDED = [
    _point("the race is lost", "catalog.load_table", BEFORE, 1, "catalog.commit_table", meddle="append"),
    _point("second attempt is staged", "io.manifest-list.close", AFTER, 2, meddle="append"),
    _point("second attempt has landed", "catalog.commit_table", AFTER, 2, meddle="append"),
    _point("before the first attempt is removed", "io.manifest-list.delete", BEFORE, meddle="append"),
    _point("the first attempt is removed", "io.manifest-list.delete", AFTER, meddle="append"),
    _point("before manifests of a conflict are removed", "io.manifest.delete", BEFORE, meddle="delete"),
    _point("some manifests of a conflict are removed", "io.manifest.delete", AFTER, 3, meddle="delete"),
    _point("before data files of a conflict are removed", "io.data-file.delete", BEFORE, meddle="delete"),
    _point("data files of a conflict are removed", "io.data-file.delete", AFTER, 3, meddle="delete"),
    _point("conflicting groups are planned anew", "engine.start", BEFORE, 2, meddle="delete"),
]
POINTS = [*PLANNING, *REWRITING, *COMMITTING, *ENDING, *CONTENDED]
# A rewrite of manifests dies; of the table's delete manifests it makes one.
MANIFESTS = [
    dataclasses.replace(point, manifests=True)
    for point in (
        _point("manifests are about to be joined", "io.manifest.create", BEFORE),
        _point("manifests are half joined", "io.manifest.write", HALF_WAY),
        _point("manifests are joined", "io.manifest.close", AFTER),
        _point("joined manifests are read back", "io.manifest.read-back", AFTER),
        _point("the list of joined manifests is written", "io.manifest-list.close", AFTER),
        _point("the journal has the snapshot of joined manifests", "store.publishing", AFTER),
        _point("metadata with joined manifests is written and not swapped in", "io.table-metadata.close", AFTER),
        _point("joined manifests have landed", "catalog.commit_table", AFTER),
        _point("joined manifests have landed at the second attempt", "catalog.commit_table", AFTER, 2, meddle="append"),
    )
]
# Delete files are merged and converted, in one commit.
DELETES = [
    dataclasses.replace(point, deletes=True)
    for point in (
        _point("delete files are chosen", "event.planned", AFTER),
        _point("positions are about to be found", "engine.start", BEFORE),
        _point("a position delete file is open and empty", "io.data-file.create", AFTER),
        _point("a position delete file is half written", "io.data-file.write", HALF_WAY),
        _point("a position delete file is written", "io.data-file.close", AFTER),
        _point("the last positions are written", "event.committing", BEFORE),
        _point("manifest of position deletes is half written", "io.manifest.write", HALF_WAY),
        _point("manifests without the replaced deletes are written", "io.manifest.close", AFTER, 2),
        _point("the list with position deletes is written", "io.manifest-list.close", AFTER),
        _point("the journal has the snapshot of position deletes", "store.publishing", AFTER),
        _point("metadata with position deletes is written and not swapped in", "io.table-metadata.close", AFTER),
        _point("position deletes have landed", "catalog.commit_table", AFTER),
        _point("before the new position deletes are in the history", "store.save", BEFORE),
        _point(
            "position deletes lose a race", "catalog.load_table", BEFORE, 1, "catalog.commit_table", meddle="append"
        ),
        _point("position deletes have landed at the second attempt", "catalog.commit_table", AFTER, 2, meddle="append"),
    )
]
# A second run dies while it removes what a first one left behind.
RECOVERING = [
    _point("leftovers are about to be looked for", "event.recovering", BEFORE),
    _point("before the dead run is taken over", "store.take_over", BEFORE),
    _point("the dead run is taken over", "store.take_over", AFTER),
    _point("leftovers are listed", "catalog.load_table", BEFORE, 1, "store.take_over"),
    _point("before a leftover is removed", "io.data-file.delete", BEFORE),
    _point("one leftover is removed", "io.data-file.delete", AFTER),
    _point("leftovers are removed", "store.begin", BEFORE, 1, "io.data-file.delete"),
]
# A second run, after so long that the first one's entry in the journal needs no further look.
RECOVERED = [
    _point("before the dead run counts as recovered", "store.mark_recovered", BEFORE),
    _point("the dead run counts as recovered", "store.mark_recovered", AFTER),
]
# An undo dies. Of a run that nothing followed it is a rollback, which writes no file but table metadata.
ROLLING_BACK = [
    _point("the way back is judged", "event.planned", AFTER),
    _point("the undo is in the journal", "store.begin", AFTER),
    _point("rows are about to be compared", "engine.start", BEFORE),
    _point("rows are compared", "event.committing", BEFORE),
    _point("the journal has the rollback", "store.publishing", AFTER),
    _point("metadata of the rollback is written and not swapped in", "io.table-metadata.close", AFTER),
    _point("the rollback has landed", "catalog.commit_table", AFTER),
    _point("before the rollback is in the history", "store.save", BEFORE),
    _point("the rollback loses a race", "catalog.load_table", BEFORE, 1, "catalog.commit_table", meddle="append"),
    _point("files have come back after a lost rollback", "catalog.commit_table", AFTER, 2, meddle="append"),
]
RETURNING = [
    _point("first manifest of files that come back is half written", "io.manifest.write", HALF_WAY),
    _point("manifests of files that come back are written", "io.manifest-list.create", BEFORE),
    _point("the list of files that come back is written", "io.manifest-list.close", AFTER),
    _point("the journal has the snapshot of files that come back", "store.publishing", AFTER),
    _point("metadata with files that come back is written and not swapped in", "io.table-metadata.close", AFTER),
    _point("files have come back", "catalog.commit_table", AFTER),
    _point("before the return is in the history", "store.save", BEFORE),
    _point("the undo loses a race", "catalog.load_table", BEFORE, 1, "catalog.commit_table", meddle="append"),
    _point("files have come back at the second attempt", "catalog.commit_table", AFTER, 2, meddle="append"),
    _point("before the first attempt to undo is removed", "io.manifest-list.delete", BEFORE, meddle="append"),
]
# An expiry dies.
EXPIRING = [
    _point("the expiry is planned", "event.planned", AFTER),
    _point("the expiry is in the journal", "store.begin", AFTER),
    _point("before the removal is written down", "entries.removal", BEFORE),
    _point("the removal is written down", "entries.removal", AFTER),
    _point("the journal has the expiry", "store.publishing", AFTER),
    _point("metadata of the expiry is written and not swapped in", "io.table-metadata.close", AFTER),
    _point("the expiry has landed", "catalog.commit_table", AFTER),
    _point("before an expired data file is removed", "io.data-file.delete", BEFORE),
    _point("some expired data files are removed", "io.data-file.delete", AFTER, 3),
    _point("before an expired manifest is removed", "io.manifest.delete", BEFORE),
    _point("some expired manifests are removed", "io.manifest.delete", AFTER, 2),
    _point("before an expired manifest list is removed", "io.manifest-list.delete", BEFORE),
    _point("some expired manifest lists are removed", "io.manifest-list.delete", AFTER, 2),
    _point("before the removal is forgotten", "entries.removal", BEFORE, 2),
    _point("the removal is forgotten", "entries.removal", AFTER, 2),
    _point("the expiry loses a race", "catalog.load_table", BEFORE, 1, "catalog.commit_table", meddle="append"),
    _point("the expiry has landed at the second attempt", "catalog.commit_table", AFTER, 2, meddle="append"),
]
# Statistics are made; they have two files.
COUNTING = [
    _point("statistics are planned", "event.planned", AFTER),
    _point("values are about to be counted", "engine.start", BEFORE),
    _point("a statistics file is open and empty", "io.statistics.create", AFTER),
    _point("a statistics file is half written", "io.statistics.write", HALF_WAY),
    _point("one statistics file is written", "io.statistics.close", AFTER),
    _point("all statistics files are written", "io.statistics.close", AFTER, 2),
    _point("statistics have landed", "catalog.commit_table", AFTER),
    _point("before the statistics are in the history", "store.save", BEFORE),
    _point("statistics have landed at the second attempt", "catalog.commit_table", AFTER, 2, meddle="append"),
]
# The catalog was asked, or may have been, so that the files stay.
COUNTED = [
    _point("the journal has the statistics", "store.publishing", AFTER),
    _point("metadata with statistics is half written", "io.table-metadata.write", HALF_WAY),
    _point("metadata with statistics is written and not swapped in", "io.table-metadata.close", AFTER),
    _point("statistics lose a race", "catalog.load_table", BEFORE, 1, "catalog.commit_table", meddle="append"),
]
BY_NAME = {point.name: point for point in [*POINTS, *RECOVERING]}
# A catalog on a server writes table metadata itself; before the first file is written all is as with any other.
REST = [point for point in [*REWRITING, *COMMITTING, *CONTENDED] if not point.only_clients]
# For Iceberg Java: one of each class of state that a crash may leave a table in.
CLASSES = [
    BY_NAME[name]
    for name in (
        "last task ends",
        "table metadata is written and not swapped in",
        "first snapshot has landed",
        "second attempt has landed",
        "conflicting groups are planned anew",
    )
]
