"""`verify` proves a good run from its files alone, and tells a bad one: a row lost, revived or changed, a file damaged
or gone. It says why where it cannot check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType
from tests.factories import manifests, rewrites, runs
from tests.factories.cities import rows
from tests.factories.city_runs import ENCODED, again, city_table, compact, compactor, delete_id, expire, local
from tests.factories.lake import Lake, append_small_files, close, file_lake, make_table

from iceberg_compaction import Compactor, errors
from iceberg_compaction.model.verification import CheckVerdict
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

    from iceberg_compaction.model.verification import Verification

FAKE = "f" * 32


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = file_lake(tmp_path)
    yield made
    close(made)


def verify(lake: Lake, run_id: str) -> Verification:
    return compactor(lake).verify(run_id, "db.t")


def parent_of(table: Table) -> int | None:
    snapshot = again(table).current_snapshot()
    assert snapshot is not None
    return snapshot.parent_snapshot_id


def commit_wrong(table: Table, **wrong: Any) -> str:
    """A run whose rewrite is not right."""
    properties = {"compaction.run-id": FAKE, "compaction.proof.rows": "18"}
    request = rewrites.rewrite_request(again(table), properties=properties, **wrong)
    replace_files.replace(again(table), request, runs.make_run())
    return FAKE


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("copying", ["never", "always"])
def test_a_good_run_is_proved_partition_by_partition(lake: Lake, version: str, copying: str) -> None:
    city_table(lake, **{"format-version": version})
    checked = verify(lake, compact(lake, **{"copy-row-groups": copying}))
    (commit,) = checked.commits
    assert (checked.verdict, commit.with_inputs, commit.rows_written) == (CheckVerdict.PROVED, True, 18)
    found = {part.partition: (part.verdict, part.rows_read, part.files_read) for part in commit.partitions}
    assert found == {f'{{"city":"{city}"}}': (CheckVerdict.PROVED, 9, 3) for city in ("Rome", "Oslo")}


def test_deletes_that_the_run_applied_are_applied_again_and_later_ones_are_not(lake: Lake) -> None:
    table = city_table(lake)
    rome = next(file.file_path for file in rewrites.live_data_files(table) if file.partition[0] == "Rome")
    table = manifests.add_position_delete(table, {rome: [0]})
    delete_id(table, 5, "Oslo")
    run_id = compact(lake)
    delete_id(again(table), 7, "Oslo")
    checked = verify(lake, run_id)
    assert (checked.verdict, checked.commits[0].rows_written) == (CheckVerdict.PROVED, 16), checked.sentence


def test_a_change_of_schema_since_does_not_matter(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    with again(table).update_schema() as update:
        update.add_column("size", IntegerType()).rename_column("city", "town")
    assert verify(lake, run_id).verdict is CheckVerdict.PROVED


def test_rows_that_moved_to_another_spec_are_compared_together(lake: Lake) -> None:
    table = city_table(lake)
    with table.update_spec() as update:
        update.remove_field("city").add_field("id", IdentityTransform(), "id_part")
    (commit,) = verify(lake, compact(lake, **{"rewrite-all": True})).commits
    assert (commit.verdict, [part.partition for part in commit.partitions]) == (CheckVerdict.PROVED, [None])


def test_the_record_alone_proves_a_run_whose_inputs_are_gone(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    expire(table, parent_of(table))
    checked = verify(lake, run_id)
    assert (checked.verdict, checked.commits[0].with_inputs) == (CheckVerdict.PROVED, False)
    assert "has expired" in checked.sentence


def test_damage_in_the_snapshot_before_says_nothing_against_the_run(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    remove_list_of_parent(table)
    checked = verify(lake, run_id)
    assert (checked.verdict, checked.commits[0].with_inputs) == (CheckVerdict.PROVED, False)
    assert "the snapshot before it cannot be read (Manifest list" in checked.sentence


def test_damage_in_the_snapshot_before_says_nothing_against_a_rewrite_of_manifests(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compactor(lake).rewrite_manifests("db.t", target_size="1MiB").run_id
    remove_list_of_parent(table)
    assert verify(lake, run_id).verdict is CheckVerdict.UNCHECKED


def remove_list_of_parent(table: Table) -> None:
    parent = again(table).metadata.snapshot_by_id(parent_of(table) or -1)
    assert parent is not None
    local(parent.manifest_list).unlink()


@pytest.mark.parametrize("options", [{"copy-row-groups": "always"}, {"verify": "counts"}])
def test_without_a_checksum_of_rows_the_inputs_are_needed(lake: Lake, options: dict[str, str]) -> None:
    table = make_table(lake.catalog, "db.t")
    append_small_files(table, 3, 50)
    run_id = compact(lake, **options)
    assert verify(lake, run_id).verdict is CheckVerdict.PROVED
    expire(table, parent_of(table))
    checked = verify(lake, run_id)
    assert (checked.verdict, checked.commits[0].rows_written) == (CheckVerdict.UNCHECKED, 150)
    assert "no checksum of rows" in checked.sentence


def test_a_deep_proof_has_a_checksum_of_copied_rows(lake: Lake) -> None:
    table = make_table(lake.catalog, "db.t")
    append_small_files(table, 3, 50)
    run_id = compact(lake, **{"copy-row-groups": "always", "verify": "deep"})
    expire(table, parent_of(table))
    assert verify(lake, run_id).verdict is CheckVerdict.PROVED


def test_a_file_of_the_run_that_is_gone_or_damaged_differs_and_is_named(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    first, second = (local(file.file_path) for file in rewrites.live_data_files(again(table)))
    first.unlink()
    content = bytearray(second.read_bytes())
    content[8:40] = bytes(32)
    second.write_bytes(content)
    (commit,) = verify(lake, run_id).commits
    assert commit.verdict is CheckVerdict.DIFFERS
    named = {path for part in commit.partitions for path in part.file_paths}
    assert {local(path) for path in named} == {first, second}


def test_a_row_that_another_takes_the_place_of_differs(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    path = local(rewrites.live_data_files(again(table))[0].file_path)
    content, size = pq.read_table(path), path.stat().st_size
    ids = [number + 1000 for number in content["id"].to_pylist()]
    changed = content.set_column(0, content.schema.field(0), pa.array(ids, pa.int64()))
    pq.write_table(changed, path)
    checked = verify(lake, run_id)
    assert checked.verdict is CheckVerdict.DIFFERS, (checked.sentence, size, path.stat().st_size)


def test_a_lost_row_differs(lake: Lake) -> None:
    table = city_table(lake)
    lost = commit_wrong(table, keep=set(range(18)) - {4})
    checked = verify(lake, lost)
    assert checked.verdict is CheckVerdict.DIFFERS
    assert "recorded 18 rows" in checked.sentence
    (bad,) = [part for part in checked.commits[0].partitions if part.verdict is CheckVerdict.DIFFERS]
    assert (bad.partition, bad.rows_read, bad.rows_written) == ('{"city":"Rome"}', 9, 8)


def test_a_revived_row_differs(lake: Lake) -> None:
    table = city_table(lake)
    delete_id(table, 5, "Oslo")
    checked = verify(lake, commit_wrong(table))
    assert checked.verdict is CheckVerdict.DIFFERS
    (bad,) = [part for part in checked.commits[0].partitions if part.verdict is CheckVerdict.DIFFERS]
    assert (bad.partition, bad.rows_read, bad.rows_written) == ('{"city":"Oslo"}', 8, 9)


def test_an_input_that_is_gone_cannot_be_compared(lake: Lake) -> None:
    table = city_table(lake)
    gone = next(file.file_path for file in rewrites.live_data_files(table) if file.partition[0] == "Rome")
    run_id = compact(lake)
    local(gone).unlink()
    (commit,) = verify(lake, run_id).commits
    verdicts = {part.partition: part.verdict for part in commit.partitions}
    assert verdicts == {'{"city":"Rome"}': CheckVerdict.UNCHECKED, '{"city":"Oslo"}': CheckVerdict.PROVED}
    assert commit.verdict is CheckVerdict.UNCHECKED
    assert gone in commit.sentence


def test_an_expired_snapshot_of_a_remembered_run_is_named(lake: Lake, tmp_path: Path) -> None:
    table = city_table(lake)
    remembering = Compactor(lake.catalog, engine="inline", options=ENCODED, state=tmp_path / "state.db")
    outcome = remembering.compact_table("db.t")
    table = again(table)
    table.append(rows(50))
    expire(table, outcome.snapshot_id)
    checked = remembering.verify(outcome.run_id)
    assert checked.verdict is CheckVerdict.UNCHECKED
    assert f"Snapshot {outcome.snapshot_id} cannot be checked: it has expired." in checked.sentence


def test_all_commits_of_a_run_are_checked(lake: Lake) -> None:
    city_table(lake)
    run_id = compact(lake, **{"partial-progress.enabled": True, "partial-progress.max-commits": 2})
    checked = verify(lake, run_id)
    assert (checked.verdict, len(checked.commits)) == (CheckVerdict.PROVED, 2), checked.sentence


def test_a_rewrite_of_manifests_lists_the_same_files(lake: Lake) -> None:
    city_table(lake)
    run_id = compactor(lake).rewrite_manifests("db.t", target_size="1MiB").run_id
    checked = verify(lake, run_id)
    assert (checked.verdict, "the same 6 data files" in checked.sentence) == (CheckVerdict.PROVED, True)


def test_a_run_that_the_table_does_not_know_is_wrong_usage(lake: Lake) -> None:
    city_table(lake)
    with pytest.raises(errors.ConfigError, match="has no snapshot of run"):
        verify(lake, "0" * 32)
    with pytest.raises(errors.ConfigError, match="name its table"):
        compactor(lake).verify("0" * 32)
