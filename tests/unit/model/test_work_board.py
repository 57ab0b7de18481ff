"""Turns of tenants on the board of work: nobody starves, whatever others want."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.model.work_board import BoardClaim, WorkBoard, WorkLimits

NO_LIMITS = WorkLimits()


def begin(board: WorkBoard, tenant: str, now_ms: int) -> WorkBoard:
    token = board.token + 1
    facts = {"catalog": "c", "table": f"t{token}", "worker": "w"}
    return board.with_claim(BoardClaim(work_id=str(token), tenant=tenant, token=token, since_ms=now_ms, **facts))


def serve(board: WorkBoard, slots: int, turns: int, seconds: dict[str, int]) -> tuple[WorkBoard, list[str]]:
    """Fill slots as workers do: the work that is over first makes room. Returns who was served, in order."""
    served, now_ms = [], 0
    for _ in range(turns):
        while len(board.claims) < slots and (turn := board.turns(NO_LIMITS)):
            served.append(turn[0])
            board = begin(board, turn[0], now_ms)
        if not board.claims:
            break
        first = min(board.claims, key=lambda claim: (claim.since_ms + 1000 * seconds[claim.tenant], claim.token))
        now_ms = max(now_ms, first.since_ms + 1000 * seconds[first.tenant])
        board = board.without_claim(first.work_id, now_ms, again=False)
    return board, served


def test_a_tenant_with_a_thousand_tables_does_not_starve_one_with_three() -> None:
    board = WorkBoard().with_queued("large", 1000)
    board, _ = serve(board, 2, 50, {"large": 10})
    board = board.with_queued("small", 3)
    _, served = serve(board, 2, 10, {"large": 10, "small": 10})
    assert served[:6].count("small") >= 3


def test_short_runs_do_not_pay_for_long_ones() -> None:
    board = WorkBoard().with_queued("long", 100).with_queued("short", 100)
    _, served = serve(board, 1, 40, {"long": 60, "short": 1})
    assert served.count("short") > 10 * served.count("long") > 0


def test_whoever_was_away_is_not_served_alone() -> None:
    board = WorkBoard().with_queued("always", 1000)
    board, _ = serve(board, 1, 500, {"always": 5})
    board = board.with_queued("back", 500)
    _, served = serve(board, 1, 20, {"always": 5, "back": 5})
    assert 8 <= served.count("back") <= 12


def test_tenants_without_work_are_forgotten() -> None:
    board = WorkBoard()
    for number in range(50):
        board = board.with_queued(f"t{number}", 1)
    board, served = serve(board, 3, 100, dict.fromkeys((f"t{number}" for number in range(50)), 1))
    assert sorted(served) == sorted(f"t{number}" for number in range(50))
    assert board.queued == 0
    board = begin(board.with_queued("last", 1), "last", 0)
    assert list(board.tenants) == ["last"]


@examples(60)
@given(
    queued=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30), min_size=1),
    slots=st.integers(1, 5),
    seconds=st.integers(1, 100),
)
def test_all_work_is_done_and_equal_runs_are_shared_equally(queued: dict[str, int], slots: int, seconds: int) -> None:
    board = WorkBoard()
    for tenant, count in queued.items():
        board = board.with_queued(tenant, count)
    board, served = serve(board, slots, 1000, dict.fromkeys(queued, seconds))
    assert {tenant: served.count(tenant) for tenant in queued} == queued
    assert (board.queued, board.claims, board.ended) == (0, (), sum(queued.values()))
    # While all tenants have work waiting, none of them is ahead by more than what fits side by side.
    fair = min(queued.values()) * len(queued) - slots
    counts = [served[: max(0, fair)].count(tenant) for tenant in queued]
    assert max(counts) - min(counts) <= slots
