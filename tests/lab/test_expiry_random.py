"""Whatever a table has been through (R70): after an expiry every snapshot that stays reads the same rows, every file
that left was needed by expired snapshots alone, and nothing that only those needed is left."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from tests.factories import manifests, reader
from tests.factories.cities import rows
from tests.factories.city_runs import again, city_table, compact, compactor, delete_id, files_of
from tests.factories.examples import examples
from tests.factories.lake import close, file_lake

from iceberg_compaction import Kind

if TYPE_CHECKING:
    from collections import Counter

    import pytest
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

CITIES = ("Rome", "Oslo")


class Life:
    """One table, and what happens to it by the dice."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.dice = lake, random.Random(seed)
        self.table = city_table(lake, **{"format-version": "2"})
        self.next_id = 100
        self.history: list[str] = []

    def happen(self, times: int) -> None:
        acts = [self.append, self.append, self.delete_rows, self.by_position, self.by_equality, self.compact]
        acts += [self.manifests, self.tag, self.branch, self.branch_append, self.roll_back]
        for _ in range(times):
            act = self.dice.choice(acts)
            self.history.append(act.__name__)
            act(again(self.table))

    def append(self, table: Table, branch: str = "main") -> None:
        self.next_id += 6
        table.append(rows(self.next_id, CITIES), branch=branch)

    def delete_rows(self, table: Table) -> None:
        table.delete(EqualTo("city", self.dice.choice(CITIES)))

    def by_position(self, table: Table) -> None:
        if paths := files_of(table, self.dice.choice(CITIES)):
            manifests.add_position_delete(table, {self.dice.choice(paths): [0]}, file_scoped=self.dice.random() < 0.5)

    def by_equality(self, table: Table) -> None:
        city = self.dice.choice(CITIES)
        if files_of(table, city):
            delete_id(table, self.dice.randrange(130), city)

    def compact(self, table: Table) -> None:
        compact(self.lake, **{"rewrite-all": self.dice.random() < 0.3})

    def manifests(self, table: Table) -> None:
        compactor(self.lake).rewrite_manifests("db.t", target_size="1MiB")

    def tag(self, table: Table) -> None:
        chosen = self.dice.choice(table.snapshots()).snapshot_id
        table.manage_snapshots().create_tag(chosen, f"tag-{len(table.metadata.refs)}").commit()

    def branch(self, table: Table) -> None:
        chosen = self.dice.choice(table.snapshots()).snapshot_id
        table.manage_snapshots().create_branch(chosen, f"branch-{len(table.metadata.refs)}").commit()

    def branch_append(self, table: Table) -> None:
        branches = [name for name in table.metadata.refs if name.startswith("branch-")]
        if branches:
            self.append(table, self.dice.choice(branches))

    def roll_back(self, table: Table) -> None:
        head = table.current_snapshot()
        parent = None if head is None else table.metadata.snapshot_by_id(head.parent_snapshot_id or 0)
        if parent is not None:
            table.manage_snapshots().rollback_to_snapshot(parent.snapshot_id).commit()


def read_all(table: Table) -> dict[int, Counter[Any]]:
    return {each.snapshot_id: reader.Reader().rows(table, each) for each in table.metadata.snapshots}


def files(table: Table) -> set[str]:
    folder = Path(table.location().removeprefix("file://"))
    return {f"file://{path}" for path in folder.rglob("*") if path.is_file() and ".metadata.json" not in path.name}


def needed(table: Table) -> set[str]:
    """The files of all snapshots, by a reader of its own."""
    paths: set[str] = set()
    for snapshot in table.metadata.snapshots:
        paths.add(snapshot.manifest_list)
        paths.update(manifest.manifest_path for manifest in snapshot.manifests(table.io))
        paths.update(file["file_path"] for file in reader.Reader().live(table, snapshot))
    return paths


@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_r70_what_stays_is_whole_and_what_went_was_needed_by_nothing(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = file_lake(tmp_path_factory.mktemp("life"))
    life = Life(lake, seed)
    life.append(again(life.table))
    for _ in range(2):
        life.happen(life.dice.randrange(2, 8))
        table = again(life.table)
        before, there, needs = read_all(table), files(table), needed(table)
        retain = life.dice.randrange(1, 4)
        outcome = compactor(lake).expire_snapshots(
            "db.t", older_than="2100-01-01", retain_last=retain, allow_recent=True
        )
        assert outcome.kind in (Kind.MAINTAINED, Kind.HEALTHY), (outcome.sentence, life.history)
        table = again(life.table)
        after = read_all(table)
        assert after == {each: before[each] for each in after}, life.history
        assert set(after) >= {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = there - files(table)
        assert gone == needs - needed(table), life.history
    close(lake)
