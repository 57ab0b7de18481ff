"""Checkpoints in every place that a run store may be in: a run stores results of its tasks, one other run goes on, and
whoever has lost the checkpoint can change nothing any more (R63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import stores

from iceberg_compaction import errors
from iceberg_compaction.model import checkpoint, portable_task, proof, rewrite_task
from iceberg_compaction.model.policies import ProofLevel
from iceberg_compaction.model.run_record import CatalogEntry
from iceberg_compaction.record.checkpoint import checkpoints, open_checkpoint, running_entries
from iceberg_compaction.record.entries import blobs

if TYPE_CHECKING:
    from iceberg_compaction.record.checkpoint.checkpoints import Checkpoints, HeldHead

WEEK = 7 * 24 * 3_600_000
ENTRY = CatalogEntry(catalog="c", table="db.t", table_uuid="t")
TASK = rewrite_task.RewriteTask(
    id=7, group_id=0, spec_id=0, partition="{}", file_paths=("a", "b"), file_sizes=(1, 1), record_counts=(1, 1)
)


def make_result(path: str, task_id: int = 7) -> rewrite_task.TaskResult:
    side = proof.Side(rows=2)
    staged = rewrite_task.StagedFile(
        file_path=path, file_size_in_bytes=1, record_count=2, spec_id=0, partition="{}", lower_bounds={1: b"\xff\x00"}
    )
    shown = proof.Proof(level=ProofLevel.COUNTS, expected_rows=2, source=side, sink=side, footers=side)
    facts: dict[str, Any] = {"bytes_read": 2, "bytes_written": 1, "seconds": 0.1, "proof": shown}
    return rewrite_task.TaskResult(task_id=task_id, group_id=0, staged=(staged,), **facts)


@pytest.fixture
def kept(every_place: stores.Place) -> Checkpoints:
    return checkpoints.Checkpoints(every_place.open().entries)


@pytest.fixture
def held(kept: Checkpoints) -> HeldHead:
    return kept.create(stores.make_head(), stores.StoredPlan())  # type: ignore[arg-type]


def test_results_are_read_as_they_were_stored(kept: Checkpoints, held: HeldHead) -> None:
    opened = open_checkpoint.OpenCheckpoint(held, kept)
    opened.save(TASK, make_result("x"))
    opened.flush()
    content = kept.content(held.head)
    saved = portable_task.PortableResult(plan_id="p", file_paths=("a", "b"), result=make_result("x"))
    assert (content.results, content.paths()) == ((saved,), {"x"})
    assert [each.head for each in kept.heads("t")] == [held.head]
    assert kept.heads("another") == []


def test_a_plan_of_any_size_is_stored_in_pieces(kept: Checkpoints) -> None:
    import random

    text = "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x9FFF), k=700_000)))
    head = stores.make_head("large")
    kept.create(head, stores.StoredPlan(text))  # type: ignore[arg-type]
    pieces = [entry for entry in kept.entries.scan("checkpoint/large/") if "/plan/" in entry.key]
    assert len(pieces) > 2
    assert blobs.join(pieces) == text.encode()
    assert blobs.join(pieces[1:]) is blobs.join([]) is None


def test_damaged_pieces_count_as_none(kept: Checkpoints) -> None:
    kept.entries.change(blobs.pieces(b"content", "k"))
    (entry,) = kept.entries.scan("k/")
    assert blobs.join([entry]) == b"content"
    assert blobs.join([entry._replace(value=entry.value[:-4])]) is None
    assert blobs.join([entry._replace(value="1 ???")]) is None


def test_one_of_two_heirs_gets_the_checkpoint(kept: Checkpoints, held: HeldHead) -> None:
    free = kept.release(held)
    assert free is not None
    assert free.head.owner == checkpoint.NOBODY
    first, second = kept.claim(free, "h1", 9), kept.claim(free, "h2", 9)
    assert first is not None
    assert (first.head.owner, first.head.writers, first.head.saved_ms, second) == ("h1", ("d", "h1"), 9, None)


def test_a_run_that_another_one_took_for_dead_owns_no_checkpoint_any_more(every_place: stores.Place) -> None:
    """Else files that are being removed at this moment would get into it."""
    store = every_place.open()
    assert store.begin(stores.make_start("d"))
    assert store.begin(stores.make_start("h"))
    of_d, of_h = (running_entries.RunningEntries(entries=store.entries, store=store, run_id=each) for each in "dh")
    held = checkpoints.Checkpoints(of_d).create(stores.make_head(), stores.StoredPlan())  # type: ignore[arg-type]
    with pytest.raises(errors.StoreError, match="already"):
        checkpoints.Checkpoints(of_d).create(stores.make_head(), stores.StoredPlan())  # type: ignore[arg-type]
    free = checkpoints.Checkpoints(store.entries).release(held)
    assert free is not None
    for each in store.unfinished():
        assert store.take_over(each) is not None
    with pytest.raises(errors.StoreError, match="took run d for dead"):
        checkpoints.Checkpoints(of_d).create(stores.make_head(number=1), stores.StoredPlan())  # type: ignore[arg-type]
    with pytest.raises(errors.StoreError, match="took run h for dead"):
        checkpoints.Checkpoints(of_h).claim(free, "h", 9)
    assert checkpoints.Checkpoints(store.entries).heads() == [free]


def test_a_checkpoint_that_somebody_owns_cannot_be_claimed(kept: Checkpoints, held: HeldHead) -> None:
    assert kept.claim(held, "h", 9) is None


def test_of_two_that_release_both_know_that_it_is_free(kept: Checkpoints, held: HeldHead) -> None:
    free = kept.release(held)
    assert free is not None
    assert kept.release(free) == free
    assert kept.release(held) is None  # it was not free when it was read


def test_who_was_only_asleep_adds_nothing_and_removes_nothing(kept: Checkpoints, held: HeldHead) -> None:
    asleep = open_checkpoint.OpenCheckpoint(held, kept)
    asleep.save(TASK, make_result("late"))
    free = kept.release(held)
    assert free is not None
    asleep.flush()
    assert asleep.give_up(["late", "unknown"]) == ["late", "unknown"]  # nobody has heard of them
    assert asleep.close() is False
    assert kept.content(held.head).results == ()
    assert kept.content(held.head).gone == frozenset()
    assert len(kept.heads("t")) == 1
    with pytest.raises(errors.StoreError, match="Another run has taken up"):
        checkpoints.FencedEntries(kept.entries, held).change({"checkpoint/d/x": "1"})


def test_files_that_are_stored_are_not_removed_by_who_has_lost_them(kept: Checkpoints, held: HeldHead) -> None:
    asleep = open_checkpoint.OpenCheckpoint(held, kept)
    asleep.save(TASK, make_result("stored"))
    asleep.flush()
    kept.release(held)
    asleep.save(TASK, make_result("late", 8))
    asleep.flush()
    assert asleep.give_up(["stored", "late"]) == ["late"]


def test_a_file_whose_result_may_be_stored_is_not_removed(kept: Checkpoints, held: HeldHead) -> None:
    class Failing:
        def change(self, *given: Any) -> bool:
            raise errors.StoreError("no answer")

    failing = open_checkpoint.OpenCheckpoint(held, checkpoints.Checkpoints(Failing()))  # type: ignore[arg-type]
    failing.save(TASK, make_result("x"))
    assert failing.give_up(["x"]) == ["x"]
    failing.flush()
    assert failing.give_up(["x"]) == []


def test_files_leave_the_checkpoint_before_they_are_removed(kept: Checkpoints, held: HeldHead) -> None:
    opened = open_checkpoint.OpenCheckpoint(held, kept)
    for number, path in enumerate(["x", "y", "z"]):
        opened.save(TASK, make_result(path, number))
    opened.flush()
    assert opened.give_up(["x"]) == ["x"]
    assert opened.give_up(["y"]) == ["y"]
    assert kept.content(held.head).paths() == {"z"}


def test_results_of_an_heir_stand_beside_those_of_the_dead_run(kept: Checkpoints, held: HeldHead) -> None:
    for each, path in ((held, "x"), (None, "y")):
        owned = each or kept.claim(kept.release(held), "h", 9)  # type: ignore[arg-type]
        assert owned is not None
        opened = open_checkpoint.OpenCheckpoint(owned, kept)
        opened.save(TASK, make_result(path))
        opened.flush()
    assert kept.content(held.head).paths() == {"x", "y"}


def test_nothing_is_left_of_a_checkpoint_that_is_removed(kept: Checkpoints, held: HeldHead) -> None:
    opened = open_checkpoint.OpenCheckpoint(held, kept)
    for number in range(120):
        opened.save(TASK, make_result("x", number))
    opened.flush()
    assert len(kept.content(held.head).results) == 120
    assert opened.close()
    assert kept.entries.scan("checkpoint") == []


def test_a_head_that_cannot_be_read_is_left_alone(kept: Checkpoints, held: HeldHead) -> None:
    kept.entries.change({"checkpoint-head/t/z/0": '{"format": 99}'})
    assert [each.head.run_id for each in kept.heads("t")] == ["d"]
    assert len(kept.entries.scan("checkpoint-head/t/")) == 2


def test_old_checkpoints_that_no_run_owns_are_removed_with_all_that_is_left(kept: Checkpoints, held: HeldHead) -> None:
    young = kept.create(stores.make_head("young", saved_ms=WEEK), stores.StoredPlan())  # type: ignore[arg-type]
    kept.entries.change(blobs.pieces(b"plan", "checkpoint", "headless", 0, "plan"))
    kept.entries.change(blobs.pieces(b"plan", "checkpoint", "beginning", 0, "plan"))
    checkpoints.remove_old(kept.entries, WEEK - 10, lambda run_id: run_id in ("d", "beginning"))
    assert len(kept.heads()) == 2  # a run in the journal may work for so long
    checkpoints.remove_old(kept.entries, WEEK - 10, lambda run_id: run_id == "beginning")
    assert kept.heads() == [young]
    runs = {entry.key.split("/")[1] for entry in kept.entries.scan("checkpoint/")}
    assert runs == {"young", "beginning"}
