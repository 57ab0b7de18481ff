"""Quarantine among others: a restore while files are moved, and what is in the way when they come back."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake, orphans

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.orphan_plan import OrphanGoal
from iceberg_compaction.model.outcome import Kind, Maintained
from iceberg_compaction.operations.orphans import quarantine, remove_orphans
from iceberg_compaction.operations.orphans.quarantine_end import EndQuarantine
from iceberg_compaction.storage import remove
from iceberg_compaction.storage.tree import copy_file
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model.outcome import Outcome

FILES = 3
HOUR_MS = 3_600_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake.local_catalog(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """With a few orphans."""
    table = lake.append_small_files(lake.make_table(catalog, "db.t"), 2)
    orphans.age_all(table)
    for number in range(FILES):
        orphans.strew(table, f"data/left-{number}.parquet", content=content(number))
    return table


def content(number: int) -> bytes:
    return f"precious {number}".encode()


def restore(catalog: Catalog, *, later_ms: int = 0) -> Outcome:
    """By a run that knows no other."""
    run = wiring.new_run()
    run.clock = lambda: wiring.now_ms() + later_ms
    return operate.operate(EndQuarantine(table="db.t", way="restore"), orphans.house(catalog), run)


def in_place(table: Table) -> list[bytes]:
    return sorted(path.read_bytes() for path in orphans.folder(table).glob("data/left-*.parquet"))


def in_quarantine(table: Table) -> list[bytes]:
    return sorted(path.read_bytes() for path in orphans.folder(table).glob(f"{quarantine.FOLDER}/*/*.parquet"))


def manifests(table: Table) -> list[Path]:
    return list(orphans.folder(table).glob(f"{quarantine.FOLDER}/*/*.jsonl"))


ALL = [content(number) for number in range(FILES)]


def before_originals_go(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, after everything was copied and the table was looked at for the last time."""
    looked: list[object] = []
    still = remove_orphans._Work._still_orphans

    def still_orphans(work: Any, files: Any) -> Any:
        looked.append(files)
        kept = still(work, files)
        if len(looked) == 2:
            act()
        return kept

    monkeypatch.setattr(remove_orphans._Work, "_still_orphans", still_orphans)


def test_a_restore_during_a_removal_leaves_the_copies(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal has looked for the copies already, and removes the originals right after the restore."""
    outcomes: list[Outcome] = []
    remove_files = remove.remove_files

    def late(io: Any, paths: Any, proof: remove.RemovalProof) -> tuple[str, ...]:
        if proof is remove.RemovalProof.ORPHAN and not outcomes:
            outcomes.append(restore(catalog))
        return remove_files(io, paths, proof)

    monkeypatch.setattr(quarantine, "_THREADS", 1)
    monkeypatch.setattr(remove, "remove_files", late)
    removed = orphans.remove(catalog, "db.t")
    assert isinstance(removed, Maintained), removed.sentence
    assert (in_place(table), in_quarantine(table), removed.figures["files"]) == ([], ALL, FILES)
    assert outcomes[0].kind is Kind.FAILED
    assert outcomes[0].sentence.startswith("3 files are at their own paths, and their copies stay in quarantine: ")
    assert restore(catalog).kind is Kind.MAINTAINED
    assert (in_place(table), in_quarantine(table)) == (ALL, [])


def test_what_another_removal_has_moved_is_no_failure(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_file.copy

    def late(*given: Any) -> None:
        monkeypatch.setattr(copy_file, "copy", copy)
        assert orphans.remove(catalog, "db.t").kind is Kind.MAINTAINED
        copy(*given)

    monkeypatch.setattr(quarantine, "_THREADS", 1)
    monkeypatch.setattr(copy_file, "copy", late)
    removed = orphans.remove(catalog, "db.t")
    assert isinstance(removed, Maintained), removed.sentence
    assert (removed.figures["files"], removed.figures["left"]) == (0, 0)
    assert removed.sentence.endswith("3 files had been removed by somebody else.")
    assert in_quarantine(table) == ALL
    assert restore(catalog, later_ms=2 * HOUR_MS).kind is Kind.MAINTAINED
    assert (in_place(table), in_quarantine(table)) == (ALL, [])


def test_a_restore_before_files_are_copied_leaves_the_manifest(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would find the copies without it."""
    copy = copy_file.copy
    outcomes: list[Outcome] = []

    def late(*given: Any) -> None:
        if not outcomes:
            outcomes.append(restore(catalog))
        copy(*given)

    monkeypatch.setattr(quarantine, "_THREADS", 1)
    monkeypatch.setattr(copy_file, "copy", late)
    orphans.remove(catalog, "db.t")
    monkeypatch.undo()
    assert len(manifests(table)) == 1
    assert restore(catalog).kind is Kind.MAINTAINED
    assert (in_place(table), in_quarantine(table)) == (ALL, [])


def test_copies_of_a_removal_that_died_go_after_an_hour(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    before_originals_go(monkeypatch, die)
    with pytest.raises(KeyboardInterrupt):
        orphans.remove(catalog, "db.t")
    assert restore(catalog, later_ms=HOUR_MS // 2).kind is Kind.FAILED
    assert (in_place(table), in_quarantine(table)) == (ALL, ALL)
    late = restore(catalog, later_ms=2 * HOUR_MS)
    assert late.kind is Kind.MAINTAINED, late.sentence
    assert (in_place(table), in_quarantine(table), manifests(table)) == (ALL, [], [])


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_original_whose_copy_has_gone_stays(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool
) -> None:
    def meddle() -> None:
        copy = next(orphans.folder(table).glob(f"{quarantine.FOLDER}/*/*-00001.parquet"))
        copy.unlink()
        if is_cut:
            copy.write_bytes(b"prec")

    before_originals_go(monkeypatch, meddle)
    removed = orphans.remove(catalog, "db.t")
    assert isinstance(removed, Maintained), removed.sentence
    assert (removed.figures["files"], removed.figures["left"]) == (FILES - 1, 1)
    assert "1 file could not be removed, such as " in removed.sentence
    assert removed.sentence.endswith(", whose copy is not in quarantine any more.")
    (left,) = in_place(table)
    assert {left, *in_quarantine(table)} >= set(ALL)


def test_originals_stay_if_the_manifest_or_all_of_the_quarantine_has_gone(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_originals_go(monkeypatch, lambda: manifests(table)[0].unlink())
    assert orphans.remove(catalog, "db.t").kind is Kind.FAILED
    assert in_place(table) == ALL
    monkeypatch.undo()
    before_originals_go(monkeypatch, lambda: shutil.rmtree(orphans.folder(table) / quarantine.FOLDER))
    assert orphans.remove(catalog, "db.t").kind is Kind.FAILED
    assert in_place(table) == ALL


def test_originals_stay_if_copies_cannot_be_looked_at(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> int:
        raise PermissionError("no")

    before_originals_go(monkeypatch, lambda: monkeypatch.setattr(quarantine, "_size", refuse))
    assert orphans.remove(catalog, "db.t").kind is Kind.FAILED
    assert in_place(table) == ALL


def test_a_folder_in_the_way_keeps_one_file_in_quarantine(catalog: Catalog, table: Table) -> None:
    orphans.remove(catalog, "db.t")
    folder = orphans.folder(table) / "data/left-0.parquet"
    folder.mkdir()
    back = restore(catalog)
    assert isinstance(back, Maintained), back.sentence
    assert f"1 file stayed in quarantine: A folder is at {table.location()}/data/left-0.parquet" in back.sentence
    assert in_quarantine(table) == ALL[:1]
    folder.rmdir()
    assert restore(catalog, later_ms=2 * HOUR_MS).kind is Kind.MAINTAINED
    assert (in_place(table), in_quarantine(table)) == (ALL, [])


def test_a_file_that_is_nowhere_is_not_said_to_be_in_quarantine(catalog: Catalog, table: Table) -> None:
    orphans.remove(catalog, "db.t")
    next(orphans.folder(table).glob(f"{quarantine.FOLDER}/*/*-00000.parquet")).unlink()
    back = restore(catalog)
    assert isinstance(back, Maintained), back.sentence
    assert "1 file is lost: it is neither in quarantine nor back in place, such as " in back.sentence
    assert "stayed" not in back.sentence
    assert (back.figures["stayed"], back.figures["lost"]) == (0, 1)


@pytest.mark.parametrize("location", ["data", "./data", "", "file:data"])
def test_a_relative_location_is_told(catalog: Catalog, table: Table, location: str) -> None:
    with pytest.raises(errors.ConfigError, match=f"The location '{location}' is relative; write an absolute path"):
        orphans.find(catalog, "db.t", OrphanGoal(locations=(location,)))
