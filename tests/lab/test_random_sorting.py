"""Random lives of tables that are sorted: appends, deletes, specs that change, and runs of every strategy that sorts in
between. After each run the rows are the same, and a second run has nothing to do."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, DayTransform
from tests.factories import lake as lakes
from tests.factories import manifests
from tests.factories.examples import QUICK
from tests.integration.test_sorting import data, make, settle

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from pyiceberg.table import Table

pytestmark = pytest.mark.lab

WAYS: list[tuple[str, dict[str, Any]]] = [
    ("sort", {"sort_order": "id"}),
    ("sort", {"sort_order": "s DESC, x", "max_sort_bytes": 40_000}),
    ("sort", {"sort_order": "x NULLS LAST", "max_overlap_depth": 2}),
    ("sort", {"sort_order": "bucket(4, id), at"}),
    ("sort", {"sort_order": "d"}),
    ("time-series", {"cold_target_file_size_bytes": 60_000}),
    ("dimensional", {"cluster_by": "s, id"}),
]
SPECS = [("id", BucketTransform(2)), ("at", DayTransform())]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = lakes.file_lake(tmp_path_factory.mktemp("lives"))
    yield made
    lakes.close(made)


def change(table: Table, dice: random.Random) -> Table:
    """Something that writers do."""
    kind = dice.choice(["append", "append", "equality", "position", "spec"])
    files = sorted(table.inspect.data_files()["file_path"].to_pylist())
    if kind == "equality":
        keys = pa.array(dice.sample(range(-20, 20), 3), pa.int64())
        return manifests.add_equality_delete(table, pa.table({"id": keys}), like=dice.choice(files))
    if kind == "position":
        return manifests.add_position_delete(table, {dice.choice(files): [0]})
    if kind == "spec" and len(table.specs()) < 3:
        column, transform = SPECS[len(table.specs()) - 1]
        with table.update_spec() as update:
            update.add_field(column, transform, f"p{len(table.specs())}")
    table = table.refresh()
    table.append(data(dice.randrange(10**6), dice.choice([5, 60, 200])))
    return table


@pytest.mark.parametrize("seed", range(1 if QUICK else 5))
def test_after_each_run_rows_are_the_same_and_a_second_run_is_empty(lake: lakes.Lake, seed: int) -> None:
    dice, name = random.Random(seed), f"life{seed}"
    table = make(lake, name, files=2, rows=100, seed=seed)
    for _ in range(3):
        for _ in range(dice.randrange(1, 4)):
            table = change(table.refresh(), dice)
        strategy, way = dice.choice(WAYS)
        options = {**way, "max_file_size_bytes": 40_000}  # footers of tiny files mislead estimates of their size
        named = {option.replace("_", "-"): value for option, value in options.items()}
        plan = Compactor(lake.settings, strategy, engine="inline", options=named).plan_table(lake.name(name))
        if not plan.empty:
            table = settle(lake, name, strategy, **options)
