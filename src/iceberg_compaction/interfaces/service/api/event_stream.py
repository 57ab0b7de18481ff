"""The events of one run as server-sent events. They come from the store, so that any replica can stream any run; the
stream ends when the run has, and a client that comes back goes on after the last event it has seen. The id of an event
names its run, because each attempt at some work is a run whose events are numbered anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from fastapi.responses import StreamingResponse

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.api import problems
from iceberg_compaction.model.service_answers import ProcessEnd
from iceberg_compaction.record import event_log
from iceberg_compaction.record.reports import follow_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic import BaseModel

    from iceberg_compaction.interfaces.service.api.service_desk import ServiceDesk
    from iceberg_compaction.model.events import LatestProgress
    from iceberg_compaction.model.work import Work

_LOOK_S = 0.5  # between two looks at the store
_LONGEST_NUMBER = 15  # digits
_ALIVE_S = 15.0  # a comment after so long, so that nobody in between closes the connection


@dataclass(slots=True, kw_only=True, eq=False)
class EventStream:
    """One client that watches one run. `last_id`: the id of the last event that it has."""

    desk: ServiceDesk
    run_id: str
    work: Work | None
    last_id: str = ""
    _after: int = field(default=-1, init=False)  # the number of the last event that it has
    _progress: LatestProgress | None = None
    _state: str = ""
    _follower: follow_run.RunFollower = field(init=False)

    def __post_init__(self) -> None:
        self._after = self._number_of(self.last_id)
        self._follower = follow_run.RunFollower(store=self.desk.house.store, run_id=self.run_id)

    def _number_of(self, event_id: str) -> int:
        """The number in an id; -1: it is of another attempt, or none. A number alone is of the only one."""
        run_id, _, number = event_id.rpartition("/")
        is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
        is_only = not run_id and (self.work is None or len(self.work.run_ids) <= 1)
        return int(number) if is_number and (is_only or run_id == self.run_id) else -1

    async def response(self) -> StreamingResponse:
        """The answer. HttpRefusal: too many watch already."""
        try:
            self.desk.streams.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            raise problems.HttpRefusal(
                503, "busy", "Too many clients watch events; look at the run itself.", retry_after_s=10
            ) from None
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._messages(), media_type="text/event-stream", headers=headers)

    async def _messages(self) -> AsyncIterator[str]:
        try:
            said = self.desk.monotonic()
            while True:
                messages, has_ended = await to_thread.run_sync(self._look)
                for message in messages:
                    yield message
                if has_ended or self.desk.ending.is_set():
                    return
                if messages:
                    said = self.desk.monotonic()
                elif self.desk.monotonic() - said >= _ALIVE_S:
                    said = self.desk.monotonic()
                    yield ": the run goes on\n\n"
                await anyio.sleep(_LOOK_S)
        finally:
            self.desk.streams.release_on_behalf_of(self)

    def _look(self) -> tuple[list[str], bool]:
        """What has happened since the last look, and whether that is all. A store that is away is asked again."""
        try:
            end = self._end()  # before events: what came before the end is among them
            messages = self._work_messages() + self._event_messages()
        except errors.StoreError:
            return [], False
        if end is None:
            return messages, False
        return [*messages, _message("end", end)], True

    def _work_messages(self) -> list[str]:
        if self.work is None or self.work.state.value == self._state:
            return []
        self._state = self.work.state.value
        return [_message("work", self.work)]

    def _event_messages(self) -> list[str]:
        log = event_log.EventLog(entries=self.desk.house.store.entries)
        logged = log.events(self.run_id, after=self._after)
        messages = [_message(each.event.kind, each, event_id=f"{self.run_id}/{each.number}") for each in logged]
        self._after = logged[-1].number if logged else self._after
        progress = log.progress(self.run_id)
        if progress is not None and progress != self._progress:
            self._progress = progress
            messages.append(_message("progress", progress))
        return messages

    def _end(self) -> ProcessEnd | None:
        if self.work is not None and self.work.state.is_open:
            self.work = self.desk.book.get(self.work.request.work_id) or self.work
            if self.work.run_id != self.run_id:  # another attempt
                self.run_id, self._after, self._progress = self.work.run_id, -1, None
                self._follower = follow_run.RunFollower(store=self.desk.house.store, run_id=self.run_id)
            if self.work.state.is_open:
                return None
        if self.work is not None:
            return ProcessEnd(run_id=self.run_id, kind=self.work.outcome, sentence=self.work.sentence)
        end = self._follower.end(self.desk.house.clock())
        if end is None:
            return None
        if end.record is None:
            return ProcessEnd(run_id=self.run_id, sentence=end.sentence)
        outcome = end.record.outcome
        return ProcessEnd(run_id=self.run_id, kind=outcome.kind, sentence=outcome.sentence)


def _message(kind: str, value: BaseModel, *, event_id: str = "") -> str:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {kind}\ndata: {value.model_dump_json(by_alias=True)}\n\n"
