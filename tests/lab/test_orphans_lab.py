"""Orphans of tables that live at random, and removals that are killed at every step: no file that the table refers to
is ever listed, every file is explained, and no orphan is lost before it is purged (R76)."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake, orphans
from tests.lab import orphan_crash

from iceberg_compaction import Compactor
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.orphan_plan import OrphanGoal
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.operations.orphans.quarantine_end import EndQuarantine
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

pytestmark = pytest.mark.lab

STEPS = 2 * (3 + 2 * orphan_crash.FILES)  # manifests, copies and removals, before and after each
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orphan-lab") / "lake"
    folder.mkdir()
    orphan_crash.build(folder)
    return folder


@pytest.mark.parametrize("step", [*range(0, STEPS, 5), STEPS])
def test_killed_while_orphans_are_moved(built: Path, tmp_path: Path, step: int) -> None:
    saved = tmp_path / "saved"
    shutil.copytree(built, saved)
    died = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.lab.orphan_crash", str(built), str(step)], cwd=ROOT, check=False
    )
    try:
        assert died.returncode == (9 if step < STEPS else 0)
        _check_after_crash(lake.local_catalog(built))
    finally:
        shutil.rmtree(built)
        shutil.copytree(saved, built)


def _check_after_crash(catalog: Catalog) -> None:
    table = catalog.load_table(orphan_crash.NAME)
    folder = orphans.folder(table)
    store = wiring.run_store(folder.parents[2] / "runs.db")
    house = orphans.house(catalog)
    contents = {path.read_bytes() for path in folder.rglob("*.parquet")}
    assert contents >= {orphan_crash.content(number) for number in range(orphan_crash.FILES)}
    again = orphans.remove(catalog, orphan_crash.NAME, run=wiring.new_run(store=store))
    assert again.kind in (Kind.MAINTAINED, Kind.HEALTHY), again.sentence
    assert not list(folder.glob("data/part=*/*"))
    end = EndQuarantine(table=orphan_crash.NAME, way="restore")
    back = operate.operate(end, house, wiring.new_run(store=store))
    assert back.kind is Kind.MAINTAINED, back.sentence
    for number in range(orphan_crash.FILES):
        assert (folder / f"data/part={number}/left.parquet").read_bytes() == orphan_crash.content(number)
    assert catalog.load_table(orphan_crash.NAME).scan().to_arrow().num_rows == 30


@pytest.mark.parametrize("seed", range(4))
def test_random_lives(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    catalog = lake.local_catalog(tmp_path)
    table = lake.make_table(catalog, "db.t", properties={"write.metadata.previous-versions-max": "3"})
    table.append(lake.rows(lake.NUMBERS, 20))
    life = _Life(catalog, chance)
    for _ in range(14):
        getattr(life, chance.choice(life.DEEDS))()
        life.check()


class _Life:
    """What happens to a table."""

    DEEDS = (
        *("append", "append", "delete", "overwrite", "compact", "manifests", "expire", "tag", "evolve"),
        *("strew", "strew", "remove", "restore", "purge"),
    )

    def __init__(self, catalog: Catalog, chance: random.Random) -> None:
        self.catalog, self.chance = catalog, chance
        self.compactor = Compactor(catalog, engine="inline", options={"min-input-files": 2})
        self.count = 0

    @property
    def table(self) -> Table:
        return self.catalog.load_table("db.t")

    def append(self) -> None:
        self.table.append(lake.rows(self.table.schema().as_arrow(), 5, first=self.chance.randrange(100)))

    def delete(self) -> None:
        self.table.delete(f"id < {self.chance.randrange(30)}")

    def overwrite(self) -> None:
        self.table.overwrite(lake.rows(self.table.schema().as_arrow(), 4))

    def compact(self) -> None:
        self.compactor.compact_table("db.t")

    def manifests(self) -> None:
        self.compactor.rewrite_manifests("db.t")

    def expire(self) -> None:
        snapshots = self.table.metadata.snapshots
        refs = {ref.snapshot_id for ref in self.table.metadata.refs.values()}
        old = [each.snapshot_id for each in snapshots[: len(snapshots) // 2] if each.snapshot_id not in refs]
        if old:
            self.table.maintenance.expire_snapshots().by_ids(old).commit()

    def tag(self) -> None:
        self.count += 1
        head = self.table.current_snapshot()
        if head is not None:
            self.table.manage_snapshots().create_tag(head.snapshot_id, f"tag-{self.count}").commit()

    def evolve(self) -> None:
        self.count += 1
        where = f"{self.table.location()}/elsewhere-{self.count}" if self.chance.random() < 0.5 else None
        with self.table.transaction() as change:
            if where:
                change.set_properties({"write.data.path": where})
            elif "write.data.path" in self.table.properties:
                change.remove_properties("write.data.path")

    def strew(self) -> None:
        self.count += 1
        folder = self.chance.choice(["data", "metadata", "data/x=1", "data/_hidden", "odd"])
        orphans.strew(self.table, f"{folder}/left-{self.count}.parquet", days=self.chance.choice([1, 10]))

    def remove(self) -> None:
        outcome = orphans.remove(self.catalog, "db.t")
        assert outcome.kind in (Kind.MAINTAINED, Kind.HEALTHY), outcome.sentence

    def restore(self) -> None:
        self.compactor.restore_orphans("db.t")

    def purge(self) -> None:
        end = EndQuarantine(table="db.t", way="purge", older_than_ms=0)
        operate.operate(end, orphans.house(self.catalog), wiring.new_run())

    def check(self) -> None:
        """Nothing that is needed is listed, nothing that is needed is gone, and every file is explained."""
        orphans.age_all(self.table, days=self.chance.choice([0, 10]))
        needed, every = _needed(self.table), orphans.every_file(self.table)
        assert needed <= every
        plan = orphans.find(self.catalog, "db.t", OrphanGoal(older_than_ms=3 * 24 * 3600 * 1000))
        assert not needed & set(plan.files.paths)
        assert len(plan.files.paths) + sum(step.count for step in plan.kept) == len(every)
        explained = {step.name: step.count for step in plan.kept}
        assert explained["files of the table"] == len(needed)


def _needed(table: Table) -> set[str]:
    """All files that the table refers to, as PyIceberg reads its metadata."""
    paths = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            paths.add(manifest.manifest_path)
            paths.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return paths
