"""A crash at any moment leaves at most files that a later run recognises as ours and removes; and that run removes
nothing else, least of all what landed, what may still land, or what belongs to a run that is still at work."""

from __future__ import annotations

import errno
import gzip
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StaticTable, Table
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.factories import ports, runs, storage, work

from iceberg_compaction import Kind, Policy, errors
from iceberg_compaction.catalog import publish, staged_metadata
from iceberg_compaction.commit import spine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata import fetch
from iceberg_compaction.model import run_record
from iceberg_compaction.record import journal, processes
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.record.store import RunStore
from iceberg_compaction.storage import listing
from iceberg_compaction.workflow import recover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.outcome import Outcome

OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2, "partial-progress": True}
NOTHING_TO_DO = {"min-input-files": 100}
HOUR = 3_600_000
IN_ONE = {**OPTIONS, "partial-progress": False}
DEATHS = {
    "noted": ports.Moment(call="store.begin", when=ports.AFTER),
    "half-rewritten": ports.Moment(call="engine.task", nth=2),
    "rewritten": ports.Moment(call="event.committing"),
    "manifests-written": ports.Moment(call="store.publishing"),
    "metadata-written": ports.Moment(call="store.publishing", when=ports.AFTER, nth=2),
    "published": ports.Moment(call="catalog.commit_table", when=ports.AFTER),
    "second-manifests-written": ports.Moment(call="store.publishing", nth=3),
    "second-published": ports.Moment(call="catalog.commit_table", when=ports.AFTER, nth=2),
    "done": ports.Moment(call="store.finish"),
}


class Scene:
    """A table with four small files, a store of runs, and a file that is nobody's business."""

    def __init__(self, lake: lakes.Lake, folder: Path, nursery: nurseries.Nursery) -> None:
        self.lake, self._nursery = lake, nursery
        self.state = folder / "runs.db"
        self.store = wiring.run_store(self.state)
        table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t", properties=PROPERTIES), 4)
        self.rows = storage.row_multiset(table.scan().to_arrow())
        self.dead = uuid.uuid4().hex
        self.foreign = {self.place(f"data/{name}") for name in ("other.parquet", f"0-{uuid.uuid4().hex}-0.parquet")}

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table("db.t")

    def place(self, name: str) -> str:
        """A file below the table that the table does not know."""
        path = Path(self.table.location().removeprefix("file://")) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        return str(path)

    def kill(self, point: str) -> None:
        """A run that is killed."""
        job = nurseries.Job(
            settings=self.lake.settings.model_dump_json(),
            table="db.t",
            state=str(self.state),
            options=OPTIONS if point.startswith("second") else IN_ONE,
            run_id=self.dead,
            **asdict(DEATHS[point]),
        )
        assert self._nursery.run(job).killed, f"the run got past {point}"

    def run(self, options: dict[str, Any] = OPTIONS, *, later_ms: int = 0, **more: Any) -> Outcome:
        run = wiring.new_run(store=self.store)
        run = replace(run, clock=lambda clock=run.clock: clock() + later_ms, **more)
        policy = Policy.model_validate(options)
        return work.compact_table(self.lake.catalog, "db.t", policy, wiring.engine_factory("inline"), run)

    def of(self, run_id: str) -> set[str]:
        """Files that the run wrote, table metadata included."""
        names = (run_id, str(uuid.UUID(run_id))[:28])
        return {path for path in storage.files_under(self.table) if any(name in path for name in names)}

    def check(self) -> None:
        """The table has its rows, foreign files are there, and every other file is explained by the table."""
        table = self.table
        assert storage.row_multiset(table.scan().to_arrow()) == self.rows
        assert storage.files_under(table) == known_files(table) | self.foreign


PROPERTIES = {"commit.status-check.num-retries": "0"}


def known_files(table: Any) -> set[str]:
    """Everything that the table's metadata refers to."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    found |= {snapshot.manifest_list for snapshot in table.snapshots()}
    for snapshot in table.snapshots():
        found |= {row.manifest_path for row in fetch.list_manifests(table.io, snapshot)}
    return {path.removeprefix("file://") for path in found} | storage.referenced_data_files(table)


@pytest.fixture(scope="module")
def nursery() -> Iterator[nurseries.Nursery]:
    with nurseries.nursery() as made:
        yield made


@pytest.fixture
def scene(local_lake: lakes.Lake, tmp_path: Path, nursery: nurseries.Nursery) -> Scene:
    return Scene(local_lake, tmp_path, nursery)


@pytest.mark.parametrize("point", [point for point in DEATHS if point != "metadata-written"])
def test_a_plain_run_after_a_crash_leaves_no_file_unexplained(scene: Scene, point: str) -> None:
    scene.kill(point)
    left, known = scene.of(scene.dead), known_files(scene.table)
    complete = point in ("published", "second-published", "done")
    assert bool(left & known) == (complete or point.startswith("second"))
    assert bool(left - known) == (not complete and point != "noted")
    outcome = scene.run(NOTHING_TO_DO if complete else OPTIONS)
    scene.check()
    after = scene.of(scene.dead)
    assert left & known <= after <= known_files(scene.table)  # work that was done is in the table by now
    count = len(left - after)
    told = f"{count} {'file' if count == 1 else 'files'} of run {scene.dead}, which did not finish,"
    assert (told in outcome.sentence) == bool(count)


def test_table_metadata_that_may_have_been_published_keeps_its_files(scene: Scene) -> None:
    """Nobody can tell it from metadata that was published, and taken back when the table was registered anew with what
    it was before; then another entry may have it."""
    scene.kill("metadata-written")
    left = scene.of(scene.dead)
    outcome = scene.run()
    assert outcome.kind is Kind.COMPACTED
    assert f"Run {scene.dead} did not finish, and it is unknown whether its last commit landed" in outcome.sentence
    assert scene.of(scene.dead) == left
    assert "it is unknown whether" not in scene.run(later_ms=recover.MENTION_MS).sentence
    assert scene.of(scene.dead) == left


def test_half_of_table_metadata_is_nobodys(scene: Scene) -> None:
    scene.kill("metadata-written")
    (torn,) = (path for path in scene.of(scene.dead) if path.endswith(".metadata.json"))
    Path(torn).write_bytes(Path(torn).read_bytes()[:-10])
    assert f"files of run {scene.dead}" in scene.run().sentence
    assert scene.of(scene.dead) <= known_files(scene.table)
    scene.check()


def test_a_recovered_run_is_forgotten_once_its_executors_must_be_gone(scene: Scene) -> None:
    scene.kill("rewritten")
    scene.run()
    assert [run.start.run_id for run in unfinished(scene)] == [scene.dead]
    straggler = scene.place(f"data/00007-0-abcdef12-{scene.dead}-00000.parquet")
    outcome = scene.run(later_ms=recover.STRAGGLING_MS)
    assert f"1 file of run {scene.dead}, which did not finish, was removed." in outcome.sentence
    assert not Path(straggler).exists()
    assert unfinished(scene) == []
    scene.check()


def test_a_run_that_ends_in_order_is_not_in_the_journal(scene: Scene) -> None:
    assert scene.run().kind is Kind.COMPACTED
    assert unfinished(scene) == []


def test_a_run_that_is_interrupted_is_over(scene: Scene) -> None:
    """Though its process lives on, the next run looks whether it left something."""

    def interrupt(event: Any) -> None:
        if event.kind == "committing":
            scene.place(f"data/00009-0-abcdef12-{event.run_id}-00000.parquet")  # of a task that was killed
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.run(on_event=interrupt)
    assert "1 file of run" in scene.run().sentence
    scene.check()


def test_files_outside_the_tables_location_are_found(scene: Scene, tmp_path: Path) -> None:
    """Where the table said that data goes when the run began, whatever it says now."""
    elsewhere = tmp_path / "elsewhere"
    with scene.table.transaction() as change:
        change.set_properties({"write.data.path": elsewhere.as_uri(), "write.object-storage.enabled": "true"})
    scene.kill("rewritten")
    assert len([path for path in elsewhere.rglob("*.parquet") if scene.dead in path.name]) == 2
    with scene.table.transaction() as change:
        change.remove_properties("write.data.path")
    kept = checkpoints.Checkpoints(scene.store.entries)
    assert [kept.remove(held) for held in kept.heads()] == [True]  # else a run would go on with them
    assert f"2 files of run {scene.dead}" in scene.run().sentence
    assert list(elsewhere.rglob("*.parquet")) == []


def test_a_run_at_work_is_left_alone(scene: Scene) -> None:
    path = begin(scene, processes.this_process())
    assert "did not finish" not in scene.run(later_ms=100 * HOUR).sentence
    assert Path(path).exists()


@pytest.mark.parametrize("change", [{"started": "1"}, {"pid": 2**22 + 7}])
def test_a_number_that_is_another_process_now_is_no_life(scene: Scene, change: dict[str, Any]) -> None:
    path = begin(scene, processes.this_process().model_copy(update=change))
    assert f"1 file of run {scene.dead}" in scene.run().sentence
    assert not Path(path).exists()
    scene.check()


def test_a_run_of_a_version_that_did_not_write_down_its_catalog_is_mentioned_and_left_alone(scene: Scene) -> None:
    """R48: nobody knows which entry its files belong to."""
    start = runs.make_start(scene.table, scene.dead, processes.this_process().model_copy(update={"started": "1"}))
    scene.store.begin(run_record.RunStart.model_validate(start.model_dump(exclude={"catalog"})))
    path = scene.place(f"data/00000-0-abcdef12-{scene.dead}-00000.parquet")
    told = f"Run {scene.dead} did not finish, but worked on an entry of an unknown catalog"
    assert told in scene.run(NOTHING_TO_DO).sentence
    assert told not in scene.run(later_ms=recover.MENTION_MS).sentence
    assert Path(path).exists()


def test_a_run_elsewhere_is_waited_for(scene: Scene) -> None:
    path = begin(scene, run_record.Process(host="elsewhere", pid=1, started="1"))
    scene.run(later_ms=30_000)
    assert Path(path).exists()
    waits: list[float] = []
    now = scene.run(NOTHING_TO_DO, later_ms=HOUR // 2, pause=waits.append)
    assert sum(waits) == pytest.approx(45, abs=10)  # until its next heartbeat should have come
    assert f"1 file of run {scene.dead}" in now.sentence
    assert not Path(path).exists()


def test_a_run_that_was_only_asleep_cannot_commit(scene: Scene) -> None:
    """Between planning and committing an hour goes by, and somebody else takes the run for dead."""

    def sleep(event: Any) -> None:
        if event.kind == "committing":
            for run in unfinished(scene):
                assert scene.store.take_over(run)

    outcome = scene.run(on_event=sleep)
    assert outcome.kind is Kind.FAILED
    assert "another run took it for dead" in outcome.sentence
    assert "nothing was committed" in outcome.sentence
    scene.check()


def test_what_a_run_asleep_may_still_send_stays_however_often_others_look(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server writes table metadata, and takes a request at any time should the table be put back. That somebody took
    the run for dead does not mean that it has ended."""
    scene.kill("manifests-written")
    (run,) = unfinished(scene)
    head = scene.table.metadata
    attempt = run_record.Attempt(
        snapshot_id=1,
        parent_snapshot_id=head.current_snapshot_id,
        sequence_number=head.next_sequence_number(),
        at_ms=run.heartbeat_ms,
    )
    elsewhere = run.start.model_copy(update={"process": run_record.Process(host="elsewhere", pid=1, started="1")})
    scene.store.finish(scene.dead)
    scene.store.begin(elsewhere)
    assert scene.store.publishing(scene.dead, attempt)
    scene.table.append(scene.table.scan().to_arrow().slice(0, 0))
    monkeypatch.setattr(staged_metadata, "lets_clients_write", lambda catalog: False)
    left = scene.of(scene.dead)
    for _ in range(2):
        assert "it is unknown whether" in scene.run(NOTHING_TO_DO, later_ms=2 * HOUR).sentence
    assert scene.of(scene.dead) == left != set()


@pytest.mark.parametrize("how", ["unreachable", "lost"])
def test_a_run_that_cannot_make_sure_that_it_owns_its_files_does_not_commit(
    scene: Scene, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R49: whoever cannot reach the store may have been taken for dead."""
    monkeypatch.setattr(journal, "CONFIRM_WAITS_S", (0.0, 0.0))
    before = scene.table.metadata.current_snapshot_id

    def part(event: Any) -> None:
        if event.kind == "committing":
            scene.state.unlink(missing_ok=True)
            if how == "unreachable":
                scene.state.mkdir(exist_ok=True)

    outcome = scene.run(on_event=part)
    assert outcome.kind is Kind.FAILED
    assert "nothing was committed, start again." in outcome.sentence
    assert scene.table.metadata.current_snapshot_id == before
    # Another run may have gone on with them (R63), so they are not its own to remove.
    assert storage.files_under(scene.table) - known_files(scene.table) - scene.foreign == scene.of(outcome.run_id)
    assert storage.row_multiset(scene.table.scan().to_arrow()) == scene.rows


def test_a_store_that_is_away_for_a_moment_is_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CONFIRM_WAITS_S", (0.0, 0.0))
    real, fails = RunStore.publishing, iter([True, False, True, True, False])

    def sometimes(store: RunStore, *given: Any) -> bool:
        if next(fails, False):
            raise errors.StoreError("away")
        return real(store, *given)

    monkeypatch.setattr(RunStore, "publishing", sometimes)
    outcome = scene.run()
    assert (outcome.kind, outcome.groups_landed) == (Kind.COMPACTED, 2)


def test_a_store_that_goes_away_before_the_compare_and_set_leaves_no_doubt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fault is one that may pass, as storage has them too; but nobody was asked to commit."""
    monkeypatch.setattr(journal, "CONFIRM_WAITS_S", ())
    real = RunStore.publishing

    def away(store: RunStore, run_id: str, attempt: run_record.Attempt) -> bool:
        if attempt.metadata is not None:
            raise errors.StoreError("The run store is away.") from OSError(errno.ESTALE, "Stale file handle")
        return real(store, run_id, attempt)

    monkeypatch.setattr(RunStore, "publishing", away)
    outcome = scene.run()
    assert "nothing was committed, start again. The run store is away." in outcome.sentence
    scene.check()


def test_nothing_that_goes_wrong_once_a_snapshot_has_landed_costs_its_files(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*given: Any) -> None:
        raise errors.MetadataError("Something odd.")

    monkeypatch.setattr(RunStore, "committed", odd)
    assert scene.run().groups_landed == 2
    scene.check()


def test_nothing_that_goes_wrong_while_a_commit_is_in_doubt_costs_its_files(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, in_table = SqlCatalog.commit_table, spine._Attempts._in_table

    def silent(catalog: SqlCatalog, *given: Any) -> None:
        commit(catalog, *given)
        raise TimeoutError("no answer")

    def odd(*given: Any) -> bool:
        in_table(*given)
        raise errors.MetadataError("Something odd.")

    monkeypatch.setattr(SqlCatalog, "commit_table", silent)
    monkeypatch.setattr(spine._Attempts, "_in_table", odd)
    assert "so nothing was deleted: Something odd." in scene.run(IN_ONE).sentence
    scene.check()


def test_a_store_that_cannot_be_written_is_a_warning(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    in_the_way = scene.place("in-the-way")
    scene.store = wiring.run_store(Path(in_the_way) / "runs.db")
    scene.foreign.add(in_the_way)
    assert scene.run().kind is Kind.COMPACTED
    assert "no other run will remove its files" in caplog.text


def test_another_table_of_the_same_name_is_not_looked_at(scene: Scene) -> None:
    scene.kill("rewritten")
    scene.lake.catalog.drop_table("db.t")
    lakes.append_small_files(lakes.make_table(scene.lake.catalog, "db.t"), 2)
    left = scene.of(scene.dead)
    assert "did not finish" not in scene.run().sentence
    assert scene.of(scene.dead) == left != set()


def test_another_table_that_takes_the_name_meanwhile_decides_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R50: the swap happens between the listing of leftovers and the look that decides what goes."""
    scene.kill("published")
    landed = scene.of(scene.dead)
    catalog, real = scene.lake.catalog, listing.list_files
    lakes.append_small_files(lakes.make_table(catalog, "db.other"), 8)

    def swap(*given: Any) -> Any:
        found = real(*given)
        if not catalog.table_exists("db.swapped"):
            catalog.rename_table("db.t", "db.swapped")
            catalog.rename_table("db.other", "db.t")
        return found

    monkeypatch.setattr(listing, "list_files", swap)
    assert "another was put in its place" in scene.run(NOTHING_TO_DO).sentence
    table = catalog.load_table("db.swapped")
    assert landed <= storage.files_under(table)
    assert storage.row_multiset(table.scan().to_arrow()) == scene.rows


def test_files_stay_when_the_history_cannot_be_read(scene: Scene) -> None:
    scene.kill("rewritten")
    left = scene.of(scene.dead)
    Path(scene.table.snapshots()[0].manifest_list.removeprefix("file://")).unlink()
    outcome = scene.run()
    assert outcome.kind is Kind.COMPACTED
    assert "could not be removed: Manifest list" in outcome.sentence
    assert scene.of(scene.dead) == left


class Silence:
    """A catalog that does not answer a commit; what it was asked for can be done later."""

    def __init__(self, scene: Scene, patch: pytest.MonkeyPatch) -> None:
        self.asked: tuple[Any, ...] = ()
        self._commit = scene.lake.catalog.commit_table
        with patch.context() as silent:
            silent.setattr(scene.lake.catalog, "commit_table", self._drop)
            self.outcome = scene.run()
        self.run_id = self.outcome.run_id

    def _drop(self, *asked: Any) -> None:
        self.asked = asked
        raise TimeoutError("no answer")

    def answer(self) -> None:
        self._commit(*self.asked)


@pytest.fixture
def silence(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Silence:
    return Silence(scene, monkeypatch)


def test_an_unknown_state_names_the_command_that_recovers_it(scene: Scene, silence: Silence) -> None:
    assert silence.outcome.kind is Kind.FAILED
    assert "`iceberg-compact run --table db.t`" in silence.outcome.sentence
    assert [run.ended for run in unfinished(scene)] == [True]


def test_the_command_that_recovers_it_is_that_of_the_job(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for is what has to be done again."""
    table = scene.table
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "b").commit()
    run = wiring.new_run(store=scene.store)
    plan = work.plan_table(scene.lake.catalog, "db.t", Policy.model_validate(OPTIONS), run, branch="b")

    def silent(*asked: Any) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(scene.lake.catalog, "commit_table", silent)
    applied = work.apply_plan(scene.lake.catalog, plan, wiring.engine_factory("inline"), run)
    assert "`iceberg-compact apply`, with the same plan," in applied.sentence
    run = wiring.new_run(store=scene.store)
    rewritten = work.rewrite_manifests(scene.lake.catalog, "db.t", run, branch="b")
    assert "`iceberg-compact manifests --table db.t --branch b`" in rewritten.sentence


def test_what_may_still_land_stays(scene: Scene, silence: Silence) -> None:
    left = scene.of(silence.run_id)
    told = scene.run(NOTHING_TO_DO, later_ms=23 * HOUR).sentence
    assert f"The last commit of run {silence.run_id} may still land, so its files stay for now." in told
    assert scene.of(silence.run_id) == left
    silence.answer()
    assert "may still land" not in scene.run(NOTHING_TO_DO).sentence
    scene.check()


def test_an_answer_that_is_out_of_date_proves_nothing(
    scene: Scene, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog tells of the table as it was before the commit's parent, which is not the head there."""
    old = scene.lake.catalog.load_table("db.t")
    before = StaticTable.from_metadata(old.metadata.metadata_log[-1].metadata_file).metadata
    assert before.current_snapshot_id != old.metadata.current_snapshot_id
    silence.answer()
    left = scene.of(silence.run_id)
    stale = Table(old.name(), before, old.metadata_location, old.io, old.catalog)
    monkeypatch.setattr(publish, "reload", lambda table: stale)
    assert "may still land" in scene.run(NOTHING_TO_DO).sentence
    assert scene.of(silence.run_id) == left


def test_what_can_land_no_more_goes(scene: Scene, silence: Silence) -> None:
    scene.table.append(scene.table.scan().to_arrow().slice(0, 0))
    assert f"files of run {silence.run_id}" in scene.run(NOTHING_TO_DO).sentence
    assert scene.of(silence.run_id) <= known_files(scene.table)  # groups that were complete are committed
    scene.check()


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20,
        b'{"last-sequence-number": "many"}',
        b'{"last-sequence-number": 99, "snapshots": [1]}',
    ],
)
def test_metadata_beside_the_tables_own_that_makes_no_sense_tells_nothing(
    scene: Scene, silence: Silence, content: bytes
) -> None:
    Path(scene.place("metadata/odd.metadata.json")).write_bytes(content)
    scene.table.append(scene.table.scan().to_arrow().slice(0, 0))
    left = scene.of(silence.run_id)
    assert "it is unknown whether" in scene.run(NOTHING_TO_DO).sentence
    assert scene.of(silence.run_id) == left


def test_a_commit_of_the_next_run_recovers_the_one_before(scene: Scene, silence: Silence) -> None:
    outcome = scene.run()
    assert outcome.kind is Kind.COMPACTED
    assert f"files of run {silence.run_id}, which did not finish, were removed." in outcome.sentence
    assert "may still land" not in outcome.sentence
    scene.check()


def test_time_is_no_proof(scene: Scene, silence: Silence) -> None:
    """A process that was suspended may wake up after any time."""
    left = scene.of(silence.run_id)
    assert "may still land" in scene.run(NOTHING_TO_DO, later_ms=10_000 * HOUR).sentence
    assert scene.of(silence.run_id) == left
    silence.answer()
    scene.check()


def test_a_lost_race_leaves_no_metadata_behind(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg writes the table's metadata, then loses the compare-and-set, and forgets the file."""
    write, written = MetastoreCatalog._write_metadata, list[str]()

    def compete(metadata: Any, io: Any, metadata_path: str) -> None:
        write(metadata, io, metadata_path)
        written.append(metadata_path)
        if len(written) == 1:
            scene.table.append(scene.table.scan().to_arrow().slice(0, 0))

    monkeypatch.setattr(MetastoreCatalog, "_write_metadata", staticmethod(compete))
    outcome = scene.run()
    assert outcome.kind is Kind.COMPACTED
    assert written[0].removeprefix("file://") not in storage.files_under(scene.table)
    assert {path.removeprefix("file://") for path in written} & scene.of(outcome.run_id)
    assert unfinished(scene) == []
    scene.check()


@pytest.mark.parametrize(
    "error", [CommitFailedException("the table has changed"), OSError(errno.EHOSTUNREACH, "No route to host")]
)
def test_an_error_after_the_commit_has_landed_deletes_nothing(
    scene: Scene, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client library that sends a commit twice is told of a conflict, though the first has landed; and a database
    driver may say that its network is gone as a file store would."""
    commit = SqlCatalog.commit_table

    def twice(catalog: SqlCatalog, *given: Any) -> None:
        commit(catalog, *given)
        raise error

    monkeypatch.setattr(SqlCatalog, "commit_table", twice)
    assert scene.run().kind is Kind.COMPACTED
    scene.check()


@pytest.mark.server
def test_leftovers_in_an_object_store(s3_lake: lakes.Lake, tmp_path: Path) -> None:
    name, store, dead = s3_lake.name("t"), wiring.run_store(tmp_path / "runs.db"), uuid.uuid4().hex
    table = lakes.append_small_files(lakes.make_table(s3_lake.catalog, name), 2)
    before = storage.files_under(table)
    for path in ("data", "data/0110/1001/11"):
        with table.io.new_output(f"{table.location()}/{path}/00000-0-abcdef12-{dead}-00000.parquet").create() as stream:
            stream.write(b"left behind")
    store.begin(runs.make_start(table, dead, processes.this_process().model_copy(update={"started": "1"})))
    assert len(storage.files_under(table) - before) == 2
    run, policy = wiring.new_run(store=store), Policy.model_validate(NOTHING_TO_DO)
    outcome = work.compact_table(s3_lake.catalog, name, policy, wiring.engine_factory("inline"), run)
    assert outcome.sentence.endswith(f"2 files of run {dead}, which did not finish, were removed.")
    assert storage.files_under(table) == before


def begin(scene: Scene, where: run_record.Process) -> str:
    """A run that is in the journal and has written one file."""
    scene.store.begin(runs.make_start(scene.table, scene.dead, where))
    return scene.place(f"data/part=1/00000-0-abcdef12-{scene.dead}-00000.parquet")


def unfinished(scene: Scene) -> list[run_record.UnfinishedRun]:
    return scene.store.unfinished(str(scene.table.metadata.table_uuid))
