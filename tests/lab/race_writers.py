"""Those who work on the race lab's table at the same time, each a process of its own: appends, deletes of both kinds,
expiry, our compactions, Iceberg Java's. Writers say in a log what landed, in which snapshot; so it is known what rows
every snapshot must have. Rows have unique names, so that no two are alike although ids come again."""

from __future__ import annotations

import json
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError
from tests.factories import manifests, reader
from tests.lab import scene

from iceberg_compaction import CompactionError, Compactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

NAME = "db.t"
DAYS, IDS = 6, 600  # days are partitions; a row's day is its id modulo their number
EVERY = 10  # of so many snapshots one is read and compared
_AGAIN = 40  # times that a writer tries to commit


@dataclass(slots=True, kw_only=True)
class Place:
    """Where the lab is, and for how long."""

    folder: Path
    ends: float  # by the clock of time.monotonic, which all processes share
    retention_s: float
    seed: int
    _catalog: SqlCatalog | None = field(default=None, init=False)

    @property
    def catalog(self) -> SqlCatalog:
        """A connection for this process; to be used after it was forked only."""
        if self._catalog is None:
            where = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
            self._catalog = SqlCatalog("lake", **where)
        return self._catalog

    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def turns(self, role: str, least: int, pause: float) -> Iterator[tuple[int, random.Random]]:
        """Numbers of turns until the time is up, but not fewer than `least`, with pauses of that length or so."""
        dice = random.Random(f"{self.seed} {role}")
        turn = 0
        while turn < least or time.monotonic() < self.ends:
            yield turn, dice
            turn += 1
            time.sleep(pause * dice.uniform(0.5, 1.5))

    def log(self, role: str, **entry: Any) -> None:
        with (self.folder / "logs" / f"{role}.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def logs(self, role: str = "*") -> list[dict[str, Any]]:
        paths = sorted((self.folder / "logs").glob(f"{role}.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def make_table(place: Place) -> None:
    (place.folder / "logs").mkdir(parents=True)
    place.catalog.create_namespace("db")
    properties = {**scene.IMPATIENT, "commit.retry.num-retries": "20", "commit.retry.max-wait-ms": "500"}
    place.catalog.create_table(NAME, scene.SCHEMA, partition_spec=scene.BY_DAY, properties=properties)


def append(place: Place, pause: float, least: int) -> None:
    """A stream of small files, of one day or of several. Ids come again and again."""
    for turn, dice in place.turns("append", least, pause):
        days = dice.sample(range(DAYS), dice.randint(1, DAYS))
        ids = [dice.randrange(IDS // DAYS) * DAYS + dice.choice(days) for _ in range(dice.randint(4, 24))]
        rows = [(number, number % DAYS, f"{turn}.{place_in}") for place_in, number in enumerate(ids)]
        token = uuid.uuid4().hex
        given = pa.table([list(column) for column in zip(*rows, strict=True)], schema=scene.ROWS)

        def work(table: Table, given: pa.Table = given, token: str = token) -> Snapshot:
            table.append(given, snapshot_properties={"race.token": token})
            return next(one for one in table.snapshots() if one.summary and one.summary.get("race.token") == token)

        landed = _insist(place, work)
        place.log("append", op="append", sequence=landed.sequence_number, rows=rows)


def delete_positions(place: Place, pause: float, least: int) -> None:
    """Rows of one or two live data files are deleted by their positions, in a file that is for one data file or for the
    whole partition. The files are live when that is committed, as Java's `validateDataFilesExist` makes sure."""
    files = reader.Reader()
    for _, dice in place.turns("position", least, pause):

        def work(table: Table, dice: random.Random = dice) -> tuple[Snapshot, list[Any]] | None:
            head = table.current_snapshot()
            data = [file for file in files.live(table, head) if not file["content"]] if head else []
            if not data:
                return None
            first = dice.choice(data)
            others = [file for file in data if file["partition"] == first["partition"] and file is not first]
            chosen = [first, *([dice.choice(others)] if others and dice.random() < 0.5 else [])]
            rows, positions = [], {}
            for file in chosen:
                held = pq.read_table(file["file_path"].removeprefix("file://"), partitioning=None).to_pylist()
                positions[file["file_path"]] = sorted(dice.sample(range(len(held)), min(2, len(held))))
                rows += [tuple(held[at].values()) for at in positions[file["file_path"]]]
            changed = manifests.add_position_delete(table, positions, file_scoped=len(chosen) == 1)
            return _after(changed, head), rows

        if (done := _insist(place, work)) is not None:
            place.log("position", op="position", sequence=done[0].sequence_number, rows=done[1])


def delete_equal(place: Place, pause: float, least: int) -> None:
    """Rows with some ids are deleted, of one day at a time, as a stream of changes does without looking."""
    for _, dice in place.turns("equality", least, pause):
        day = dice.randrange(DAYS)
        ids = sorted(number * DAYS + day for number in dice.sample(range(IDS // DAYS), 4))

        def work(table: Table, day: int = day, ids: list[int] = ids) -> Snapshot | None:
            head = table.current_snapshot()
            found = [file for file in reader.Reader().live(table, head) if not file["content"]] if head else []
            like = next((file["file_path"] for file in found if file["partition"] == (day,)), None)
            if like is None:
                return None
            changed = manifests.add_equality_delete(table, pa.table({"id": pa.array(ids, pa.int64())}), like=like)
            return _after(changed, head)

        if (landed := _insist(place, work)) is not None:
            place.log("equality", op="equality", sequence=landed.sequence_number, ids=ids, day=day)


def expire(place: Place, pause: float, least: int) -> None:
    """Old snapshots are forgotten; their files stay."""
    for _, _ in place.turns("expire", least, pause):
        limit = datetime.now() - timedelta(seconds=place.retention_s)

        def work(table: Table, limit: datetime = limit) -> int:
            before = {one.snapshot_id for one in table.snapshots()}
            table.maintenance.expire_snapshots().older_than(limit).commit()
            return len(before - {one.snapshot_id for one in place.table().snapshots()})

        place.log("expire", op="expire", count=_insist(place, work))


def compact(place: Place, role: str, strategy: str, pause: float, actions: list[str]) -> None:
    """One of our compactors, with each of these actions about deletes in turn."""
    state = place.folder / "runs.db"
    for number, _ in place.turns(role, 3, pause):
        options = {"min-input-files": 3, "delete-action": actions[number % len(actions)]}
        compactor = Compactor(place.catalog, strategy, options=options, engine="inline", state=state)
        try:
            outcome = compactor.compact_table(NAME)
        except CompactionError as error:
            place.log(role, op="compact", kind="raised", sentence=str(error), groups=0, landed=0)
            continue
        ends = [(one.partition, one.outcome.value) for one in outcome.group_outcomes]
        place.log(
            role,
            op="compact",
            kind=outcome.kind.value,
            sentence=outcome.sentence,
            groups=outcome.groups,
            landed=outcome.groups_landed,
            # A group that conflicted, was planned anew and then landed has landed.
            left=len({where for where, end in ends if end != "landed"} - {w for w, end in ends if end == "landed"}),
            attempts=outcome.attempts,
            conflicts=[_why(one.sentence) for one in outcome.group_outcomes if one.sentence],
        )


def _why(sentence: str) -> str:
    """The sort of conflict that a sentence tells of."""
    sorts = {"no longer in the table": "inputs gone", "were deleted since": "new deletes", "expired": "pin expired"}
    return next((sort for words, sort in sorts.items() if words in sentence), sentence)


def read(place: Place, pause: float, least: int) -> None:
    """Every tenth snapshot is read while all go on, by a reader that shares no code with the product."""
    seen: set[int] = set()
    patient = reader.Reader()
    for _, _ in place.turns("read", least, pause):
        table = place.table()
        for snapshot in table.snapshots():
            sequence = snapshot.sequence_number or 0
            if sequence % EVERY == 0 and sequence not in seen:
                seen.add(sequence)
                rows = sorted(patient.rows(table, snapshot).elements())
                place.log("read", op="read", by="reader", sequence=sequence, rows=rows)


def _after(table: Table, head: Snapshot | None) -> Snapshot:
    """The snapshot that was committed on top of another one."""
    parent = head.snapshot_id if head else None
    return next(one for one in table.snapshots() if one.parent_snapshot_id == parent)


def _insist(place: Place, work: Callable[[Table], Any]) -> Any:
    """Try until it lands, each time on the table as it is then. A file that is not live any more is looked for anew."""
    for attempt in range(_AGAIN):
        try:
            return work(place.table())
        except (CommitFailedException, OperationalError):
            time.sleep(0.02 * attempt)
        except AssertionError as error:
            if "is not live" not in str(error):
                raise
    raise RuntimeError("others kept winning")
