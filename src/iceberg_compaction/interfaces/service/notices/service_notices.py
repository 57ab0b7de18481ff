"""What of the life of a service is worth a notice: ends of work, suspended tables, spent budgets, and tables
that only get worse. The same thing has the same id on every replica, so that it is sent once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model.notice import Notice, NoticeKind
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.model.work import WorkState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.interfaces.service.notices.notice_queue import NoticeQueue
    from iceberg_compaction.model.run_figures import HealthEntry
    from iceberg_compaction.model.work import Work

WORSE_LOOKS = 4  # each worse than the one before
_WORSE_POINTS = 10  # of the score, over these looks
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNotices:
    """Notices of one process of a service. `queue`: where they wait."""

    queue: NoticeQueue
    tenant_of: Callable[[str], str | None]
    clock: Callable[[], int]

    def ended(self, work: Work) -> None:
        """Work has ended."""
        for notice in of_work(work, self.clock()):
            self.queue.post(notice)

    def suspended(self, catalog: str, table: str, failures: int, sentence: str) -> None:
        """A table failed so often that it is left alone for a while."""
        self._post(f"suspended-{catalog}-{table}-{failures}", NoticeKind.SUSPENDED, catalog, table, sentence)

    def spent(self, tenant: str) -> None:
        """A tenant has spent its budget; once an hour."""
        now_ms = self.clock()
        notice = Notice(
            notice_id=f"budget-{tenant}-{now_ms // _HOUR_MS}",
            kind=NoticeKind.BUDGET,
            at_ms=now_ms,
            tenant=tenant,
            sentence=f"The tenant {tenant} has spent its budget for an hour; its work waits.",
        )
        self.queue.post(notice)

    def seen(self, catalog: str, looks: Sequence[HealthEntry]) -> None:
        """The last looks at a table, the newest first; a notice once a day if it only gets worse."""
        if not is_worse(looks):
            return
        newest, oldest = looks[0], looks[WORSE_LOOKS - 1]
        words = f"Its score fell from {oldest.figures.score} to {newest.figures.score}, and never rose between."
        day = self.clock() // _DAY_MS
        self._post(f"worse-{catalog}-{newest.table}-{day}", NoticeKind.WORSE, catalog, newest.table, words)

    def _post(self, notice_id: str, kind: NoticeKind, catalog: str, table: str, sentence: str) -> None:
        notice = Notice(
            notice_id=notice_id,
            kind=kind,
            at_ms=self.clock(),
            sentence=sentence,
            catalog=catalog,
            table=table,
            tenant=self.tenant_of(table),
        )
        self.queue.post(notice)


def of_work(work: Work, now_ms: int) -> list[Notice]:
    """The notices of work that has ended."""
    kinds = {WorkState.FAILED: [NoticeKind.FAILED], WorkState.DONE: [NoticeKind.DONE]}.get(work.state, [])
    if _is_unknown(work):
        kinds = [*kinds, NoticeKind.UNKNOWN_COMMIT]
    request = work.request
    return [
        Notice(
            notice_id=f"{kind.value}-{request.work_id}",
            kind=kind,
            at_ms=now_ms,
            sentence=f"{request.kind.value}: {work.sentence}",
            catalog=request.catalog,
            table=request.table,
            tenant=request.tenant,
            run_id=work.run_id,
        )
        for kind in kinds
    ]


def is_worse(looks: Sequence[HealthEntry]) -> bool:
    """Whether each of the last looks, the newest first, is worse than the one before, and all of them by much."""
    scores = [look.figures.score for look in looks[:WORSE_LOOKS]]
    scored = [score for score in scores if score is not None]
    if len(scored) < WORSE_LOOKS:
        return False
    falls = all(newer < older for newer, older in itertools.pairwise(scored))
    return falls and scored[-1] - scored[0] >= _WORSE_POINTS


def _is_unknown(work: Work) -> bool:
    """Whether the catalog did not say what became of a commit."""
    result = work.result or {}
    steps = [step.get("outcome", {}) for step in result.get("steps", ())] or [result]
    ends = [group.get("outcome") for step in steps for group in step.get("group_outcomes", ())]
    return GroupEnd.UNKNOWN.value in ends
