"""The steps of a run on one table, for displays, streams and metrics: a closed union of values, told apart by `kind`,
that go to JSON and back. Events inform; no part of the work depends on one."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from iceberg_compaction.model.outcome import Outcome
from iceberg_compaction.model.run_figures import PlanForecast, TableFigures
from iceberg_compaction.model.value import Count, Value


class _Step(Value):
    """The fields that all events have."""

    table: str
    run_id: str


class Planning(_Step):
    """The run reads the table's metadata to make a plan, or to see what is left of one."""

    kind: Literal["planning"] = "planning"
    performs: bool = True  # False: the plan is only shown, so that nothing follows it


class Planned(_Step):
    """The plan is made; all figures are 0 if there is nothing to do."""

    kind: Literal["planned"] = "planned"
    sentence: str
    files: Count = 0
    bytes: Count = 0
    groups: Count = 0
    forecast: PlanForecast | None = None  # None: the plan has none, or an older version made the event
    before: TableFigures | None = None  # the table that the plan was made on


class Recovering(_Step):
    """The run looks for files of earlier runs that did not finish."""

    kind: Literal["recovering"] = "recovering"
    runs: Count


class EngineChosen(_Step):
    """The run was free to choose its engine, and has chosen for a plan."""

    kind: Literal["engine-chosen"] = "engine-chosen"
    engine: str
    sentence: str


class Starting(_Step):
    """The plan is made, and the run waits for the engine."""

    kind: Literal["starting"] = "starting"
    engine: str


class _FileProgress(_Step):
    """Progress of work on files, some times a second. Totals are those of the plan, so that a bar can be drawn from any
    single event."""

    files_done: Count
    files_total: Count
    bytes_done: Count
    bytes_total: Count
    groups_committed: Count = 0
    groups_total: Count = 0
    by_task: bool = False  # bytes count only when a task ends, because no worker has sent more so far


class Rewriting(_FileProgress):
    """Progress of the rewrite. Files are those that manifests list if manifests are rewritten."""

    kind: Literal["rewriting"] = "rewriting"


class Comparing(_FileProgress):
    """Progress of a check: the rows of files are read and measured, and nothing is written."""

    kind: Literal["comparing"] = "comparing"


class TaskEnded(_Step):
    """A task has ended. Its files are not part of the table yet."""

    kind: Literal["task-ended"] = "task-ended"
    task_id: int
    group_id: int
    failed: bool = False
    seconds: float = 0.0  # all figures are 0 if it failed
    bytes_read: Count = 0
    bytes_written: Count = 0
    file_sizes: tuple[Count, ...] = ()  # of the files that it wrote
    attempts: Count = 1  # of an engine that retries tasks by itself


class Committing(_Step):
    """A commit begins; of `groups` groups, 0 if it only changes metadata."""

    kind: Literal["committing"] = "committing"
    groups: Count = 0


class Committed(_Step):
    """A snapshot is in the table; with `groups` groups, 0 if it only changed metadata."""

    kind: Literal["committed"] = "committed"
    snapshot_id: int
    groups: Count = 0
    attempts: Count = 1  # commit attempts that it took
    after: TableFigures | None = None  # the table before the run, with all changes of the run and nobody else's


class GroupFailed(_Step):
    """A group cannot be rewritten and stays as it is; the run goes on with the others."""

    kind: Literal["group-failed"] = "group-failed"
    group_id: int
    sentence: str


class Finished(_Step):
    """The run has ended with this outcome."""

    kind: Literal["finished"] = "finished"
    outcome: Outcome


Event: TypeAlias = Annotated[
    Planning
    | Planned
    | Recovering
    | EngineChosen
    | Starting
    | Rewriting
    | TaskEnded
    | Comparing
    | Committing
    | Committed
    | GroupFailed
    | Finished,
    Field(discriminator="kind"),
]


class LoggedEvent(Value):
    """An event in the run store. Numbers of a run are in the order of its events."""

    number: Count
    at_ms: int
    event: Event


class LatestProgress(Value):
    """The last progress of a run in the run store, which replaces the one before."""

    at_ms: int
    since_ms: int  # when the rewrite of these files began
    event: Rewriting | Comparing


_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def from_json(text: str | bytes) -> Event:
    """The event that `model_dump_json` wrote."""
    return _ADAPTER.validate_json(text)
