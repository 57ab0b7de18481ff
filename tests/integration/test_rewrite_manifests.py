"""Manifests of real tables, written anew while others write, too: what they list and since when stays, a lost race
costs nothing, and whatever fails leaves no file behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.transforms import BucketTransform
from tests.factories import manifests as made
from tests.factories import work
from tests.factories.cities import BY_CITY, SCHEMA, rows
from tests.factories.lake import make_table

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.operations.rewrite_manifests import cluster_entries, manifest_rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome

PROPERTIES = {
    "commit.manifest-merge.enabled": "false",
    "commit.retry.min-wait-ms": "1",
    "commit.status-check.min-wait-ms": "1",
}


def make(lake: Lake, name: str = "t", *, appends: int = 5, **properties: str) -> Table:
    table = make_table(lake.catalog, lake.name(name), SCHEMA, spec=BY_CITY, properties=PROPERTIES | properties)
    for number in range(appends):
        table.append(rows(number * 6))
    return table


def loaded(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def rewrite(
    table: Table,
    goal: manifest_rewrite.ManifestGoal = manifest_rewrite.ANY,
    *,
    branch: str = "main",
    **events: Callable[[], None],
) -> Outcome:
    """Rewrite; `committing=...` is done when all is written, before the first attempt."""

    def on_event(event: Event) -> None:
        if event.kind == "committing" and "committing" in events:
            events["committing"]()

    run = wiring.new_run(on_event=on_event)
    return work.rewrite_manifests(table.catalog, ".".join(table.name()), run, goal, branch)


def listed(table: Table, branch: str = "main") -> dict[tuple[str, Any], tuple[Any, ...]]:
    """Every live entry of the branch: what it says, and what it inherits."""
    table = loaded(table)
    snapshot = table.metadata.snapshot_by_name(branch)
    assert snapshot is not None
    found = {}
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            facts = (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, manifest.partition_spec_id)
            more = (file.content, list(file.partition), file.record_count, file.lower_bounds, file.equality_ids)
            found[file.file_path, file.content] = (*facts, *more)
    return found


def manifest_rows(table: Table) -> list[Any]:
    table = loaded(table)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifests(table.io)


def files_on_disk(table: Table) -> set[str]:
    root = Path(table.location().removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file() and not path.name.endswith(".metadata.json")}


@pytest.mark.parametrize("version", ["1", "2"])
def test_entries_stay_and_a_second_run_finds_nothing_to_do(local_lake: Lake, version: str) -> None:
    table = make(local_lake, **{"format-version": version})
    before, ids = listed(table), sorted(table.scan().to_arrow()["id"].to_pylist())
    outcome = rewrite(table)
    assert (outcome.kind, outcome.manifests_removed, outcome.manifests_added) == (Kind.COMPACTED, 5, 1)
    assert listed(table) == before
    assert sorted(loaded(table).scan().to_arrow()["id"].to_pylist()) == ids
    (manifest,) = manifest_rows(table)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.existing_rows_count) == (0, 10, 30)
    assert manifest.min_sequence_number == (1 if version == "2" else 0)
    assert [(one.lower_bound, one.upper_bound) for one in manifest.partitions] == [(b"Oslo", b"Rome")]
    again = rewrite(table)
    assert again.kind is Kind.HEALTHY
    assert again.sentence == "Nothing to do: the only manifest of data files (spec 0) has none to be joined with."
    loaded(table).append(rows(100))  # others go on from there
    assert len(loaded(table).scan().to_arrow()) == 36


def test_the_summary_is_that_of_iceberg(local_lake: Lake) -> None:
    table = make(local_lake)
    before = loaded(table).current_snapshot()
    outcome = rewrite(table)
    snapshot = loaded(table).current_snapshot()
    assert before is not None
    assert before.summary is not None
    assert snapshot is not None
    assert snapshot.summary is not None
    summary = snapshot.summary.additional_properties
    assert snapshot.summary.operation.value == "replace"
    counted = {"manifests-created": "1", "manifests-kept": "0", "manifests-replaced": "5", "entries-processed": "10"}
    assert counted.items() <= summary.items()
    assert summary["compaction.run-id"] == outcome.run_id
    totals = {key: value for key, value in before.summary.additional_properties.items() if key.startswith("total-")}
    assert totals
    assert totals.items() <= summary.items()
    assert not [key for key in summary if key.startswith(("added-", "deleted-", "removed-"))]
    names = [Path(path).name for path in (snapshot.manifest_list, manifest_rows(table)[0].manifest_path)]
    assert all(outcome.run_id in name for name in names)


def test_every_spec_and_content_has_manifests_of_its_own(local_lake: Lake) -> None:
    table = make(local_lake)
    paths = sorted(path for path, _ in listed(table))
    for path in paths[:4]:
        table = made.add_position_delete(loaded(table), {path: [0]})
    with loaded(table).update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    for number in range(3):
        loaded(table).append(rows(1000 + number * 6))
    before = listed(table)
    kinds = {(row.content.name, row.partition_spec_id) for row in manifest_rows(table)}
    assert kinds == {("DATA", 0), ("DELETES", 0), ("DATA", 1)}
    old = rewrite(table, manifest_rewrite.ManifestGoal(spec_id=0))
    assert (old.manifests_removed, old.manifests_added) == (5 + 4, 2)
    assert rewrite(table).manifests_removed == 3
    assert listed(table) == before
    assert {(row.content.name, row.partition_spec_id) for row in manifest_rows(table)} == kinds
    assert len(manifest_rows(table)) == 3
    assert len(loaded(table).scan().to_arrow()) == 30 + 18 - 4


def test_a_branch_is_rewritten_and_no_other(local_lake: Lake) -> None:
    table = make(local_lake)
    head = loaded(table).current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    before = listed(table)
    outcome = rewrite(table, branch="audit")
    assert outcome.kind is Kind.COMPACTED
    refs = loaded(table).metadata.refs
    assert (refs["main"].snapshot_id, refs["audit"].snapshot_id) == (head.snapshot_id, outcome.snapshot_id)
    assert listed(table, "audit") == before == listed(table)


def test_files_that_are_appended_meanwhile_stay_in_front(local_lake: Lake) -> None:
    table = make(local_lake)
    before = listed(table)
    outcome = rewrite(table, committing=lambda: loaded(table).append(rows(500)))
    assert (outcome.kind, outcome.attempts) == (Kind.COMPACTED, 1)
    assert before.items() <= listed(table).items()
    assert len(listed(table)) == 12
    assert [row.added_files_count for row in manifest_rows(table)] == [2, 0]


def test_a_lost_race_costs_one_manifest_list(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(local_lake)
    before, publishing, clusters = listed(table), publish.publish, []
    clustering = cluster_entries.cluster
    races = iter([500, 600])

    def late(*given: Any) -> None:
        if first := next(races, None):
            loaded(table).append(rows(first))
        publishing(*given)

    monkeypatch.setattr(publish, "publish", late)
    monkeypatch.setattr(cluster_entries, "cluster", lambda *given: clusters.append(1) or clustering(*given))
    on_disk = files_on_disk(table)
    outcome = rewrite(table)
    assert (outcome.kind, outcome.attempts, len(clusters)) == (Kind.COMPACTED, 3, 1)
    assert before.items() <= listed(table).items()
    new = [path for path in files_on_disk(table) - on_disk if outcome.run_id in path]
    assert len(new) == 2  # a manifest and a manifest list: those of the lost attempts are gone


def _lose_half(table: Table) -> None:
    loaded(table).delete("id < 9")


@pytest.mark.parametrize("other", [rewrite, _lose_half])
def test_manifests_that_others_replaced_are_a_conflict(local_lake: Lake, other: Callable[[Table], Any]) -> None:
    table = make(local_lake)

    def meanwhile() -> None:
        other(table)
        after.update(listed(table))
        on_disk.update(files_on_disk(table))

    after: dict[Any, Any] = {}
    on_disk: set[str] = set()
    outcome = rewrite(table, committing=meanwhile)
    assert outcome.kind is Kind.CONFLICT
    assert "no longer in the table" in outcome.sentence
    assert listed(table) == after
    assert files_on_disk(table) == {path for path in on_disk if outcome.run_id not in path}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, errors.ProofError])
def test_what_fails_before_it_is_published_leaves_nothing(
    local_lake: Lake, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(local_lake)
    before, on_disk = listed(table), files_on_disk(table)

    def stop(*given: Any) -> None:
        assert len(files_on_disk(table)) > len(on_disk)
        raise error("stopped")

    monkeypatch.setattr(cluster_entries, "read_back", stop)
    if error is KeyboardInterrupt:
        with pytest.raises(error):
            rewrite(table)
    else:
        outcome = rewrite(table)
        assert outcome.kind is Kind.FAILED
        assert ("A defect in iceberg-compaction" in outcome.sentence) == (error is RuntimeError)
    assert (listed(table), files_on_disk(table)) == (before, on_disk)


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_state_is_looked_up_and_nothing_is_deleted(
    local_lake: Lake, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(local_lake)
    before, publishing = listed(table), publish.publish

    def silent(*given: Any) -> None:
        if landed:
            publishing(*given)
        raise errors.StateUnknownError("no answer")

    monkeypatch.setattr(publish, "publish", silent)
    outcome = rewrite(table)
    assert outcome.kind is (Kind.COMPACTED if landed else Kind.FAILED)
    assert landed or "nothing was deleted" in outcome.sentence
    assert [path for path in files_on_disk(table) if outcome.run_id in path]
    assert listed(table) == before


def test_a_manifest_that_was_written_wrong_is_not_committed(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the last block of entries is lost on its way."""
    table = make(local_lake)
    before, on_disk, rolled = listed(table), files_on_disk(table), cluster_entries._rolled

    def forgetful(blocks: Any, *given: Any) -> Any:
        return rolled([(count, block[:0]) for count, block in blocks], *given)

    monkeypatch.setattr(cluster_entries, "_rolled", forgetful)
    outcome = rewrite(table)
    assert outcome.kind is Kind.FAILED
    assert "The new manifests list 0 files" in outcome.sentence
    assert (listed(table), files_on_disk(table)) == (before, on_disk)


def test_the_library_plans_and_rewrites(local_lake: Lake) -> None:
    table = make(local_lake)
    compactor = Compactor(local_lake.catalog, engine="inline")
    found = compactor.plan_manifests(local_lake.name("t"), target_size="1MiB")
    assert (found.replaced, found.outputs, found.target_size_bytes) == (5, 1, 1 << 20)
    assert found.groups[0].spread == 5
    assert len(manifest_rows(table)) == 5
    assert compactor.rewrite_manifests(local_lake.name("t")).manifests_added == 1
    assert len(manifest_rows(table)) == 1


def test_wishes_that_cannot_be_are_refused(local_lake: Lake) -> None:
    table = make(local_lake, appends=1)
    with pytest.raises(errors.ConfigError, match="has no partition spec 7; it has 0"):
        rewrite(table, manifest_rewrite.ManifestGoal(spec_id=7))
    with pytest.raises(errors.ConfigError, match=r"64.0 KiB at least"):
        manifest_rewrite.ManifestGoal(target_size_bytes=1000)
    with pytest.raises(errors.ConfigError, match="no branch 'mian'"):
        rewrite(table, branch="mian")


def test_an_empty_table_has_nothing_to_do(local_lake: Lake) -> None:
    outcome = rewrite(make(local_lake, appends=0))
    assert (outcome.kind, outcome.sentence) == (Kind.HEALTHY, "Nothing to do: the branch has no live files.")


def test_specs_of_columns_that_are_gone_are_left_alone(local_lake: Lake) -> None:
    table = make(local_lake)
    with table.update_spec() as update:
        update.remove_field("city")
    with loaded(table).update_schema() as update_schema:
        update_schema.delete_column("city")
    outcome = rewrite(table)
    assert outcome.kind is Kind.HEALTHY
    assert "a column that the table no longer has" in outcome.sentence
