"""Storage and catalog fail, are slow and tear writes. Every run ends in success or in a failure that tells the truth:
what it says has landed is in the table and nothing else is, no row is lost or revived, and files that it left behind
are named unless the state of a commit is unknown. When the faults are over, a plain run makes everything good."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import lake as lakes
from tests.factories import reader
from tests.lab import faults, scene

from iceberg_compaction import CompactionError, Compactor, Kind
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.storage import file_names, passing_faults

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.reader import Row

    from iceberg_compaction import Outcome

STORAGE = frozenset({"open", "read", "look", "create", "write", "delete"})
CATALOG = frozenset({"load", "commit"})
# What may fail. The first few operations of a run succeed, so that it dies anywhere and not just at its beginning.
PROFILES = {
    "everything": faults.Kind(operations=STORAGE | CATALOG, lies=True, grace=80),
    "catalog": faults.Kind(operations=CATALOG, grace=3),
    "commits": faults.Kind(operations=frozenset({"commit"}), rate=0.4),
    "reads": faults.Kind(operations=frozenset({"open", "read", "look"}), grace=120),
    "writes": faults.Kind(operations=frozenset({"create", "write"}), grace=30),
    "writes that lie": faults.Kind(operations=frozenset({"write"}), lies=True, grace=15),
    "writes and deletes": faults.Kind(operations=frozenset({"create", "write", "delete"}), grace=30),
    "commits and deletes": faults.Kind(operations=frozenset({"commit", "delete"}), rate=0.4),
}
UNKNOWN = ("did not say whether", "could not be looked up")  # of a rewrite of manifests, which has no groups
ROUNDS, RUNS = 2, 4  # chains for each profile, and runs in each


@dataclasses.dataclass(slots=True, kw_only=True)
class Ground:
    """A table, a catalog that fails when it is told to, one that never does, and what the table must hold."""

    faulty: faults.FaultyCatalog
    calm: Any
    state: Path
    model: Counter[Row]
    appended: int = 0
    left: set[str] = dataclasses.field(default_factory=set)  # files that the last run left unexplained

    @property
    def table(self) -> Table:
        return self.calm.load_table("db.t")

    def append(self) -> None:
        """Something to do for the next run: a small file in every day."""
        first, self.appended = 1000 + self.appended, self.appended + scene.DAYS
        self.table.append(pa.concat_tables([scene.rows(first + day, 1, day) for day in range(scene.DAYS)]))
        self.model.update((first + day, day, f"n{first + day}") for day in range(scene.DAYS))

    def compact(self) -> Outcome | CompactionError:
        return self._try(Compactor.compact_table)

    def rewrite_manifests(self) -> Outcome | CompactionError:
        return self._try(Compactor.rewrite_manifests)

    def _try(self, work: Callable[[Compactor, str], Outcome]) -> Outcome | CompactionError:
        compactor = Compactor(self.faulty, "small-files", options=scene.OPTIONS, engine="inline", state=self.state)
        try:
            return work(compactor, "db.t")
        except CompactionError as error:  # whatever else is raised is a defect
            return error

    def is_noted(self, path: str) -> bool:
        """Whether it is table metadata of a run that the next one will tidy up after, as the journal says. No word is
        made of it: whether it became the table's is not known for sure as long as the table has not changed."""
        store = wiring.run_store(str(self.state))
        runs = [run.start.run_id for run in store.unfinished(str(self.table.metadata.table_uuid))]
        return path.endswith(".metadata.json") and any(file_names.is_of_run(path, run_id) for run_id in runs)


@pytest.fixture(scope="module")
def fault_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake built once; every test works on a copy that is put in its place."""
    folder = tmp_path_factory.mktemp("fault-lab")
    lake = lakes.file_lake(folder / "lake")
    scene.build(lake.catalog, "db.t")
    lake.catalog.close()
    shutil.copytree(folder / "lake", folder / "copy")
    return folder


@pytest.fixture
def ground(fault_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    lake = fault_folder / "lake"
    shutil.rmtree(lake)
    shutil.copytree(fault_folder / "copy", lake)
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(lake / "cache"))
    # So little patience that some faults do not pass.
    monkeypatch.setattr(passing_faults, "USUAL", passing_faults.Patience(retries=1, first=0.001))
    monkeypatch.setattr(execute_task, "ATTEMPTS", passing_faults.Patience(retries=1, first=0.001))
    where = {"uri": f"sqlite:///{lake / 'catalog.db'}", "warehouse": (lake / "warehouse").as_uri()}
    made = Ground(
        faulty=faults.FaultyCatalog("default", **where, **{"py-io-impl": faults.FILE_IO}),
        calm=faults.SqlCatalog("default", **where),
        state=lake / "runs.db",
        model=scene.model(),
    )
    yield made
    made.faulty.close()
    made.calm.close()


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("profile", PROFILES)
def test_every_run_ends_well_or_tells_the_truth(
    ground: Ground, profile: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    faults_met = 0
    for turn in range(RUNS):
        if turn:
            ground.append()
        faults_met += check_run(ground, PROFILES[profile], seed=1000 * seed + turn, caplog=caplog)
    check_plain_run(ground)
    assert faults_met


# A rewrite of manifests has few operations, so that more of them fail.
FEW_OPERATIONS = {
    "everything": faults.Kind(operations=STORAGE | CATALOG, lies=True, grace=40),
    "commits": PROFILES["commits"],
    "writes that lie": faults.Kind(operations=frozenset({"write"}), lies=True, rate=0.3),
    "commits and deletes": PROFILES["commits and deletes"],
}


@pytest.mark.parametrize("profile", FEW_OPERATIONS)
def test_rewriting_manifests_ends_well_or_tells_the_truth(
    ground: Ground, profile: str, caplog: pytest.LogCaptureFixture
) -> None:
    faults_met = 0
    for turn in range(RUNS):
        for _ in range(3):
            ground.append()  # a manifest each
        kind = FEW_OPERATIONS[profile]
        faults_met += check_run(ground, kind, seed=turn, caplog=caplog, work=ground.rewrite_manifests)
    ended = ground.rewrite_manifests()
    assert not isinstance(ended, CompactionError), ended
    assert ended.kind in (Kind.COMPACTED, Kind.HEALTHY), ended.sentence
    assert reader.rows(ground.table) == ground.model
    check_plain_run(ground)
    assert faults_met


TORN = {
    "data": r"\.parquet$",
    "manifest": r"-m\d+\.avro$",
    "manifest list": r"/snap-[^/]*\.avro$",
    "table metadata": r"\.metadata\.json$",
}


@pytest.mark.parametrize("kind", TORN)
def test_a_file_that_storage_holds_half_of_is_never_published(ground: Ground, kind: str) -> None:
    """Storage keeps half of what it was given and says nothing."""
    with faults.throwing(0, faults.Kind(tear=TORN[kind])) as dice:
        ended = ground.compact()
    assert dice.happened["tear"] == 1
    assert not isinstance(ended, CompactionError), ended
    assert (ended.kind, ended.snapshot_ids) == (Kind.FAILED, ())
    assert "storage holds" in ended.sentence
    assert reader.rows(ground.table) == ground.model
    assert scene.run_snapshots(ground.table) == {}
    check_plain_run(ground)


def test_a_catalog_that_is_lost_after_something_landed_hides_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, load = faults.FaultyCatalog.commit_table, faults.FaultyCatalog.load_table
    landed = []

    def commit_once(*given: Any) -> Any:
        landed.append(commit(*given))
        return landed[-1]

    def load_until_then(*given: Any) -> Any:
        if landed:
            raise ConnectionResetError("gone, on purpose")
        return load(*given)

    monkeypatch.setattr(faults.FaultyCatalog, "commit_table", commit_once)
    monkeypatch.setattr(faults.FaultyCatalog, "load_table", load_until_then)
    ended = ground.compact()
    assert not isinstance(ended, CompactionError), ended
    assert (ended.kind, len(ended.snapshot_ids), ended.groups_landed) == (Kind.FAILED, 1, 1)
    assert "gone, on purpose" in ended.sentence
    assert "1 of 3 groups landed" in ended.sentence
    assert list(scene.run_snapshots(ground.table).values()) == [list(ended.snapshot_ids)]


def check_run(
    ground: Ground,
    kind: faults.Kind,
    *,
    seed: int,
    caplog: pytest.LogCaptureFixture,
    work: Callable[[], Outcome | CompactionError] | None = None,
) -> int:
    """One run while things fail, of a compaction if nothing else is said; how many did."""
    before = scene.run_snapshots(ground.table)
    caplog.clear()
    with faults.throwing(seed, kind) as dice, caplog.at_level(logging.WARNING):
        ended = (work or ground.compact)()
    table = ground.table
    assert reader.rows(table) == ground.model, (ended, dice.happened)
    landed = {run: ids for run, ids in scene.run_snapshots(table).items() if ids != before.get(run)}
    unknown = check_truth(ended, landed)
    words = f"{ended if isinstance(ended, CompactionError) else ended.sentence}\n{caplog.text}"
    left = scene.unexplained(table)
    new, ground.left = left - ground.left, left
    unnamed = {path for path in new if path.rpartition("/")[2] not in words and not ground.is_noted(path)}
    assert unknown or not unnamed, (words, unnamed, dice.happened)
    return dice.happened.total()


def check_truth(outcome: Outcome | CompactionError, landed: dict[str, list[int]]) -> bool:
    """What was told is what the table shows. Returns whether the state of a commit was told to be unknown."""
    if isinstance(outcome, CompactionError):
        assert landed == {}, outcome
        return False
    mine = landed.pop(outcome.run_id, [])
    assert landed == {}, "another run's commit landed"
    unknown = any(group.outcome is GroupEnd.UNKNOWN for group in outcome.group_outcomes)
    unknown |= not outcome.groups and any(words in outcome.sentence for words in UNKNOWN)
    assert set(outcome.snapshot_ids) <= set(mine), outcome
    assert unknown or list(outcome.snapshot_ids) == mine, outcome
    assert len(mine) - len(outcome.snapshot_ids) <= 1, outcome  # after an unknown commit there is no other
    reported = {group.snapshot_id for group in outcome.group_outcomes if group.outcome is GroupEnd.COMMITTED}
    assert reported == set(outcome.snapshot_ids) or not outcome.groups
    assert (outcome.kind is Kind.COMPACTED) <= bool(mine), outcome
    assert outcome.kind in (Kind.COMPACTED, Kind.HEALTHY, Kind.FAILED, Kind.CONFLICT), outcome
    return unknown


def check_plain_run(ground: Ground) -> None:
    """The faults are over."""
    ended = ground.compact()
    assert not isinstance(ended, CompactionError), ended
    assert ended.kind in (Kind.COMPACTED, Kind.HEALTHY), ended.sentence
    table = ground.table
    assert reader.rows(table) == ground.model
    files = reader.Reader().live(table, table.current_snapshot())
    assert sorted(file["partition"] for file in files) == [(0,), (1,), (2,)], ended.sentence
    left = scene.unexplained(table)
    waiting = "may still land" in ended.sentence  # nothing was left to commit that would have settled it
    # Metadata that was written and not swapped in may be all that another entry of a catalog has, so it stays.
    in_doubt = "it is unknown whether its last" in ended.sentence and any(
        path.endswith(".metadata.json") for path in left
    )
    assert left == set() or waiting or in_doubt, ended.sentence
