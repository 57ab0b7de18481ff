"""Whatever a table has been through before a run and after it: an undo leaves the rows as they are and every file of
the head readable, or it is refused and nothing has changed. And `verify` never finds that a run of ours differs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from pyiceberg.types import IntegerType
from tests.factories import manifests, reader
from tests.factories.cities import rows
from tests.factories.city_runs import again, city_table, compact, compactor, delete_id, expire, files_of, local
from tests.factories.examples import examples
from tests.factories.lake import close, file_lake

from iceberg_compaction import Kind
from iceberg_compaction.model.verification import CheckVerdict

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from typing import Any

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

    def rows(self) -> Counter[Any]:
        return reader.Reader().rows(again(self.table))

    def happen(self, most: int, *, with_runs: bool) -> None:
        acts = [self.append, self.append, self.delete_by_position, self.delete_by_equality, self.change_schema]
        acts += [self.overwrite, self.expire_one] if with_runs else []
        acts += [self.compact_again, self.rewrite_manifests] if with_runs else []
        for _ in range(self.dice.randrange(most)):
            act: Callable[[Table], None] = self.dice.choice(acts)
            self.history.append(act.__name__)
            act(again(self.table))

    def append(self, table: Table) -> None:
        cities = self.dice.choice([CITIES, ("Oslo",), ("Bonn",)])
        data = rows(self.next_id, cities)
        self.next_id += 6
        if "size" in table.schema().column_names:
            data = data.append_column("size", [[self.next_id] * data.num_rows]).cast(table.schema().as_arrow())
        table.append(data)

    def delete_by_position(self, table: Table) -> None:
        if paths := files_of(table, self.dice.choice(CITIES)):
            scoped = self.dice.random() < 0.5
            manifests.add_position_delete(table, {self.dice.choice(paths): [0]}, file_scoped=scoped)

    def delete_by_equality(self, table: Table) -> None:
        city = self.dice.choice((*CITIES, "Bonn"))
        if files_of(table, city):
            delete_id(table, self.dice.randrange(130), city)

    def overwrite(self, table: Table) -> None:
        city = self.dice.choice((*CITIES, "Bonn"))
        if files_of(table, city):
            table.delete(EqualTo("city", city))

    def change_schema(self, table: Table) -> None:
        if "size" not in table.schema().column_names:
            with table.update_schema() as update:
                update.add_column("size", IntegerType())

    def compact_again(self, table: Table) -> None:
        compact(self.lake, **{"rewrite-all": self.dice.random() < 0.3})

    def rewrite_manifests(self, table: Table) -> None:
        compactor(self.lake).rewrite_manifests("db.t", target_size="1MiB")

    def expire_one(self, table: Table) -> None:
        expire(table, self.dice.choice(table.snapshots()[:-1]).snapshot_id)


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_r64_rows_stay_or_nothing_changes(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    lake = file_lake(tmp_path_factory.mktemp("life"))
    life = Life(lake, seed)
    life.happen(5, with_runs=False)
    run = compactor(lake, **{"rewrite-all": True, "delete-file-threshold": 1}).compact_table("db.t")
    life.happen(4, with_runs=True)
    content, location = life.rows(), again(life.table).metadata_location
    present = {snapshot.snapshot_id for snapshot in again(life.table).snapshots()}
    if run.snapshot_id in present:
        checked = compactor(lake).verify(run.run_id, "db.t")
        assert checked.verdict is not CheckVerdict.DIFFERS, (checked.sentence, life.history)
    outcome = compactor(lake).undo(run.run_id, "db.t")
    assert life.rows() == content, (outcome.sentence, life.history)
    table = again(life.table)
    if outcome.kind is Kind.UNDONE:
        head = table.current_snapshot()
        assert head is not None
        assert all(local(file["file_path"]).exists() for file in reader.Reader().live(table, head)), life.history
        life.happen(3, with_runs=False)
        content = life.rows()
        compact(lake, **{"rewrite-all": True})
        assert life.rows() == content, life.history
    else:
        assert outcome.kind is Kind.CONFLICT, (outcome.sentence, life.history)
        assert table.metadata_location == location, life.history
    close(lake)
