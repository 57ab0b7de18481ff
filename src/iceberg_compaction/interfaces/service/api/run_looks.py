"""One run, wherever the store has it: in the queue, in the journal or in the history. A run on a table that whoever
asks may not see is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.service.api import problems, waiting_work
from iceberg_compaction.interfaces.service.api.service_desk import ServedName
from iceberg_compaction.model.cancel_request import Cancellation, CancelRequest, CancelState
from iceberg_compaction.model.service_answers import ServedRun
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.record import cancel_requests, event_log, past_runs, processes
from iceberg_compaction.workflow import cancel_run

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.api.service_desk import Asking
    from iceberg_compaction.model.run_record import UnfinishedRun


def find(asking: Asking, run_id: str, *, begun: bool = False) -> ServedRun:
    """All that is there of a run. `begun`: work that only waits is no run. HttpRefusal: it is not there."""
    house = asking.desk.house
    record, work = house.store.run(run_id), asking.desk.book.get(run_id)
    journal = None if record is not None else _journal(asking, run_id)
    if record is None and journal is None and work is not None and work.run_id != run_id:
        record = house.store.run(work.run_id)  # a later attempt
        journal = None if record is not None else _journal(asking, work.run_id)
    table = (
        record.table
        if record is not None
        else journal.start.table
        if journal is not None
        else work.request.table
        if work is not None
        else None
    )
    is_there = record is not None or journal is not None or (work is not None and not begun)
    if table is None or not is_there or not asking.may_see(table):
        raise problems.not_there(f"run {run_id!r}")
    asking.note(table=table, tenant=house.tenant_of(table), target=run_id)
    listing = None if journal is None else past_runs.listing(journal, house.store, house.clock())
    progress = None if listing is None else event_log.EventLog(entries=house.store.entries).progress(listing.run_id)
    shown = record.run_id if record is not None else listing.run_id if listing is not None else run_id
    return ServedRun(
        run_id=shown,
        table=table,
        tenant=house.tenant_of(table),
        work=None if work is None else waiting_work.with_reason(house, work),
        unfinished=listing,
        progress=progress,
        record=record,
    )


def table_of(asking: Asking, run_id: str, catalog: str | None) -> ServedName:
    """The table of a run that has ended, and its catalog: as given, that of its work, or the first one."""
    run = find(asking, run_id)
    if run.record is None:
        raise problems.HttpRefusal(409, "not-ended", f"Run {run_id!r} has not ended.")
    work = run.work
    return asking.table(run.table, catalog or (None if work is None else work.request.catalog))


def cancel(asking: Asking, run: ServedRun) -> Cancellation:
    """End work that waits, and ask for the end of a run at work."""
    desk, work = asking.desk, run.work
    house, by = desk.house, asking.principal.name
    if work is not None and work.state.is_open:
        ended = desk.book.cancel(work.request.work_id, by=by, now_ms=house.clock())
        if ended is not None and ended.state is WorkState.CANCELLED:
            return _answer(run, CancelState.CANCELLED, "It had not begun, and will not.")
        request = CancelRequest(by=by, machine=processes.this_process().machine, at_ms=house.clock())
        if work.run_ids:
            cancel_requests.add(house.store.entries, work.run_id, request)
        return _answer(run, CancelState.REQUESTED, "It will end within seconds, with what it has finished.")
    canceller = cancel_run.Canceller(store=house.store, user=by, clock=house.clock, pause=desk.pause, wait_s=0.0)
    return canceller.cancel(run.run_id, run.table, _journal(asking, run.run_id))


def _answer(run: ServedRun, state: CancelState, sentence: str) -> Cancellation:
    return Cancellation(run_id=run.run_id, table=run.table, state=state, sentence=sentence)


def _journal(asking: Asking, run_id: str) -> UnfinishedRun | None:
    runs = asking.desk.house.store.unfinished()
    return next((run for run in runs if run.start.run_id == run_id), None)
