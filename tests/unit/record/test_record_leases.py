"""Leases give a resource to one run at a time, and give it back."""

from __future__ import annotations

import pytest

from iceberg_compaction import errors
from iceberg_compaction.model import lease, run_record
from iceberg_compaction.record import leases
from iceberg_compaction.record.entries.memory import MemoryEntries

ENTRY = run_record.CatalogEntry(catalog="c", table="db.t", table_uuid="t")
PROCESS = run_record.Process(host="north/boot/pid:[1]", pid=1, started="1")
BERN, OSLO = (lease.partition_name(0, f'{{"city":"{city}"}}') for city in ("Bern", "Oslo"))


def wanted(run_id: str, *holds: str, branch: str = "main") -> lease.Lease:
    return lease.Lease(run_id=run_id, token=0, branch=branch, holds=holds, process=PROCESS, since_ms=5)


@pytest.fixture
def board() -> leases.Leases:
    return leases.Leases(entries=MemoryEntries())


def test_a_resource_has_one_holder(board: leases.Leases) -> None:
    assert board.give(ENTRY, wanted("a", BERN), []) is not None
    assert board.give(ENTRY, wanted("b", BERN, OSLO), []) is None
    assert board.give(ENTRY, wanted("b", OSLO), []) is not None
    assert board.give(ENTRY, wanted("c", BERN, branch="other"), []) is not None


def test_everything_excludes_each_resource(board: leases.Leases) -> None:
    assert board.give(ENTRY, wanted("a", lease.EVERYTHING), []) is not None
    assert board.give(ENTRY, wanted("b", lease.MANIFESTS), []) is None
    board.give_back(ENTRY, wanted("a"))
    assert board.give(ENTRY, wanted("b", lease.MANIFESTS), []) is not None
    assert board.give(ENTRY, wanted("a", lease.EVERYTHING), []) is None


def test_tokens_only_grow_also_when_nobody_holds_anything(board: leases.Leases) -> None:
    tokens = []
    for run_id in "abc":
        given = board.give(ENTRY, wanted(run_id, BERN), [])
        assert given is not None
        tokens.append(given.token)
        board.give_back(ENTRY, given)
    assert tokens == [5, 6, 7]


def test_a_dead_run_loses_its_lease_and_cannot_give_back_that_of_another(board: leases.Leases) -> None:
    first = board.give(ENTRY, wanted("a", BERN), [])
    second = board.give(ENTRY, wanted("b", BERN), ["a"])
    assert first is not None
    assert second is not None
    assert (board.has(ENTRY, first), board.has(ENTRY, second)) == (False, True)
    board.give_back(ENTRY, first)
    assert board.has(ENTRY, second)


def test_a_snapshot_of_another_run_since_the_plan_is_noticed(board: leases.Leases) -> None:
    given = board.give(ENTRY, wanted("a", BERN), [], {1})
    assert given is not None
    board.give_back(ENTRY, given, [2])
    with pytest.raises(errors.LeasedError, match="since the plan was made"):
        board.give(ENTRY, wanted("b", BERN), [], {1})
    assert board.give(ENTRY, wanted("b", BERN), [], {1, 2}) is not None


def test_a_board_names_the_last_snapshots_alone(board: leases.Leases) -> None:
    given = board.give(ENTRY, wanted("a", BERN), [])
    assert given is not None
    for snapshot_id in range(100):
        board.give_back(ENTRY, given, [snapshot_id])
    assert board.board(ENTRY).committed == tuple(range(100 - lease.MOST_COMMITTED, 100))


def test_a_run_on_very_many_partitions_holds_everything() -> None:
    keys = [(0, f'{{"n":{number}}}') for number in range(lease.MOST_PARTITIONS + 1)]
    assert lease.of_partitions(keys) == (lease.EVERYTHING,)
    assert len(lease.of_partitions(keys[1:])) == lease.MOST_PARTITIONS


def test_entries_of_two_catalogs_have_leases_of_their_own(board: leases.Leases) -> None:
    other = ENTRY.model_copy(update={"catalog": "d"})
    assert board.give(ENTRY, wanted("a", BERN), []) is not None
    assert board.give(other, wanted("b", BERN), []) is not None


def test_a_holder_is_named_with_machine_and_time() -> None:
    assert wanted("a", BERN).words == "run a on north, since 1970-01-01 00:00:00 UTC"
