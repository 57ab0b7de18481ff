"""Expiry on real tables (R70, R71): what is kept can be read, what goes was needed by nothing, and no crash, race or
doubt deletes a file that anybody needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.expressions import EqualTo
from tests.factories import lake as lakes
from tests.factories import runs

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.interfaces import upkeep_operations, wiring
from iceberg_compaction.model.outcome import Maintained
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.operations import upkeep_file
from iceberg_compaction.record import pending_removals
from iceberg_compaction.record.entries import keys
from iceberg_compaction.storage import remove
from iceberg_compaction.storage.s3 import bulk_remove
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.expire_plan import ExpirePlan
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.record.runs import Run

PROPERTIES = {"commit.retry.min-wait-ms": "1", "commit.status-check.min-wait-ms": "1"}
FAR = 10**14  # a moment after all of them
ALL = RetentionGoal(older_than_ms=FAR, allow_recent=True)


def make(lake: Lake, name: str = "t", *, appends: int = 4, **properties: str) -> Table:
    table = lakes.make_table(lake.catalog, lake.name(name), properties=PROPERTIES | properties)
    for number in range(appends):
        table.append(lakes.rows(table.schema().as_arrow(), 4, first=4 * number))
    return table


def expire(table: Table, goal: RetentionGoal = ALL, run: Run | None = None, **more: Any) -> Outcome:
    operation = upkeep_operations.expire(".".join(table.name()), goal, **more)
    return operate.operate(operation, house(table.catalog), run or wiring.new_run())


def plan(table: Table, goal: RetentionGoal = ALL, run: Run | None = None) -> ExpirePlan:
    operation = upkeep_operations.expire(".".join(table.name()), goal, count_files=True)
    return operate.plan_only(operation, house(table.catalog), run or wiring.new_run())


def house(catalog: Catalog) -> operate.House:
    return operate.House(catalog=catalog, engines=wiring.engine_factory("inline"))


def loaded(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def on_disk(table: Table) -> set[str]:
    """All files of the table but its metadata files."""
    folder = Path(table.location().removeprefix("file://"))
    return {path.as_uri() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".metadata.json")}


def needed(table: Table) -> set[str]:
    """The files of all snapshots, by PyIceberg alone."""
    files: set[str] = set()
    for snapshot in table.metadata.snapshots:
        files.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            files.add(manifest.manifest_path)
            files.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return files


def check_readable(table: Table) -> None:
    for snapshot in table.metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_old_snapshots_go_with_what_only_they_needed(lake: Lake) -> None:
    table = make(lake)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3, first=100))
    table.append(lakes.rows(table.schema().as_arrow(), 3, first=200))
    table.manage_snapshots().create_tag(table.metadata.snapshots[1].snapshot_id, "v1").commit()
    before = {s.snapshot_id: table.scan(snapshot_id=s.snapshot_id).to_arrow() for s in table.metadata.snapshots}
    planned = plan(table)
    result = expire(table)
    table = loaded(table)
    assert result.kind is Kind.MAINTAINED, result.sentence
    assert isinstance(result, Maintained)
    assert len(table.metadata.snapshots) == 2
    assert {ref.snapshot_id for ref in table.metadata.refs.values()} == {
        s.snapshot_id for s in table.metadata.snapshots
    }
    for snapshot in table.metadata.snapshots:
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow() == before[snapshot.snapshot_id]
    counts = {step.name.replace(" ", "-"): step.count for step in planned.steps}
    assert counts == result.figures
    assert result.figures["data-files"] == 2  # of the two appends after the tag that the overwrite replaced
    if table.location().startswith("file:"):
        assert on_disk(table) == needed(table)
    else:  # a request for each kind of file, and not one for each file
        assert result.requests.deletes == 3
    again = expire(table)
    assert (again.kind, again.sentence) == (Kind.HEALTHY, "No snapshot can expire: a branch or tag points to each.")


def test_a_table_without_snapshots_and_a_young_one_need_nothing(local_lake: Lake) -> None:
    assert expire(make(local_lake, appends=0)).kind is Kind.HEALTHY
    assert expire(make(local_lake, "young"), RetentionGoal()).kind is Kind.HEALTHY


def test_gc_enabled_false_is_refused(local_lake: Lake) -> None:
    table = make(local_lake, **{"gc.enabled": "false"})
    result = expire(table)
    assert result.kind is Kind.UNSUPPORTED
    assert len(loaded(table).metadata.snapshots) == 4


def test_a_catalog_that_shows_only_some_snapshots_is_refused(local_lake: Lake) -> None:
    table = make(local_lake)
    local_lake.catalog.properties["snapshot-loading-mode"] = "refs"
    result = expire(table)
    assert (result.kind, "snapshot-loading-mode" in result.sentence) == (Kind.UNSUPPORTED, True)
    assert len(loaded(table).metadata.snapshots) == 4


def test_another_entry_that_keeps_its_metadata_elsewhere_is_found(local_lake: Lake, tmp_path: Path) -> None:
    table = make(local_lake)
    alias = local_lake.catalog.register_table("db.elsewhere", table.metadata_location)
    for value in ("of the next commit", "of this one"):
        with alias.transaction() as change:
            change.set_properties({"write.metadata.path": f"file://{tmp_path}/elsewhere", "why": value})
    assert "/elsewhere/" in alias.refresh().metadata_location
    result = expire(table)
    assert (result.kind, "db.elsewhere" in result.sentence) == (Kind.UNSUPPORTED, True)


def test_another_entry_that_cannot_be_loaded_may_be_the_same_table(local_lake: Lake) -> None:
    table = make(local_lake)
    alias = local_lake.catalog.register_table("db.broken", table.metadata_location)
    with alias.transaction() as change:
        change.set_properties({"metadata": "of its own"})
    Path(alias.metadata_location.removeprefix("file://")).write_text("{")
    result = expire(table)
    assert (result.kind, "db.broken" in result.sentence) == (Kind.UNSUPPORTED, True)
    local_lake.catalog.drop_table("db.broken")
    stranger = make(local_lake, "stranger", appends=0)
    Path(stranger.metadata_location.removeprefix("file://")).write_text("{")
    assert any("db.stranger" in note and "--allow-unlisted" in note for note in plan(table).notes)


def test_files_of_another_entry_of_the_same_table_are_not_deleted(local_lake: Lake) -> None:
    """R48, R71"""
    table = make(local_lake)
    local_lake.catalog.register_table("db.alias", table.metadata_location)
    files = on_disk(table)
    result = expire(table)
    assert (result.kind, "db.alias" in result.sentence) == (Kind.UNSUPPORTED, True)
    result = expire(table, ALL.model_copy(update={"keep_files": True}))
    assert result.kind is Kind.MAINTAINED
    assert len(loaded(table).metadata.snapshots) == 1
    assert on_disk(table) == files
    check_readable(local_lake.catalog.load_table("db.alias"))


def test_a_file_with_two_spellings_is_one_file(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retained manifest may name a file by another scheme than an expired one."""
    from iceberg_compaction.metadata.reach import reachable_files
    from iceberg_compaction.operations.expire import doomed_files

    table = make(local_lake)
    real, respelt = reachable_files.content_files, []

    def content_files(io: Any, manifests: Any, **more: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in real(io, manifests, **more):
            paths = pc.replace_substring(batch["path"], "file:///", "file:/" if respelt else "hdfs://host/")
            yield pa.record_batch([paths, batch["kind"], batch["bytes"]], schema=batch.schema)
        respelt.append(True)

    monkeypatch.setattr(reachable_files, "content_files", content_files)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    # Both sides name every file, once by one spelling and once by the other.
    monkeypatch.setattr(doomed_files.DoomedFiles, "without", lambda self, manifests, kept: manifests)
    result = expire(table, RetentionGoal(snapshot_ids=(table.metadata.snapshots[1].snapshot_id,)))
    assert isinstance(result, Maintained)
    assert "data-files" not in result.figures
    check_readable(loaded(table))


@pytest.mark.parametrize("kind", ["manifest", "manifest list"])
@pytest.mark.parametrize("side", ["kept", "expired"])
def test_doubt_deletes_nothing_and_commits_nothing(local_lake: Lake, kind: str, side: str) -> None:
    table = make(local_lake)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    snapshot = table.metadata.snapshots[-1 if side == "kept" else 0]
    path = snapshot.manifest_list if kind == "manifest list" else snapshot.manifests(table.io)[0].manifest_path
    content = Path(path.removeprefix("file://")).read_bytes()
    Path(path.removeprefix("file://")).write_bytes(content[: len(content) // 2])
    files = on_disk(table)
    result = expire(table)
    assert (result.kind, path in result.sentence) == (Kind.FAILED, True), result.sentence
    assert on_disk(table) == files
    assert loaded(table).metadata.snapshots == table.metadata.snapshots


class Meddler:
    """Does something when the change is about to be staged for the first time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
        from iceberg_compaction.operations.expire import expire_change

        real, self.stages = expire_change.ExpireChange.stage, 0

        def stage(change: Any, table: Table, now_ms: int) -> Any:
            staged = real(change, table, now_ms)
            self.stages += 1
            if self.stages == 1:
                act()
            return staged

        monkeypatch.setattr(expire_change.ExpireChange, "stage", stage)


def test_a_snapshot_that_is_tagged_meanwhile_stays(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(local_lake)
    other, second = loaded(table), table.metadata.snapshots[1].snapshot_id
    meddler = Meddler(monkeypatch, lambda: other.manage_snapshots().create_tag(second, "late").commit())
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    other = loaded(table)
    result = expire(table)
    assert (result.kind, meddler.stages) == (Kind.MAINTAINED, 2)
    table = loaded(table)
    assert table.metadata.snapshot_by_id(second) is not None
    assert on_disk(table) == needed(table)
    check_readable(table)


def test_files_of_a_commit_that_came_meanwhile_stay(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback, or a commit on top of an old snapshot, needs its files again."""
    table = make(local_lake)
    first = table.metadata.snapshots[1].snapshot_id
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    other = loaded(table)

    def go_back() -> None:
        other.manage_snapshots().create_branch(first, "b").commit()
        other.refresh().append(lakes.rows(other.schema().as_arrow(), 2, first=900), branch="b")

    Meddler(monkeypatch, go_back)
    assert expire(table).kind is Kind.MAINTAINED
    table = loaded(table)
    assert set(table.metadata.refs) == {"main", "b"}
    assert on_disk(table) >= needed(table)
    check_readable(table)


def test_a_table_that_was_put_in_its_place_is_left_alone(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """R50: the uuid is checked on the metadata from which the deletion is decided."""
    table = make(local_lake)
    files = on_disk(table)
    real = publish.reload
    calls = []

    def swapped(given: Table) -> Table:
        calls.append(given)
        if len(calls) > 1:  # after the commit
            raise errors.ConflictError("The table db.t was dropped and created anew, or another was put in its place.")
        return real(given)

    monkeypatch.setattr(publish, "reload", swapped)
    result = expire(table)
    assert result.kind is Kind.MAINTAINED
    assert isinstance(result, Maintained)
    assert any("still there" in note for note in result.notes)
    assert on_disk(table) == files


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = wiring.store_to_write(str(tmp_path / "runs.db"))
    yield opened
    opened.entries.close()


def pending(table: Table, store: Any) -> list[pending_removals.PendingRemoval]:
    from iceberg_compaction.metadata import table_folders

    return pending_removals.PendingRemovals(store.entries).of(table_folders.entry(loaded(table)))


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_commit_deletes_nothing_and_the_next_run_finds_out(
    local_lake: Lake, store: Any, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    table = make(local_lake)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    files = on_disk(table)
    catalog = type(table.catalog)
    real = catalog.commit_table
    with monkeypatch.context() as patch:
        state = {"sent": 0}

        def doubtful(self: Any, given: Table, requirements: Any, updates: Any) -> Any:
            state["sent"] += 1
            if landed and state["sent"] == 1:
                real(self, given, requirements, updates)
            raise TimeoutError("no answer")

        patch.setattr(catalog, "commit_table", doubtful)
        patch.setattr(publish, "reload", _raising(publish.reload, state))
        result = expire(table, run=wiring.new_run(store=store))
    assert result.kind is Kind.FAILED, result.sentence
    assert on_disk(table) == files
    assert len(loaded(table).metadata.snapshots) == (1 if landed else 6)
    assert len(pending(table, store)) == 1
    result = expire(table, run=wiring.new_run(store=store))
    assert result.kind is Kind.MAINTAINED, result.sentence
    assert pending(table, store) == []
    assert on_disk(table) == needed(loaded(table))


def _raising(real: Any, state: dict[str, int]) -> Any:
    def reload(table: Table) -> Table:
        if state["sent"]:
            raise errors.UnreachableError("The catalog does not answer.")
        return real(table)

    return reload


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_removal_that_was_cut_off_is_finished_by_the_next_run(
    local_lake: Lake, store: Any, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """Killed after so many requests to delete."""
    table = make(local_lake)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    real, calls = bulk_remove._remove, []
    with monkeypatch.context() as patch:

        def dying(io: Any, batch: list[str], proof: Any) -> list[str]:
            calls.append(batch)
            if len(calls) > batches:
                raise KeyboardInterrupt
            return real(io, batch, proof)

        patch.setattr(bulk_remove, "_remove", dying)
        with pytest.raises(KeyboardInterrupt):
            expire(table, run=wiring.new_run(store=store))
    assert len(loaded(table).metadata.snapshots) == 1
    assert on_disk(table) > needed(loaded(table))
    shown = plan(table, RetentionGoal(), runs.make_run(store=store))
    assert shown.unfinished
    result = expire(table, RetentionGoal(), wiring.new_run(store=store))
    assert result.kind is Kind.MAINTAINED, result.sentence
    assert on_disk(table) == needed(loaded(table))
    assert pending(table, store) == []
    check_readable(loaded(table))


def test_files_that_cannot_be_deleted_are_named_and_tried_again(
    local_lake: Lake, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(local_lake)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    with monkeypatch.context() as patch:
        patch.setattr(remove, "_remove", lambda io, path, proof: not path.endswith(".parquet"))
        result = expire(table, run=wiring.new_run(store=store))
    assert isinstance(result, Maintained)
    assert any("could not be removed" in note for note in result.notes)
    assert "manifests" not in result.figures  # they lead to what is left
    assert expire(table, RetentionGoal(), wiring.new_run(store=store)).kind is Kind.MAINTAINED
    assert on_disk(table) == needed(loaded(table))


def test_a_snapshot_that_a_run_is_based_on_stays(local_lake: Lake, store: Any) -> None:
    """R71"""
    from iceberg_compaction.model import run_record

    table = make(local_lake)
    where = run_record.Process(host="elsewhere/1", pid=1, started="")
    start = runs.make_start(table, "a" * 32, where)
    store.begin(start)
    result = expire(table, run=wiring.new_run(store=store))
    assert result.kind is Kind.HEALTHY, result.sentence
    shown = plan(table, run=runs.make_run(store=store))
    assert any("a" * 32 in step.sentence for step in shown.kept)
    store.finish("a" * 32)
    assert expire(table, run=wiring.new_run(store=store)).kind is Kind.MAINTAINED


def test_a_saved_plan_is_not_exceeded(local_lake: Lake, tmp_path: Path) -> None:
    table = make(local_lake)
    saved = plan(table)
    upkeep_file.save(saved, tmp_path / "plan.json")
    table.append(lakes.rows(table.schema().as_arrow(), 2, first=50))
    operation = upkeep_file.load_operation(tmp_path / "plan.json")
    result = operate.operate(operation, house(table.catalog), wiring.new_run())
    assert result.kind is Kind.MAINTAINED, result.sentence
    assert len(loaded(table).metadata.snapshots) == 2  # the head of the plan was not old then
    again = operate.operate(operation, house(table.catalog), wiring.new_run())
    assert (again.kind, again.sentence) == (Kind.HEALTHY, "Nothing of the plan is left to do.")


def test_unused_schemas_and_specs_go_on_request(local_lake: Lake) -> None:
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import StringType

    table = make(local_lake, appends=1)
    with table.update_schema() as update:
        update.add_column("more", StringType())
    with table.update_spec() as spec:
        spec.add_field("name", IdentityTransform(), "name_part")
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    goal = ALL.model_copy(update={"clean_metadata": True})
    assert {step.name for step in plan(table, goal).steps} >= {"schemas", "partition specs"}
    result = expire(table, goal)
    assert isinstance(result, Maintained)
    assert (result.figures["schemas"], result.figures["partition-specs"]) == (1, 1)
    table = loaded(table)
    assert [len(table.metadata.schemas), len(table.metadata.partition_specs)] == [1, 1]
    check_readable(table)


def test_statistics_of_expired_snapshots_go(local_lake: Lake) -> None:
    from pyiceberg.table.statistics import StatisticsFile

    table = make(local_lake, appends=2)
    paths = []
    for snapshot in table.metadata.snapshots:
        path = f"{table.location()}/metadata/{snapshot.snapshot_id}.stats"
        Path(path.removeprefix("file://")).write_bytes(b"PFA1")
        file = StatisticsFile(
            **{
                "snapshot-id": snapshot.snapshot_id,
                "statistics-path": path,
                "file-size-in-bytes": 4,
                "file-footer-size-in-bytes": 4,
                "blob-metadata": [],
            }
        )
        table.update_statistics().set_statistics(file).commit()
        paths.append(path)
    result = expire(table)
    assert isinstance(result, Maintained)
    assert result.figures["statistics-files"] == 1
    assert [Path(path.removeprefix("file://")).exists() for path in paths] == [False, True]
    assert [each.snapshot_id for each in loaded(table).metadata.statistics] == [table.metadata.snapshots[1].snapshot_id]


def test_runs_that_can_be_undone_are_named(local_lake: Lake) -> None:
    table = make(local_lake, appends=6)
    compactor = Compactor(local_lake.settings, engine="inline", options={"min-input-files": 2})
    run = compactor.compact_table("db.t")
    assert run.kind is Kind.COMPACTED
    named = plan(table, RetentionGoal(snapshot_ids=(table.metadata.snapshots[0].snapshot_id,)))
    assert any(f"Run {run.run_id} can be undone" in note for note in named.notes)
    lost = plan(table)
    assert any(f"run {run.run_id} cannot be undone any more" in note for note in lost.notes)


def test_files_are_deleted_at_a_pace(local_lake: Lake) -> None:
    table = make(local_lake)
    table.overwrite(lakes.rows(table.schema().as_arrow(), 3))
    waits: list[float] = []
    run = runs.make_run(pause=waits.append, clock=lambda: 10**13)
    result = expire(table, run=run, per_second=2.0)
    assert isinstance(result, Maintained)
    assert sum(waits) >= 1.0
    assert on_disk(table) == needed(loaded(table))


def test_deleted_rows_stay_deleted_and_old_files_of_them_go(local_lake: Lake) -> None:
    table = make(local_lake)
    table.delete(EqualTo("id", 5))
    rows = table.scan().to_arrow()
    assert expire(table).kind is Kind.MAINTAINED
    table = loaded(table)
    assert table.scan().to_arrow() == rows
    assert on_disk(table) == needed(table)


def test_a_damaged_record_of_a_removal_is_let_go_and_told_once(
    local_lake: Lake, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(local_lake)
    key = keys.key("removal", str(table.metadata.table_uuid), "dead", 0)
    store.entries.change({key: "1 no-base64"})
    for _ in range(2):
        assert expire(table, run=wiring.new_run(store=store)).ok
        table.append(lakes.rows(table.schema().as_arrow(), 3))
    told = [each for each in caplog.messages if "damaged" in each or "not readable" in each]
    assert len(told) == 1, told
    assert list(store.entries.scan(keys.prefix("removal"))) == []
