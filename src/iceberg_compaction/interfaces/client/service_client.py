"""The client of the service for programs. Its answers are the values that the library has, from the same classes."""

from __future__ import annotations

import time
import uuid
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from iceberg_compaction import errors
from iceberg_compaction.interfaces import call_arguments
from iceberg_compaction.interfaces.client import transport
from iceberg_compaction.interfaces.client.transport import quoted
from iceberg_compaction.model import events, outcome
from iceberg_compaction.model.cancel_request import Cancellation
from iceberg_compaction.model.explanation import Explanation
from iceberg_compaction.model.planned_upkeep import PlannedUpkeep
from iceberg_compaction.model.policy_origin import EffectivePolicy
from iceberg_compaction.model.policy_review import PolicyReview
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.model.run_figures import HealthEntry
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.model.run_report import RunReport
from iceberg_compaction.model.service_answers import (
    AcceptedWork,
    FleetSummary,
    ListPage,
    NoticeAnswer,
    RankedLook,
    ServedRun,
    ServedTable,
    StoredPolicy,
)
from iceberg_compaction.model.table_health import TableHealth
from iceberg_compaction.model.verification import Verification
from iceberg_compaction.model.work import Work, WorkState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome

_API = "/api/v1"
_WORK = f"{_API}/work"
_FIRST_LOOK_S, _LAST_LOOK_S = 0.2, 2.0  # between two looks at work that is waited for
_LONGEST_ANSWER_S = 25.0  # that one request waits for work: proxies close what is silent for longer
Item = TypeVar("Item")


@call_arguments.checked
class Client(AbstractContextManager["Client"]):
    """A service.

        Client("http://localhost:8080", token="ict_...").compact("shop.events", wait=True)

    `token` is one of `iceberg-compact token create`, or of the OIDC provider. Trouble is raised as the errors of the
    library. Work that is begun has an idempotency key, so that it is done once, however often a request is repeated.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._transport = transport.Transport(url=url, token=token, timeout_s=timeout)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Close connections."""
        self._transport.close()

    def compact(
        self,
        table: str,
        strategy: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        catalog: str | None = None,
        wait: bool | float = False,
        key: str | None = None,
    ) -> Work:
        """Compact a table. `wait`: until it has ended, or for so many seconds; else the work is returned as it is in
        the queue. `work.sentence` says how it ended, `outcome(work)` has the figures. `key`: the idempotency key."""
        body = {"table": table, "strategy": strategy, "options": dict(options or {}), "catalog": catalog}
        return self._begin(f"{_API}/compact", body, wait, key)

    def plan(
        self,
        table: str,
        strategy: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        catalog: str | None = None,
    ) -> Plan | EmptyPlan:
        """What `compact` would do, and why; nothing is written."""
        body = {"table": table, "strategy": strategy, "options": dict(options or {}), "catalog": catalog}
        return self._transport.send("POST", f"{_API}/compact", Plan | EmptyPlan, {**body, "dry_run": True})

    def maintain(
        self,
        table: str,
        verb: str = "maintain",
        *,
        options: Mapping[str, Any] | None = None,
        catalog: str | None = None,
        wait: bool | float = False,
        key: str | None = None,
    ) -> Work:
        """Do upkeep: all that the policy asks for, or one verb: expire, orphans, manifests, deletes, ttl, tags,
        statistics. Arguments as for `compact`."""
        body = {"table": table, "options": dict(options or {}), "catalog": catalog}
        return self._begin(f"{_API}/maintenance/{quoted(verb)}", body, wait, key)

    def plan_upkeep(
        self, table: str, verb: str, *, options: Mapping[str, Any] | None = None, catalog: str | None = None
    ) -> PlannedUpkeep:
        """What a verb of upkeep would do; of `maintain`, each step. Nothing is written."""
        body = {"table": table, "options": dict(options or {}), "catalog": catalog, "dry_run": True}
        return self._transport.send("POST", f"{_API}/maintenance/{quoted(verb)}", PlannedUpkeep, body)

    def all_work(self, state: str | None = None, *, table: str | None = None) -> Iterator[Work]:
        """Work that waits, runs or has ended, the newest first; `state`: such as queued or running."""
        return self._pages("/work", Work, state=state, table=table)

    def work(self, work_id: str) -> Work:
        """Work as it is now."""
        return self._transport.get(f"{_WORK}/{quoted(work_id)}", Work)

    def wait(self, work: Work, seconds: float | None = None) -> Work:
        """The work when it has ended, or after so many seconds; None: however long it takes."""
        end = None if seconds is None else time.monotonic() + seconds
        pause = _FIRST_LOOK_S
        while work.state.is_open:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            time.sleep(pause if left is None else min(pause, left))
            pause = min(_LAST_LOOK_S, pause * 1.5)
            work = self.work(work.request.work_id)
        return work

    def outcome(self, work: Work) -> Outcome:
        """How work ended, with all figures. CancelledError: it was cancelled; ExecuteError: it has no outcome."""
        if work.state is WorkState.CANCELLED:
            raise errors.CancelledError(work.sentence or "The work was cancelled.")
        if work.state.is_open or work.result is None:
            raise errors.ExecuteError(work.sentence or f"The work is {work.state.value}, and has no outcome.")
        return outcome.parse(dict(work.result))

    def tables(self, pattern: str = "*") -> Iterator[HealthEntry]:
        """The last look at each table."""
        return self._pages("/tables", HealthEntry, pattern=pattern)

    def table(self, table: str, catalog: str | None = None) -> ServedTable:
        """All that the service has about a table."""
        return self._transport.get(f"{_API}/tables/{quoted(table)}", ServedTable, catalog=catalog)

    def inspect(self, table: str, catalog: str | None = None) -> TableHealth:
        """The health of a table now, from its metadata."""
        return self._transport.get(f"{_API}/tables/{quoted(table)}/diagnosis", TableHealth, catalog=catalog)

    def explain(self, table: str, catalog: str | None = None) -> Explanation:
        """Why a table is compacted now or not."""
        return self._transport.get(f"{_API}/tables/{quoted(table)}/explain", Explanation, catalog=catalog)

    def policy_of(self, table: str, catalog: str | None = None) -> EffectivePolicy:
        """The policy of a table, with the origin of each value."""
        return self._transport.get(f"{_API}/tables/{quoted(table)}/policy", EffectivePolicy, catalog=catalog)

    def runs(
        self,
        table: str | None = None,
        *,
        kind: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[RunRecord]:
        """Past runs, the newest first."""
        return self._pages("/runs", RunRecord, table=table, kind=kind, since=since, until=until)

    def run(self, run_id: str) -> ServedRun:
        """One run: its place in the queue, its progress, or its end."""
        return self._transport.get(f"{_API}/runs/{quoted(run_id)}", ServedRun)

    def report(self, run_id: str) -> RunReport:
        """All about one run that has begun."""
        return self._transport.get(f"{_API}/runs/{quoted(run_id)}/report", RunReport)

    def events(self, run_id: str) -> Iterator[Event]:
        """The events of a run as they come, until it ends. A connection that breaks is opened again."""
        last: str | None = None
        failures = 0
        while True:
            try:
                for kind, event_id, data in self._transport.stream(f"{_API}/runs/{quoted(run_id)}/events", last):
                    failures, last = 0, event_id or last
                    if kind == "end":
                        return
                    if kind == "progress":
                        yield events.LatestProgress.model_validate_json(data).event
                    elif kind != "work":
                        yield events.LoggedEvent.model_validate_json(data).event
            except errors.UnreachableError:
                failures += 1
                if failures > 3:
                    raise
            time.sleep(min(failures, _LAST_LOOK_S))

    def cancel(self, run_id: str) -> Cancellation:
        """End a run, or take it out of the queue."""
        return self._transport.send("POST", f"{_API}/runs/{quoted(run_id)}/cancel", Cancellation)

    def verify(self, run_id: str, *, catalog: str | None = None) -> Verification:
        """Check a past run, and wait for the result."""
        path = f"{_API}/runs/{quoted(run_id)}/verify"
        work = self._begin(path, None, True, None, catalog=catalog)
        if work.result is None:
            raise errors.ExecuteError(work.sentence or f"The check is {work.state.value}.")
        return Verification.model_validate(dict(work.result))

    def undo(self, run_id: str, *, catalog: str | None = None, wait: bool | float = True) -> Work:
        """Undo a past run."""
        return self._begin(f"{_API}/runs/{quoted(run_id)}/undo", {}, wait, None, catalog=catalog)

    def policies(self) -> Iterator[StoredPolicy]:
        """Policies that were put into the service."""
        return self._pages("/policies", StoredPolicy)

    def put_policy(self, name: str, document: Mapping[str, Any]) -> None:
        """Store a policy, which is a policy file as a mapping."""
        self._transport.send("PUT", f"{_API}/policies/{quoted(name)}", None, dict(document))

    def validate_policy(self, document: Mapping[str, Any]) -> PolicyReview:
        """Whether a policy could be put, and what is wrong with it."""
        return self._transport.send("POST", f"{_API}/policies/validate", PolicyReview, dict(document))

    def delete_policy(self, name: str) -> None:
        """Forget a stored policy."""
        self._transport.send("DELETE", f"{_API}/policies/{quoted(name)}", None)

    def fleet(self) -> FleetSummary:
        """All tables in figures."""
        return self._transport.get(f"{_API}/fleet", FleetSummary)

    def ranking(self) -> Iterator[RankedLook]:
        """Tables, the sickest first."""
        return self._pages("/fleet/ranking", RankedLook)

    def notify(self, table: str, *, catalog: str | None = None) -> NoticeAnswer:
        """Tell that a table was changed, so that the service looks at it soon."""
        body = {"table": table, "catalog": catalog}
        return self._transport.send("POST", f"{_API}/notify", NoticeAnswer, body)

    def block(self, table: str, seconds: float | str, *, reason: str = "", catalog: str | None = None) -> str:
        """Ask for peace on a table: no work begins there until then. The id is for `unblock`."""
        body = {"seconds": seconds, "reason": reason}
        made: dict[str, Any] = self._transport.send(
            "POST", f"{_API}/tables/{quoted(table)}/blockers", dict[str, Any], body, catalog=catalog
        )
        return str(made["blocker_id"])

    def unblock(self, table: str, blocker_id: str, *, catalog: str | None = None) -> None:
        """End a blocker before its time."""
        path = f"{_API}/tables/{quoted(table)}/blockers/{quoted(blocker_id)}"
        self._transport.send("DELETE", path, None, catalog=catalog)

    def _begin(self, path: str, body: Any, wait: bool | float, key: str | None, **query: Any) -> Work:
        seconds = None if wait is True else float(wait)
        first = _LONGEST_ANSWER_S if seconds is None else min(seconds, _LONGEST_ANSWER_S)
        started = time.monotonic()
        accepted: AcceptedWork = self._transport.send(
            "POST", path, AcceptedWork, body, key=key or uuid.uuid4().hex, wait=first or None, **query
        )
        left = None if seconds is None else max(0.0, seconds - (time.monotonic() - started))
        return self.wait(accepted.work, left)

    def _pages(self, path: str, item: type[Item], **query: Any) -> Iterator[Item]:
        after: str | None = None
        while True:
            page: ListPage[Any] = self._transport.get(_API + path, ListPage[item], after=after, **query)  # type: ignore[valid-type]
            yield from page.items
            after = page.next
            if after is None:
                return
