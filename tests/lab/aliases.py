"""A world in which one table has many names: entries in two catalogs that are registered twice, renamed, dropped, made
anew, rolled back, cloned, and registered with older metadata, while runs on them are killed or suspended on machines
whose clocks differ, with stores of runs that are shared or lost. Whatever a run does, what any entry needs stays."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.factories import reader
from tests.lab import points

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from tests.lab.points import Point

HOUR = 3_600_000
NAMES = ("db.a", "db.b", "db.c")
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2, "partial-progress": True}
IMPATIENT = {
    "commit.retry.num-retries": "1",
    "commit.retry.min-wait-ms": "1",
    "commit.status-check.num-retries": "0",
}
# Every kind of state that a run can be in: in the journal, files staged, snapshot noted, written, swapped in, told.
DEATHS = [
    points.BY_NAME[name]
    for name in (
        "the run is in the journal",
        "first task ends",
        "manifest list is written",
        "before the journal has the snapshot",
        "the journal has the snapshot",
        "table metadata is written and not in the journal",
        "table metadata is written and not swapped in",
        "first snapshot has landed",
        "the journal has the first commit",
        "first commit ends",
        "second snapshot has landed",
        "before the run leaves the journal",
        "leftovers are listed",
        "one leftover is removed",
    )
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name in a catalog."""

    lake: int
    name: str


class World:
    """Two catalogs, their entries, and the stores of runs."""

    def __init__(self, folder: Path, nursery: nurseries.Nursery, **properties: str) -> None:
        self.lakes = [lakes.file_lake(folder / "one"), lakes.file_lake(folder / "two")]
        self.stores = [folder / "store-0.db", folder / "store-1.db"]
        self.log: list[str] = []  # what happened, to be read when something went wrong
        self.old: dict[str, None] = {}  # metadata files that some entry has or had
        self._needs: dict[str, set[str]] = {}  # by metadata file
        self._nursery, self._properties = nursery, IMPATIENT | properties
        self.make(Entry(lake=0, name="db.a"))

    def close(self) -> None:
        for lake in self.lakes:
            lake.catalog.close()

    def entries(self) -> list[Entry]:
        return [
            Entry(lake=number, name=".".join(name))
            for number, lake in enumerate(self.lakes)
            for name in sorted(lake.catalog.list_tables("db"))
        ]

    def load(self, entry: Entry) -> Table:
        table = self.lakes[entry.lake].catalog.load_table(entry.name)
        self.old |= dict.fromkeys(
            [*(one.metadata_file for one in table.metadata.metadata_log), table.metadata_location]
        )
        return table

    # What people do to tables.

    def make(self, entry: Entry) -> None:
        """A table with a uuid of its own, where none of that name is."""
        catalog = self.lakes[entry.lake].catalog
        if catalog.table_exists(entry.name):
            catalog.drop_table(entry.name)
        lakes.make_table(catalog, entry.name, ROWS.schema, properties=self._properties)
        self.append(entry, 4)

    def append(self, entry: Entry, files: int) -> None:
        for _ in range(files):
            self.load(entry).append(ROWS)
            self.load(entry)

    def register(self, entry: Entry, metadata: str) -> None:
        """The entry, with this metadata, whatever it was before."""
        catalog = self.lakes[entry.lake].catalog
        if catalog.table_exists(entry.name):
            self.load(entry)
            catalog.drop_table(entry.name)
        catalog.register_table(entry.name, metadata)

    def rename(self, entry: Entry, name: str) -> None:
        self.lakes[entry.lake].catalog.rename_table(entry.name, name)

    def swap(self, one: Entry, other: Entry) -> None:
        """Two names of one catalog."""
        self.rename(one, "db.tmp")
        self.rename(other, one.name)
        self.rename(Entry(lake=one.lake, name="db.tmp"), other.name)

    def clone(self, entry: Entry, name: str) -> None:
        """A table of its own that has the data files of another one's head."""
        table = self.load(entry)
        catalog = self.lakes[entry.lake].catalog
        if catalog.table_exists(name):
            catalog.drop_table(name)
        copy = lakes.make_table(catalog, name, ROWS.schema, properties=self._properties | {"gc.enabled": "false"})
        head = table.current_snapshot()
        with copy.transaction() as change, change.update_snapshot().fast_append() as append:
            for manifest in head.manifests(table.io) if head else ():
                for found in manifest.fetch_manifest_entry(table.io):
                    append.append_data_file(found.data_file)

    def roll_back(self, entry: Entry, back: int = 1) -> None:
        table = self.load(entry)
        snapshot = table.current_snapshot()
        for _ in range(back):
            parent = snapshot.parent_snapshot_id if snapshot else None
            snapshot = (table.metadata.snapshot_by_id(parent) if parent else None) or snapshot
        if snapshot is not None and snapshot.snapshot_id != table.metadata.current_snapshot_id:
            table.manage_snapshots().set_current_snapshot(snapshot_id=snapshot.snapshot_id).commit()

    def expire(self, entry: Entry) -> None:
        """All but the heads."""
        table = self.load(entry)
        heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in heads]
        if gone:
            table.maintenance.expire_snapshots().by_ids(gone).commit()

    def branch(self, entry: Entry) -> None:
        """A branch at the head, or none any more."""
        table = self.load(entry)
        if "side" in table.metadata.refs:
            table.manage_snapshots().remove_branch("side").commit()
        elif table.metadata.current_snapshot_id is not None:
            table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()

    def clean(self, dice: random.Random | None = None) -> None:
        """Remove all or some of the metadata files that no entry has any more."""
        current = {self.load(entry).metadata_location for entry in self.entries()}
        for path in self.old:
            if path not in current and (dice is None or dice.random() < 0.5):
                Path(path.removeprefix("file://")).unlink(missing_ok=True)

    def lose(self, store: int) -> None:
        self.stores[store].unlink(missing_ok=True)

    # What we do.

    def run(self, entry: Entry, **more: Any) -> nurseries.End:
        """A run on the entry. Nothing that any entry refers to may be missing after it."""
        with_store = {"state": str(self.stores[more.pop("store", 0)])}
        point: Point | None = more.pop("point", None)
        if point is not None:
            more |= dataclasses.asdict(point.moment)
        settings = self.lakes[entry.lake].settings.model_dump_json()
        job = nurseries.Job(settings=settings, table=entry.name, options=OPTIONS, **with_store, **more)
        return self._watched(lambda: self._nursery.run(job))

    def resume(self, stopped: int) -> nurseries.End:
        """A run that was suspended goes on."""
        return self._watched(lambda: self._nursery.resume(stopped))

    def _watched(self, work: Callable[[], nurseries.End]) -> nurseries.End:
        before = {entry: self.referred(entry) for entry in self.entries()}
        end = work()
        for entry in self.entries():
            after = self.referred(entry)  # raises if metadata is missing
            needed = {path for path in before.get(entry, ()) if not path.endswith(".metadata.json")}
            for path in sorted(needed | after):
                assert Path(path).exists(), f"{path} of {entry} is gone:\n" + "\n".join(self.log)
        return end

    def referred(self, entry: Entry) -> set[str]:
        """All that the entry needs; its log of former metadata is none of it, since others may shorten that."""
        try:
            table = self.load(entry)
        except NoSuchTableError:
            return set()
        if table.metadata_location not in self._needs:
            former = {Path(one.metadata_file).name for one in table.metadata.metadata_log}
            needs = {path for path in reader.known_files(table) if Path(path).name not in former}
            self._needs[table.metadata_location] = needs
        return self._needs[table.metadata_location]

    def check_readable(self) -> None:
        for entry in self.entries():
            self.load(entry).scan().to_arrow()


class Life:
    """A world at random: things happen to it, and runs come and go."""

    def __init__(self, seed: int, folder: Path, nursery: nurseries.Nursery) -> None:
        self._dice = random.Random(seed)
        properties = {
            "format-version": self._dice.choice(["1", "2", "2", "2"]),
            "write.metadata.previous-versions-max": self._dice.choice(["1", "3", "100"]),
        }
        self.world = World(folder, nursery, **properties)
        self.world.log.append(f"seed {seed}: {properties}")
        self._shared = self._dice.random() < 0.7
        self._stopped: list[int] = []

    def close(self) -> None:
        """Whoever is still suspended never wakes up."""
        for stopped in self._stopped:
            os.kill(stopped, signal.SIGKILL)
        self.world.close()

    def live(self, steps: int) -> None:
        """So many things happen; then every entry has plain runs, on each store and by every clock."""
        for _ in range(steps):
            self._step()
        while self._stopped:
            self.world.resume(self._stopped.pop())
        for late_ms in (0, 1000 * HOUR):
            for entry in self.world.entries():
                for store in (0,) if self._shared else (0, 1):
                    self.world.log.append(f"plain run on {entry}, store {store}, {late_ms} ms late")
                    self.world.run(entry, store=store, host="last", late_ms=late_ms)
            for entry in self.world.entries():
                self.world.append(entry, 2)
        self.world.check_readable()

    def _step(self) -> None:
        world, dice = self.world, self._dice
        entries = world.entries()
        entry = dice.choice(entries)
        other = Entry(lake=dice.randrange(2), name=dice.choice(NAMES))
        known = [path for path in world.old if Path(path.removeprefix("file://")).exists()]
        free = [name for name in NAMES if Entry(lake=entry.lake, name=name) not in entries]
        beside = [one for one in entries if one.lake == entry.lake and one != entry]
        acts: list[tuple[int, str, Callable[[], Any]]] = [
            (10, f"killed run on {entry}", lambda: self._run(entry, dice.choice(DEATHS))),
            (3, f"suspended run on {entry}", lambda: self._suspend(entry)),
            (4, f"run on {entry}", lambda: self._run(entry, None)),
            (1 if self._stopped else 0, "a run wakes up", lambda: world.resume(self._stopped.pop())),
            (4, f"2 files to {entry}", lambda: world.append(entry, 2)),
            (3, f"{other} registered as {entry}", lambda: world.register(other, world.load(entry).metadata_location)),
            (3 if known else 0, f"{other} put back", lambda: world.register(other, dice.choice(known[-4:]))),
            (2, f"{entry} one commit back", lambda: self._put_back(entry)),
            (1 if free else 0, f"{entry} renamed", lambda: world.rename(entry, free[0])),
            (1 if beside else 0, f"{entry} swapped", lambda: world.swap(entry, beside[0])),
            (1, f"{other} made anew", lambda: world.make(other)),
            (1, f"{entry} cloned", lambda: world.clone(entry, "db.clone")),
            (2, f"{entry} rolled back", lambda: world.roll_back(entry, dice.randrange(1, 3))),
            (2, f"{entry} expired", lambda: world.expire(entry)),
            (1, f"{entry} branched", lambda: world.branch(entry)),
            (1, "store 0 lost", lambda: world.lose(0)),
            (1, "old metadata removed", lambda: world.clean(dice)),
        ]
        _, name, act = dice.choices(acts, [weight for weight, _, _ in acts])[0]
        world.log.append(name)
        act()

    def _put_back(self, entry: Entry) -> None:
        log = self.world.load(entry).metadata.metadata_log
        if log and Path(log[-1].metadata_file.removeprefix("file://")).exists():
            self.world.register(entry, log[-1].metadata_file)

    def _run(self, entry: Entry, point: Point | None) -> None:
        where = self._where()
        self.world.log.append(f"  at {point.name if point else '-'}, {where}")
        self.world.run(entry, point=point, manifests=self._dice.random() < 0.15, **where)

    def _suspend(self, entry: Entry) -> None:
        point = self._dice.choice(DEATHS)
        where = self._where()
        self.world.log.append(f"  at {point.name}, {where}")
        end = self.world.run(entry, point=point, stops=True, **where)
        if end.stopped:
            self._stopped.append(end.stopped)

    def _where(self) -> dict[str, Any]:
        """A machine, its clock and its store."""
        number = self._dice.randrange(3)
        late_ms = (0, 5 * HOUR, -7 * HOUR)[number]
        return {"host": f"host-{number}", "late_ms": late_ms, "store": 0 if self._shared else number % 2}
