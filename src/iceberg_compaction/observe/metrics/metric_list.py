"""Every metric that a run may give: name, kind, unit, labels and meaning. Prometheus, OpenTelemetry and the
documentation have them from here. Names and units follow the conventions of Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PREFIX = "iceberg_compaction_"
TABLE = "table"  # the label
OTHER = "other"  # the table of all tables beyond the limit


class MetricKind(str, Enum):
    """How values of a metric add up. Closed set."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. `name` is without prefix, and without `_total`, which all counters have."""

    name: str
    kind: MetricKind
    unit: str  # of OpenTelemetry (UCUM): s, By, 1, or a noun in braces
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is MetricKind.COUNTER else ''}"

    @property
    def otel_name(self) -> str:
        """The name in OpenTelemetry, where the unit is a field of its own."""
        bare = self.name.removesuffix("_seconds").removesuffix("_bytes")
        return f"{PREFIX.removesuffix('_')}.{bare}"


_SECONDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0)
_MIB = 1 << 20
_SIZES = tuple(float(size * _MIB) for size in (0.0625, 1, 8, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048))
_RATIOS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def _counter(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, unit=unit, help=text, labels=labels)


def _gauge(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, unit=unit, help=text, labels=labels)


def _histogram(name: str, unit: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.HISTOGRAM, unit=unit, help=text, labels=labels, buckets=buckets)


BUILD_INFO = _gauge("build_info", "1", "1, with the version of the program.", "version")
RUNS = _counter("runs", "{run}", "Runs that have ended, by outcome.", "outcome", "table")
COMMAND_ERRORS = _counter("command_errors", "{command}", "Commands that an error ended, such as one of the catalog.")
FILES_COMPACTED = _counter("files_compacted", "{file}", "Data files that committed groups replaced.", "table")
FILES_ADDED = _counter("files_added", "{file}", "Data files that committed groups added.", "table")
BYTES_COMPACTED = _counter("compacted_bytes", "By", "Bytes of data files that committed groups replaced.", "table")
BYTES_ADDED = _counter("added_bytes", "By", "Bytes of data files that committed groups added.", "table")
BYTES_READ = _counter("read_bytes", "By", "Bytes that tasks have read, committed or not.", "table")
BYTES_WRITTEN = _counter("written_bytes", "By", "Bytes that tasks have written, committed or not.", "table")
RECORDS = _counter("records", "{row}", "Rows of the files that committed groups added.", "table")
DELETED_ROWS = _counter("deleted_rows", "{row}", "Rows that delete files had taken, and that left with them.", "table")
DELETE_FILES = _counter("delete_files_removed", "{file}", "Delete files that left the table.", "table")
GROUPS = _counter("groups", "{group}", "File groups of plans, by how they ended.", "outcome")
CONFLICTS = _counter("conflicts", "{group}", "File groups that other commits were in conflict with.", "table")
RETRIES = _counter("retries", "{attempt}", "Attempts after the first one, of commits and of tasks.", "kind")
COMMITS = _counter("commits", "{commit}", "Snapshots that were committed.", "table")
TASKS = _counter("tasks", "{task}", "Tasks that have ended, by outcome.", "outcome")
TASK_SECONDS = _counter("task_seconds", "s", "Time that tasks took, added up: the seconds of computing.", "table")
REQUESTS = _counter("storage_requests", "{request}", "Requests to object stores, by kind, retries included.", "kind")
COST = _counter("estimated_cost_dollars", "USD", "Computing and requests to storage, by the price list.", "table")
EXAMINATIONS = _counter("examinations", "{look}", "Looks at a table, by doctor or to make a plan.", "table")
RECOMMENDATIONS = _counter("recommendations", "{look}", "Looks that found a table worth compacting.", "table")

RUN_DURATION = _histogram("run_duration_seconds", "s", "Time from the begin of a run to its end.", _SECONDS, "outcome")
STAGE_DURATION = _histogram("stage_duration_seconds", "s", "Time that a run spent in a stage.", _SECONDS, "stage")
TASK_DURATION = _histogram("task_duration_seconds", "s", "Time that a task took.", _SECONDS)
FILE_SIZE = _histogram("file_size_bytes", "By", "Sizes of the data files that tasks wrote.", _SIZES)
COMPRESSION = _histogram(
    "compression_ratio", "1", "Bytes replaced / bytes added, of each run that committed groups.", _RATIOS
)

ACTIVE = _gauge("active_runs", "{run}", "Runs that are at work in this process.")
PENDING = _gauge("pending_runs", "{run}", "Tables of this command whose run has not begun.")
QUEUED_GROUPS = _gauge("queued_groups", "{group}", "File groups of running plans that are not committed yet.")
QUEUED_BYTES = _gauge("queued_bytes", "By", "Bytes of running plans that are not rewritten yet.")
LAST_RUN = _gauge("last_run_timestamp_seconds", "s", "When the last run ended, since the epoch.", "table")
LAST_SUCCESS = _gauge(
    "last_success_timestamp_seconds", "s", "When the last run ended in which nothing failed.", "table"
)
LAST_COMPRESSION = _gauge("last_compression_ratio", "1", "Bytes replaced / bytes added by the last run.", "table")
FILES_BEFORE = _gauge("last_run_files_before", "{file}", "Data files that the last run replaced.", "table")
FILES_AFTER = _gauge("last_run_files_after", "{file}", "Data files that the last run added for them.", "table")
TABLE_FILES = _gauge("table_data_files", "{file}", "Data files of the table.", "table")
SMALL_FILES = _gauge("table_small_files", "{file}", "Data files below the least size that the policy accepts.", "table")
TABLE_DELETES = _gauge("table_delete_files", "{file}", "Delete files of the table, as doctor saw it.", "table")
HEALTH = _gauge("table_health_score", "1", "0 (sick) to 100 (healthy), as doctor saw it.", "table")

METRICS = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
BY_NAME = {metric.full_name: metric for metric in METRICS}
