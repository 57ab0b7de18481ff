"""A later run goes on with a run that was killed: work that was done is not done again, nothing is committed twice, and
where the table has moved on, the work is done anew (R63). `resume` does the same as the next run."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.types import LongType
from tests.factories import counting, manifests, ports, storage, work
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.catalog import connect
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata import reachable
from iceberg_compaction.model.cancel_request import CancelRequest
from iceberg_compaction.record import cancel_requests, past_runs, silence
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.workflow import recover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.outcome import Outcome

# Four groups of two files, each a task of its own, in one commit.
OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2, "partial-progress": False}
IN_BATCHES = {**OPTIONS, "partial-progress": True}
# One group of several tasks.
ONE_GROUP = {"min-input-files": 2, "target-file-size-bytes": 2800}
THIRD_TASK = ports.Moment(call="engine.task", nth=3)
ALL_DONE = ports.Moment(call="event.committing")
FILES, HOUR = 8, 3_600_000


class Scene:
    """A table with eight small files, and runs that are killed on it."""

    def __init__(self, lake: lakes.Lake, folder: Path, nursery: nurseries.Nursery) -> None:
        self.lake, self._nursery = lake, nursery
        self.state = folder / "runs.db"
        table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), FILES)
        self.rows = storage.row_multiset(table.scan().to_arrow())
        self.inputs = storage.referenced_data_files(table)
        settings = lake.settings
        counted = {**settings.properties, "py-io-impl": counting.FILE_IO}
        self.settings = settings.model_copy(update={"properties": counted})

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table("db.t")

    @property
    def kept(self) -> checkpoints.Checkpoints:
        return checkpoints.Checkpoints(wiring.run_store(self.state).entries)

    def kill(self, moment: ports.Moment, options: dict[str, Any] = OPTIONS, **more: Any) -> str:
        """A run that is killed; its id."""
        run_id = uuid.uuid4().hex
        job = nurseries.Job(
            settings=self.lake.settings.model_dump_json(),
            table="db.t",
            state=str(self.state),
            options=options,
            run_id=run_id,
            **{**dataclasses.asdict(moment), **more},
        )
        end = self._nursery.run(job)
        assert end.killed or end.stopped, "the run got past the point"
        self.stopped = end.stopped
        return run_id

    def wake(self) -> None:
        """The run that was suspended goes on, and fails."""
        self._nursery.resume(self.stopped)

    def run(self, options: dict[str, Any] = OPTIONS, *, resumes: str = "", **more: Any) -> Outcome:
        """A later run, or one that resumes another; counts the files that it opens."""
        counting.opened.clear()
        compactor = Compactor(self.settings, options=options, engine="inline", state=self.state, **more)
        try:
            return compactor.resume(resumes) if resumes else compactor.compact_table("db.t")
        finally:
            compactor.catalog.close()

    def inputs_read(self) -> int:
        """How many of the first data files the last run opened."""
        opened = {path.removeprefix("file://") for path in counting.opened}
        return len(opened & self.inputs)

    def of(self, run_id: str) -> set[str]:
        return {path for path in storage.files_under(self.table) if run_id in path and path.endswith(".parquet")}

    def check(self, *run_ids: str, files: int = 4) -> None:
        """The rows are there, nothing else is, and no checkpoint is left."""
        table = self.table
        assert storage.row_multiset(table.scan().to_arrow()) == self.rows
        live = {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}
        assert len(live) == files
        known = storage.referenced_data_files(table)
        for run_id in run_ids:
            assert self.of(run_id) <= known
        assert self.kept.heads() == []
        assert self.kept.entries.scan("checkpoint/") == []


@pytest.fixture(scope="module")
def nursery() -> Iterator[nurseries.Nursery]:
    with nurseries.nursery() as made:
        yield made


@pytest.fixture
def scene(local_lake: lakes.Lake, tmp_path: Path, nursery: nurseries.Nursery) -> Scene:
    return Scene(local_lake, tmp_path, nursery)


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize(("moment", "read"), [(THIRD_TASK, 4), (ALL_DONE, 0)])
def test_work_that_was_done_is_not_done_again(scene: Scene, moment: ports.Moment, read: int, resumes: bool) -> None:
    dead = scene.kill(moment)
    outcome = scene.run(resumes=dead if resumes else "")
    assert outcome.kind is Kind.COMPACTED
    assert f"It went on with run {dead}" in outcome.sentence
    assert scene.inputs_read() == read
    assert len(scene.of(dead)) == 4 - read // 2  # they are the table's now
    scene.check(dead)


def test_a_group_that_landed_is_not_committed_again(scene: Scene) -> None:
    """The crash is between the commit and the note of it in the journal."""
    dead = scene.kill(ports.Moment(call="store.committed", nth=2), IN_BATCHES)
    assert len(scene.of(dead)) == 2
    assert scene.run(IN_BATCHES).kind is Kind.COMPACTED
    added = [
        entry.data_file.file_path
        for snapshot in scene.table.snapshots()
        for manifest in snapshot.manifests(scene.table.io)
        for entry in manifest.fetch_manifest_entry(scene.table.io)
        if entry.status == ManifestEntryStatus.ADDED and manifest.added_snapshot_id == snapshot.snapshot_id
    ]
    assert len(added) == len(set(added))
    scene.check(dead, files=3)


def test_if_the_heir_dies_too_the_next_one_has_all(scene: Scene) -> None:
    first = scene.kill(THIRD_TASK)
    second = scene.kill(ALL_DONE)
    third = scene.kill(ALL_DONE)
    assert scene.kept.heads()[0].head.writers == (first, second, third)
    assert scene.run().kind is Kind.COMPACTED
    assert (scene.inputs_read(), len(scene.of(first)), len(scene.of(second))) == (4, 2, 0)
    scene.check(first, second, third)


def test_tasks_of_one_group_may_be_done_by_several_runs(scene: Scene) -> None:
    first = scene.kill(ports.Moment(call="engine.task", nth=2), ONE_GROUP)
    second = scene.kill(ports.Moment(call="engine.task", nth=2), ONE_GROUP)
    outcome = scene.run(ONE_GROUP)
    assert (outcome.kind, outcome.groups) == (Kind.COMPACTED, 1)
    assert f"It went on with run {first}, which had done 2 of" in outcome.sentence
    assert 0 < scene.inputs_read() < FILES
    # What came out small was joined by a second round; the rest is as the runs left it.
    scene.check(first, second, files=sum(len(scene.of(each)) for each in (first, second, outcome.run_id)))


def test_another_machine_goes_on(scene: Scene) -> None:
    """Its clock says that the run has been silent for long."""
    dead = scene.kill(THIRD_TASK, host="elsewhere/boot/ns", late_ms=-2 * HOUR)
    assert scene.run().kind is Kind.COMPACTED
    assert scene.inputs_read() == 4
    scene.check(dead)


def test_a_run_that_was_only_asleep_removes_nothing_of_its_heir(scene: Scene) -> None:
    asleep = scene.kill(ALL_DONE, stops=True, host="elsewhere/boot/ns", late_ms=-2 * HOUR)
    outcome = scene.run()
    assert (outcome.kind, scene.inputs_read()) == (Kind.COMPACTED, 0)
    head = scene.table.metadata.current_snapshot_id
    scene.wake()
    assert scene.table.metadata.current_snapshot_id == head
    assert len(scene.of(asleep)) == 4
    scene.check(asleep)


def test_an_asleep_run_removes_what_it_still_writes(scene: Scene) -> None:
    asleep = scene.kill(THIRD_TASK, stops=True, host="elsewhere/boot/ns", late_ms=-2 * HOUR)
    scene.run()
    scene.wake()
    assert len(scene.of(asleep)) == 2  # nobody could know the others, so that it could remove them
    scene.check(asleep)


def test_a_run_of_another_policy_commits_what_is_complete_and_keeps_the_rest(scene: Scene) -> None:
    dead = scene.kill(THIRD_TASK)
    outcome = scene.run({"min-input-files": 100})
    assert (outcome.kind, outcome.groups_landed, scene.inputs_read()) == (Kind.COMPACTED, 2, 0)
    scene.check(dead, files=6)


def test_files_that_are_gone_or_cut_are_made_again(scene: Scene) -> None:
    dead = scene.kill(ALL_DONE)
    gone, cut, *_ = sorted(scene.of(dead))
    Path(gone).unlink()
    Path(cut).write_bytes(Path(cut).read_bytes()[:-1])
    assert scene.run().kind is Kind.COMPACTED
    assert scene.inputs_read() == 4
    assert not Path(cut).exists()
    scene.check(dead)


def test_a_group_whose_rows_were_deleted_meanwhile_is_done_anew(scene: Scene) -> None:
    dead = scene.kill(ALL_DONE)
    table = scene.table
    path = sorted(task.file.file_path for task in table.scan().plan_files())[0]
    table = manifests.add_position_delete(table, {path: [0]})
    scene.rows = storage.row_multiset(table.scan().to_arrow())
    outcome = scene.run()
    assert outcome.kind is Kind.COMPACTED
    assert scene.inputs_read() == 2
    assert len(scene.of(dead)) == 3
    scene.check(dead)


def test_files_that_left_the_table_take_their_group_along(scene: Scene) -> None:
    dead = scene.kill(ALL_DONE)
    table = scene.table
    table.delete("id < 3")
    scene.rows = storage.row_multiset(scene.table.scan().to_arrow())
    assert scene.run().kind is Kind.COMPACTED
    assert len(scene.of(dead)) == 3
    scene.check(dead)


def test_a_table_that_was_put_back_does_not_get_a_file_twice(scene: Scene) -> None:
    """An expiry of the snapshot that the branch left would delete it."""
    before = scene.table.metadata.current_snapshot_id
    dead = scene.kill(ports.Moment(call="store.committed", when=ports.AFTER), IN_BATCHES)
    table = scene.table
    landed = reachable.names(table, [dead])
    table.manage_snapshots().set_current_snapshot(before).commit()
    assert scene.run(IN_BATCHES).kind is Kind.COMPACTED
    live = {task.file.file_path.rpartition("/")[2] for task in scene.table.scan().plan_files()}
    assert not live & landed
    scene.check(dead)


def test_a_planned_snapshot_that_has_expired_costs_the_work(scene: Scene) -> None:
    dead = scene.kill(ALL_DONE)
    pinned = scene.table.metadata.current_snapshot_id
    lakes.append_small_files(scene.table, 1)
    scene.rows = storage.row_multiset(scene.table.scan().to_arrow())
    scene.table.maintenance.expire_snapshots().by_id(pinned).commit()
    assert scene.run().kind is Kind.COMPACTED
    assert scene.of(dead) == set()
    scene.check(dead, files=5)


def test_a_table_that_was_made_anew_gets_nothing_of_the_old_one(scene: Scene) -> None:
    scene.kill(ALL_DONE)
    scene.lake.catalog.drop_table("db.t")
    table = lakes.append_small_files(lakes.make_table(scene.lake.catalog, "db.t"), 2)
    rows = storage.row_multiset(table.scan().to_arrow())
    assert scene.run().kind is Kind.COMPACTED
    assert storage.row_multiset(scene.table.scan().to_arrow()) == rows


def test_columns_that_came_since_do_not_hurt(scene: Scene) -> None:
    dead = scene.kill(THIRD_TASK)
    with scene.table.update_schema() as update:
        update.add_column("more", LongType())
    scene.rows = storage.row_multiset(scene.table.scan().to_arrow())
    assert scene.run().kind is Kind.COMPACTED
    assert scene.inputs_read() == 4
    scene.check(dead)


def test_a_new_partition_spec_does_not_hurt(scene: Scene) -> None:
    dead = scene.kill(ALL_DONE)
    with scene.table.update_spec() as update:
        update.add_identity("id")
    outcome = scene.run({**OPTIONS, "keep-spec": True})
    assert outcome.kind is Kind.COMPACTED
    assert storage.row_multiset(scene.table.scan().to_arrow()) == scene.rows
    assert scene.of(dead) <= storage.referenced_data_files(scene.table)


def test_work_of_another_version_is_done_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = scene.kill(ALL_DONE)
    monkeypatch.setattr("iceberg_compaction.version.__version__", "99.0")
    assert scene.run().kind is Kind.COMPACTED
    assert (scene.inputs_read(), scene.of(dead)) == (FILES, set())
    scene.check(dead)


def test_a_checkpoint_that_is_too_old_is_removed_with_its_files(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = scene.kill(ALL_DONE)
    catalog = connect.connect(scene.settings)
    run = wiring.new_run(store=wiring.run_store(scene.state))
    work.rewrite_manifests(catalog, "db.t", run)  # it releases the checkpoint, and leaves it
    assert len(scene.of(dead)) == 4
    monkeypatch.setenv("ICEBERG_COMPACTION_KEEP_CHECKPOINTS", "0.001s")
    with pytest.raises(errors.ConfigError, match=r"older than 0\.001 seconds and cannot be used"):
        scene.run(resumes=dead)
    assert scene.run().kind is Kind.COMPACTED
    assert (scene.inputs_read(), scene.of(dead)) == (FILES, set())
    scene.check(dead)
    catalog.close()


def test_each_reason_not_to_resume_is_a_sentence(scene: Scene) -> None:
    finished = scene.run().run_id
    with pytest.raises(errors.ConfigError, match=f"Run {finished} has ended and left nothing to resume"):
        scene.run(resumes=finished)
    lakes.append_small_files(scene.table, FILES)
    early = scene.kill(ports.Moment(call="store.begin", when=ports.AFTER))
    with pytest.raises(errors.ConfigError, match=f"Run {early} left nothing to resume. Its commits stay"):
        scene.run(resumes=early)
    alive = scene.kill(THIRD_TASK, stops=True)
    try:
        with pytest.raises(errors.ConfigError, match=f"Run {alive} is still at work on db.t .process"):
            scene.run(resumes=alive)
    finally:
        scene.wake()
    with pytest.raises(errors.ConfigError, match="no run store"):
        Compactor(scene.lake.catalog, engine="inline").resume(finished)


def test_a_run_without_a_store_stores_nothing_and_works(scene: Scene) -> None:
    outcome = Compactor(scene.lake.catalog, options=OPTIONS, engine="inline").compact_table("db.t")
    assert outcome.kind is Kind.COMPACTED
    scene.check()


def test_what_is_stored_can_be_shown(scene: Scene) -> None:
    dead = scene.kill(THIRD_TASK)
    view = Compactor(scene.settings, engine="inline", state=scene.state).resumable(dead)
    assert (view.run_id, view.tasks, view.stored, view.completed, view.pending) == (dead, 4, 2, 2, 2)
    assert [group.ready for group in view.groups] == [True, True, False, False]
    assert "2 of 4 tasks" in view.sentence
    assert scene.kept.heads()[0].head.owner == dead  # looking changes nothing


def test_recovery_removes_no_file_that_a_checkpoint_names(scene: Scene) -> None:
    dead = scene.kill(THIRD_TASK)
    stray = Path(next(iter(scene.of(dead)))).parent / f"00009-0-abcdef12-{dead}-00000.parquet"
    stray.write_text("never finished")
    catalog = connect.connect(scene.settings)
    work.rewrite_manifests(catalog, "db.t", wiring.new_run(store=wiring.run_store(scene.state)))
    assert not stray.exists()
    assert len(scene.of(dead)) == 2
    late = wiring.new_run(store=wiring.run_store(scene.state))
    late = dataclasses.replace(late, clock=lambda: wiring.new_run().clock() + 2 * recover.STRAGGLING_MS)
    work.rewrite_manifests(catalog, "db.t", late)
    catalog.close()
    assert scene.run().kind is Kind.COMPACTED
    assert scene.inputs_read() == 4
    scene.check(dead)


def test_a_checkpoint_that_is_made_while_others_are_judged_keeps_its_files(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent runs on other machines are watched for a while. Meanwhile another run makes a checkpoint, and dies."""
    dead = scene.kill(THIRD_TASK)
    entries = scene.kept.entries
    (head,) = entries.scan("checkpoint-head/")
    entries.change({head.key: None})

    def over(self: silence.Watch, runs: Any, store: Any) -> Any:
        monkeypatch.undo()
        entries.change({head.key: head.value})
        return self.over(runs, store)

    monkeypatch.setattr(silence.Watch, "over", over)
    assert scene.run().kind is Kind.COMPACTED
    assert scene.inputs_read() == 4
    scene.check(dead)


def test_a_cancel_at_the_end_of_a_dead_runs_work_counts_for_the_runs_own(scene: Scene) -> None:
    dead = scene.kill(ALL_DONE)
    lakes.append_small_files(scene.table, 4)
    scene.rows = storage.row_multiset(scene.table.scan().to_arrow())
    request = CancelRequest(by="somebody", machine="m", at_ms=0)

    def cancel(event: Any) -> None:
        if event.kind == "committed":
            cancel_requests.add(scene.kept.entries, event.run_id, request)

    with pytest.raises(errors.CancelledError, match="was cancelled by somebody") as stopped:
        scene.run(on_event=cancel)
    assert stopped.value.outcome.groups_landed == 4
    assert cancel_requests.find(scene.kept.entries, stopped.value.outcome.run_id) is None
    scene.check(dead, files=8)


def test_a_resumed_run_has_its_forecast_and_the_table_before_and_after_in_its_record(scene: Scene) -> None:
    killed = scene.kill(THIRD_TASK)
    outcome = scene.run(resumes=killed)
    store = wiring.run_store(scene.state)
    record = store.run(outcome.run_id)
    assert record is not None
    assert record.forecast is not None
    assert record.before is not None
    assert record.after is not None
    assert (record.before.data_files, record.after.data_files) == (FILES, 4)
    (listed,) = past_runs.unfinished(store, past_runs.HistoryFilter(), wiring.now_ms())
    assert (listed.run_id, listed.command) == (killed, None)
    assert "another run took over" in listed.sentence
