"""R25: what another writer does between our choice of delete files and our commit, or in the middle of that, and what
becomes of the groups. Rows are those of a table that the others alone have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import manifests, racing, reader, storage
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table
from tests.integration.test_clean_deletes import clean, deletes, fresh, keys, paths, rows

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.catalog import publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from tests.factories.lake import Lake


@pytest.fixture
def table(local_lake: Lake) -> Table:
    return contested(make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY))


def contested(table: Table) -> Table:
    """Rome has position and equality deletes that reach its older file; Oslo has none."""
    table.append(rows(1, 2, 3, 4))
    (path,) = paths(table)
    table = manifests.add_position_delete(fresh(table), {path: [3]})
    table = manifests.add_position_delete(fresh(table), {path: [3, 2]})
    table = manifests.add_equality_delete(fresh(table), keys(1), like=path)
    table.append(rows(1, 5))
    table.append(rows(9, city="Oslo"))
    return fresh(table)


def old_file(table: Table) -> str:
    return next(path for path in paths(table) if manifests.data_file_of(fresh(table), path).record_count == 4)


def append(table: Table) -> None:
    fresh(table).append(rows(1, 2, 3))


def new_position_delete(table: Table) -> None:
    manifests.add_position_delete(fresh(table), {old_file(table): [1]})


def new_equality_delete(table: Table) -> None:
    manifests.add_equality_delete(fresh(table), keys(2, 5), like=old_file(table))


def remove_elsewhere(table: Table) -> None:
    _remove(table, next(path for path in paths(table) if "Oslo" in path))


def remove_new_file(table: Table) -> None:
    """A file of the same partition that no delete reaches."""
    _remove(table, next(p for p in paths(table) if "Rome" in p and p != old_file(table)))


def remove_data_file(table: Table) -> None:
    _remove(table, old_file(table))


def compact(table: Table) -> None:
    options = {"rewrite-all": True}
    outcome = Compactor(table.catalog, engine="inline", options=options).compact_table(".".join(table.name()))
    assert outcome.kind is Kind.COMPACTED, outcome.sentence


def same_by_others(table: Table) -> None:
    assert clean(table).kind is Kind.MAINTAINED


def merge_by_others(table: Table) -> None:
    assert clean(table, merge=True).kind is Kind.MAINTAINED


def manifests_by_others(table: Table) -> None:
    Compactor(table.catalog, engine="inline").rewrite_manifests(".".join(table.name()))


def add_column(table: Table) -> None:
    from pyiceberg.types import IntegerType

    with fresh(table).update_schema() as update:
        update.add_column("size", IntegerType())


def rewrite_keeps_number(table: Table) -> None:
    """A rewrite with a number of its own: what it wrote is as old as the file that it replaced, deletes not applied."""
    path = old_file(table)
    file = manifests.data_file_of(fresh(table), path)
    table = fresh(table)
    twin = f"{path}.twin.parquet"
    with table.io.new_input(path).open() as stream, table.io.new_output(twin).create() as target:
        target.write(stream.read())
    made = manifests.fake_data_file(
        table,
        "x",
        partition=file.partition,
        file_path=twin,
        record_count=4,
        file_size_in_bytes=file.file_size_in_bytes,
    )
    manifests.add_files(table, [made], sequence_number=1)


def _remove(table: Table, path: str) -> None:
    table = fresh(table)
    file = manifests.data_file_of(table, path)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(file)


HARMLESS = [append, new_position_delete, new_equality_delete, remove_elsewhere, remove_new_file, add_column]
HARMLESS += [manifests_by_others]
CONFLICTS = [remove_data_file, compact, merge_by_others, rewrite_keeps_number]


def race(table: Table, monkeypatch: pytest.MonkeyPatch, act: Callable[[Table], None], *, late: bool) -> object:
    """`late`: the other writer comes between our validation and the publication."""
    if late:
        racing.before_publishing(monkeypatch, lambda: act(table))
        return clean(table)
    real = publish.reload
    calls = iter([lambda: act(table)])

    def reload(given: Table) -> Table:
        next(calls, lambda: None)()
        return real(given)

    monkeypatch.setattr(publish, "reload", reload)
    return clean(table)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("act", HARMLESS)
def test_harmless_commits_of_others_do_not_stop_it(
    table: Table, act: Callable[[Table], None], late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = race(table, monkeypatch, act, late=late)
    assert outcome.kind is Kind.MAINTAINED, outcome.sentence
    assert (outcome.groups_landed, outcome.groups_conflicted) == (1, 0)
    table = fresh(table)
    expected = reader.rows(table, table.snapshot_by_id(table.current_snapshot().parent_snapshot_id))
    assert reader.rows(table) == expected
    assert not storage.files_under(table) - reader.known_files(table)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("act", CONFLICTS)
def test_commits_of_others_on_the_same_files_stop_it(
    table: Table, act: Callable[[Table], None], late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = race(table, monkeypatch, act, late=late)
    assert outcome.kind is Kind.CONFLICT, outcome.sentence
    table = fresh(table)
    assert "compaction.run-id" not in table.current_snapshot().summary.additional_properties or act in (
        compact,
        merge_by_others,
    )
    assert (
        not storage.files_under(table)
        - reader.known_files(table)
        - {path for path in storage.files_under(table) if "twin" in path}
    )
    before = reader.rows(table)
    assert clean(table).ok
    assert reader.rows(fresh(table)) == before


@pytest.mark.parametrize("late", [False, True])
def test_who_finds_all_done_is_content(table: Table, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reader.rows(table)
    outcome = race(table, monkeypatch, same_by_others, late=late)
    assert outcome.kind is Kind.CONFLICT  # the group's files are gone
    assert reader.rows(fresh(table)) == before
    assert clean(table).kind is Kind.HEALTHY
    assert len(deletes(table)) == 1
