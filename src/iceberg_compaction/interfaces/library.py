"""The library's front door: a `Compactor` bound to a catalog and a policy. It translates arguments into the values that
the workflow takes, and nothing more."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, ExitStack, nullcontext
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from iceberg_compaction import cancel, errors
from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.interfaces import (
    call_arguments,
    orphan_options,
    policy_options,
    session_catalog,
    stopped_call,
    upkeep_goals,
    upkeep_operations,
    wiring,
)
from iceberg_compaction.interfaces.cli import run_names
from iceberg_compaction.interfaces.followed_policy import FollowedPolicy
from iceberg_compaction.interfaces.notebook import cell_progress, rich_values
from iceberg_compaction.model import byte_size, durations, moments, policies
from iceberg_compaction.model.maintenance import MaintenanceStep
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.portable_task import PortableResult
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.operations.deletes import choose_deletes
from iceberg_compaction.operations.deletes.delete_upkeep import CleanDeletes
from iceberg_compaction.operations.rewrite_files import commit_results
from iceberg_compaction.operations.rewrite_files.file_rewrite import ApplyPlan, RewriteFiles
from iceberg_compaction.operations.rewrite_files.resume.resume_run import ResumeRun
from iceberg_compaction.operations.rewrite_manifests.manifest_rewrite import ManifestGoal, RewriteManifests
from iceberg_compaction.operations.ttl.expire_rows import ExpireRows
from iceberg_compaction.operations.undo.judge_undo import UndoRequest
from iceberg_compaction.operations.undo.undo_run import UndoRun
from iceberg_compaction.operations.verify import verify_run
from iceberg_compaction.plan.triggers import table_check
from iceberg_compaction.policy import decline
from iceberg_compaction.record import health_log, past_runs
from iceberg_compaction.record.reports import report_run
from iceberg_compaction.workflow import diagnose, explain_table, operate, resumable, table_upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import SparkSession

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.cancel_request import Cancellation
    from iceberg_compaction.model.deletes_plan import DeletesPlan
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.expire_plan import ExpirePlan
    from iceberg_compaction.model.explanation import Explanation
    from iceberg_compaction.model.maintenance import TableMaintenance
    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.orphan_plan import OrphanPlan
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.portable_task import PortableTask
    from iceberg_compaction.model.repair_plan import RepairPlan
    from iceberg_compaction.model.resume_view import ResumeView
    from iceberg_compaction.model.run_record import RunRecord
    from iceberg_compaction.model.run_report import RunReport
    from iceberg_compaction.model.statistics_plan import StatisticsPlan
    from iceberg_compaction.model.table_due import TableDue
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.model.tag_plan import TagPlan
    from iceberg_compaction.model.ttl_plan import TtlPlan
    from iceberg_compaction.model.undo_plan import UndoPlan
    from iceberg_compaction.model.verification import Verification
    from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots
    from iceberg_compaction.operations.operation import Operation
    from iceberg_compaction.operations.tags.make_tags import MakeTags
    from iceberg_compaction.record.runs import Run

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
rich_values.enable()


@call_arguments.checked
class Compactor:
    """Compacts tables of one catalog by one policy.

        Compactor("prod", strategy=Strategy.SMALL_FILES, target_file_size="1GB").compact_table("db.sales")

    `catalog` is a PyIceberg catalog, its configured name, its URI, its properties as a mapping, or CatalogSettings.
    `options` takes the names of
    Iceberg's `rewrite_data_files` (`min-input-files`) or their Python form. Used as a context manager it keeps one
    Spark session for all its tables; a session that is passed in is used and never stopped. `state` is the run
    store, a file or a URL, as the command line has it: without it nobody can remove what a killed run leaves behind.
    `deadline` is how long each run may take, in seconds or as text such as "2h". `namespace` is where tables are looked
    for that are named without one; by default CATALOG_NAMESPACE, else the only namespace that has such a table.
    `policy` is a policy file, or its content as a mapping, a `Policy` or a `TablePolicy`; arguments win over it, and
    properties of tables belong to it (docs/reference/policy.md). `environment` is the one of the file that counts.
    `write_options` are parameters of the writer that override the table's properties for these runs, such as
    {"write.parquet.compression-codec": "zstd"}; `snapshot_properties` are entries for the summaries of snapshots.
    `progress`: whether runs are drawn in a notebook; nothing is drawn elsewhere.
    """

    def __init__(  # noqa: PLR0913 - a front door names what it takes
        self,
        catalog: Any,
        strategy: policies.Strategy | str | None = None,
        target_file_size: int | str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        policy: str | Path | policies.Policy | TablePolicy | Mapping[str, Any] | None = None,
        environment: str | None = None,
        branch: str = "main",
        spark: SparkSession | None = None,
        engine: str | Engine = "spark",
        conf: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        state: str | Path | None = None,
        deadline: float | str | None = None,
        namespace: str | None = None,
        write_options: Mapping[str, str] | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: bool = True,
    ) -> None:
        self._session = catalog if isinstance(catalog, session_catalog.SessionCatalog) else None
        catalog = catalog if self._session is None else self._session.settings
        self.catalog = connect.catalog_of(catalog)
        given = {**wiring.default_options(), **(options or {})}
        given |= {"write-options": dict(write_options)} if write_options else {}
        given |= {"snapshot-properties": dict(snapshot_properties)} if snapshot_properties else {}
        self.policy = policy_options.make_policy(strategy, target_file_size, given, whole=policy is None)
        self._followed = FollowedPolicy(rewrite=self.policy, source=policy, environment=environment, from_flags=False)
        if policy is not None:
            _ = self._followed.book  # what cannot be used is told now
        self._branch = branch
        self._namespace = wiring.default_namespace() if namespace is None else namespace
        self._on_event = on_event
        self._store = None if state is None else wiring.run_store(str(state))
        self._deadline = None if deadline is None else durations.parse_seconds(deadline)
        self._engines = wiring.engine_factory(engine, session=session_catalog.checked(spark), conf=conf)
        self._open = ExitStack()
        self._engine: Engine | None = None
        self._keep = False
        self._progress = progress

    @classmethod
    def from_spark(
        cls,
        spark: SparkSession,
        catalog: str | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Compactor:
        """A Compactor for a catalog that a Spark session is configured for (`spark.sql.catalog.lake.*`), which works on
        that session and takes names as Spark does: `lake.db.t`.

            Compactor.from_spark(spark, "lake").compact_table("lake.db.sales")

        The session may be one of Spark Connect. `catalog`: by default the session's current one. `properties` of
        PyIceberg win over the session's, where this machine reaches the catalog or its files in another way than Spark
        does. `arguments` are those of Compactor."""
        session = session_catalog.read(spark, catalog, properties or {})
        return cls(session, **{"spark": spark, **arguments})

    @staticmethod
    def builder() -> CompactorBuilder:
        """A Compactor step by step: `Compactor.builder().catalog("prod").strategy("full").build()`."""
        return CompactorBuilder()

    def __enter__(self) -> Compactor:
        self._keep = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keep, self._engine = False, None
        self._open.close()

    def inspect_table(self, name: str) -> TableHealth:
        """How healthy a table is, as `doctor` sees it, whatever the policy; reads metadata only."""
        cache, policy = wiring.manifest_cache(), policies.Policy()
        how = diagnose.HealthLook(branch=self._branch, cache=cache, now_ms=wiring.now_ms())
        return diagnose.diagnose(self.catalog, self._full_name(name), policy, how)

    def due_tables(self) -> list[TableDue]:
        """Which tables the policy's triggers ask for, from their last looks in `state` alone, and when time alone will.
        `doctor --remember` and runs write these looks; no table is read, so that properties of tables do not count."""
        looks = () if self._store is None else health_log.HealthLog(entries=self._store.entries).each_latest()
        now_ms = wiring.now_ms()
        return [
            table_check.check(look, self._followed.effective(look.table, {}).policy.rewrite, now_ms) for look in looks
        ]

    def plan_table(self, name: str) -> Plan | EmptyPlan:
        """What `compact_table` would do, and why; writes nothing."""
        return operate.plan_only(self._rewrite(name), self._house(), self._run())

    def policy_of(self, name: str) -> EffectivePolicy:
        """The policy of a table, made of arguments, `policy` and the table's properties, with the origin of each
        value."""
        return explain_table.effective_policy(self.catalog, self._explained(name))

    def explain(self, name: str) -> Explanation:
        """Why a table is compacted now or not, as `explain` has it; writes nothing."""
        return explain_table.explain(self.catalog, self._explained(name), self._run())

    def apply(self, plan: Plan | EmptyPlan) -> Outcome:
        """Perform a plan made before, as it is now: groups whose files are gone by then are dropped and told."""
        return self._operate(ApplyPlan(given=_a_plan(plan)))

    def compact_table(self, name: str) -> Outcome:
        """Plan, rewrite, prove and commit one table."""
        return self._operate(self._rewrite(name))

    def resume(self, run_id: str) -> Outcome:
        """Go on with a run that was killed: commit what is ready and still holds, and do only the rest."""
        head = resumable.find(self._run(), run_id).head
        operation = ResumeRun(table=head.entry.table, run_id=head.run_id, branch=head.branch)
        return self._operate(operation)

    def resumable(self, run_id: str) -> ResumeView:
        """The progress of a run that was killed, and how much of it can be reused; writes nothing."""
        run = self._run()
        return resumable.show(run, self.catalog, resumable.find(run, run_id))

    def tasks(self, plan: Plan | EmptyPlan, *, cores: int = 1) -> list[PortableTask]:
        """The tasks of a plan, to be performed by `execute_task` anywhere; `cores`: how many will run at a time."""
        plan = _a_plan(plan)
        if isinstance(plan, EmptyPlan):
            return []
        table = load_tables.load_table(self.catalog, plan.table)
        return commit_results.tasks(table, plan, self._run(), cores=cores)

    def commit(self, plan: Plan | EmptyPlan, results: Sequence[PortableResult]) -> Outcome:
        """Commit the results of a plan's tasks. Groups that lack a result stay as they are. No file of a result is
        removed, whatever becomes of it."""
        plan = _a_plan(plan)
        if isinstance(plan, EmptyPlan):
            return self.apply(plan)
        results = tuple(results)
        if wrong := [each for each in results if not isinstance(each, PortableResult)]:
            raise errors.ConfigError(
                f"A result of execute_task is needed, not a value of type {type(wrong[0]).__name__}."
            )
        operation = commit_results.CommitResults(given=plan, results=results)
        return self._operate(operation)

    def maintain(self, name: str, steps: Sequence[str] | str = ()) -> TableMaintenance:
        """All upkeep that the policy of a table asks for, in the one safe order; or these steps: tags, expire, ttl,
        deletes, rewrite, manifests, statistics, orphans. A table that is off, or in quiet hours, is passed over."""
        steps = [steps] if isinstance(steps, str) else steps
        known = [step.value for step in MaintenanceStep]
        if unknown := [step for step in steps if step not in known]:
            raise errors.ConfigError(f"There is no step {unknown[0]!r} of upkeep; the steps are {', '.join(known)}.")
        full = self._full_name(name)
        table = load_tables.load_table(self.catalog, full)
        effective = self._followed.effective(full, table.properties)
        if reason := decline.reason(effective, wiring.now_ms()):
            return table_upkeep.declined(full, reason)
        chosen = table_upkeep.steps_of(effective.policy, [MaintenanceStep(step) for step in steps])
        request = table_upkeep.UpkeepRequest(table=full, policy=effective.policy, steps=chosen, branch=self._branch)
        return table_upkeep.maintain(table, request, self._operate)

    def plan_manifests(
        self, name: str, *, target_size: int | str | None = None, spec_id: int | None = None
    ) -> ManifestPlan:
        """What `rewrite_manifests` would do, and why; writes nothing."""
        return operate.plan_only(self._manifests(name, target_size, spec_id), self._house(), self._run())

    def rewrite_manifests(
        self, name: str, *, target_size: int | str | None = None, spec_id: int | None = None
    ) -> Outcome:
        """Cluster a table's manifests by partition where that is worth a commit; no data file is touched."""
        return self._operate(self._manifests(name, target_size, spec_id))

    def plan_ttl(self, name: str, **goal: Any) -> TtlPlan:
        """What `expire_rows` would do with the same arguments, and why; writes nothing."""
        return operate.plan_only(self._ttl(name, goal), self._house(), self._run())

    def expire_rows(self, name: str, **goal: Any) -> Outcome:
        """Remove the data files all of whose rows are past their time, from metadata alone. `column`: the time of a
        row; `older_than`, such as "90d", or `before`, such as "2026-01-31"; `unit` of a column of numbers: "days", "s",
        "ms" or "us"; `since`: "now" or "last-write"; `rows`: "keep", or "rewrite" to write files anew that have newer
        rows as well; `whole_partitions`, `even_everything`."""
        return self._operate(self._ttl(name, goal))

    def find_orphans(self, name: str, **options: Any) -> OrphanPlan:
        """Files in the table's folders that nothing of it refers to, and why all others stay; writes nothing. `options`
        as for `remove_orphans`."""
        operation = orphan_options.removal(self._full_name(name), options)
        return operate.plan_only(operation, self._house(), self._run())

    def remove_orphans(self, name: str, **options: Any) -> Outcome:
        """Move orphans into quarantine, or delete them at once with `to_quarantine=False`. `options` are those of the
        command `orphans`: `older_than`, `allow_recent`, `locations`, `equal_schemes`, `equal_authorities`,
        `keep_mismatches`, `force_share`, `allow_unlisted`, `most_files`, `uploads`, `quarantine`."""
        operation = orphan_options.removal(self._full_name(name), options)
        return self._operate(operation)

    def restore_orphans(self, name: str, run_id: str | None = None, *, quarantine: str | None = None) -> Outcome:
        """Bring files back from quarantine: all, or those that one run put there."""
        options = {"run_id": run_id, "quarantine": quarantine}
        return self._operate(orphan_options.end(self._full_name(name), "restore", options))

    def purge_orphans(
        self,
        name: str,
        run_id: str | None = None,
        *,
        older_than: float | str = "7d",
        quarantine: str | None = None,
        allow_unlisted: bool = False,
    ) -> Outcome:
        """Delete files for good that are in quarantine for this long, and that no table of the catalog refers to.
        `allow_unlisted`: also if some tables cannot be looked at."""
        options = {
            "run_id": run_id,
            "quarantine": quarantine,
            "older_than": older_than,
            "allow_unlisted": allow_unlisted,
        }
        return self._operate(orphan_options.end(self._full_name(name), "purge", options))

    def plan_expire(self, name: str, **options: Any) -> ExpirePlan:
        """What `expire_snapshots` would do, file by file, and why; takes the same arguments, writes nothing."""
        return operate.plan_only(self._expire(name, options, count_files=True), self._house(), self._run())

    def expire_snapshots(self, name: str, **options: Any) -> Outcome:
        """Expire old snapshots of a table, and delete the files that only they needed. Arguments, all optional, are
        those of the command: `older_than` (a moment such as "7d"), `retain_last`, `snapshot_ids`, `allow_recent`,
        `clean_metadata`, `keep_files`, `allow_unlisted`, `deletes_per_second`."""
        return self._operate(self._expire(name, options))

    def plan_tags(self, name: str, **options: Any) -> TagPlan:
        """The tags that `make_tags` would make, and why; takes the same arguments, writes nothing."""
        return operate.plan_only(self._tags(name, options), self._house(), self._run())

    def make_tags(self, name: str, **options: Any) -> Outcome:
        """Tag a table as it was at the end of each day, hour or month. Arguments, all optional, are those of the
        command: `every`, `at`, `zone`, `keep`, `name_pattern`, `max_delay`, `only_changed`."""
        return self._operate(self._tags(name, options))

    def plan_statistics(self, name: str, **options: Any) -> StatisticsPlan:
        """The statistics that `refresh_statistics` would make, and why; takes the same arguments, writes nothing."""
        own = {"table": self._full_name(name), "branch": self._branch}
        operation = call_arguments.made(upkeep_operations.statistics, "refresh_statistics", options, **own)
        return operate.plan_only(operation, self._house(), self._run())

    def refresh_statistics(self, name: str, **options: Any) -> Outcome:
        """Make the statistics that a table lacks: rows and files of each partition, from metadata alone. `columns`,
        such as ["id", "city"] or "all": count their distinct values, too, which reads them; `partitions=False` does
        only that."""
        own = {"table": self._full_name(name), "branch": self._branch}
        operation = call_arguments.made(upkeep_operations.statistics, "refresh_statistics", options, **own)
        return self._operate(operation)

    def check_table(self, name: str, *, deep: bool = False) -> RepairPlan:
        """What is wrong with a table's metadata, compared with its files; writes nothing. `deep`: rows are counted by
        the footer of every Parquet file."""
        operation = upkeep_operations.repair(self._full_name(name), branch=self._branch, deep=deep)
        return operate.plan_only(operation, self._house(), self._run())

    def repair_table(self, name: str, **options: bool) -> Outcome:
        """Mend what `check_table` finds and can be mended. Options are `deep`; `drop_missing`: data files that are
        missing in storage leave the table, and their rows are lost; `even_most`: even if most of them are missing."""
        own = {"table": self._full_name(name), "branch": self._branch}
        operation = call_arguments.made(upkeep_operations.repair, "repair_table", options, **own)
        return self._operate(operation)

    def plan_deletes(self, name: str, **wanted: Any) -> DeletesPlan:
        """What `clean_deletes` would do, and why; writes nothing."""
        return operate.plan_only(self._deletes(name, **wanted), self._house(), self._run())

    def clean_deletes(self, name: str, **wanted: Any) -> Outcome:
        """Tidy delete files without rewriting data: `dangling=True` drops those that apply to nothing, `merge=True`
        merges position deletes, `convert=True` turns equality deletes into position deletes; all of it if none is
        named. `where` and `granularity` are as in the command `deletes`; `verify="deep"` also reads all rows before and
        after."""
        return self._operate(self._deletes(name, **wanted))

    def history(
        self,
        table: str | None = None,
        *,
        kind: Kind | str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """Past runs of `state`, the newest first. `table` may be a pattern such as `shop.*`; `since` and `until` are
        moments as `history` takes them: 7d, 2026-01-31."""
        now = wiring.now_ms()
        wanted = past_runs.HistoryFilter(
            tables=() if table is None else (self._own_name(table),),
            kinds=frozenset() if kind is None else frozenset({_member(Kind, kind)}),
            since_ms=None if since is None else moments.parse_ms(since, now),
            until_ms=None if until is None else moments.parse_ms(until, now, end=True),
            limit=limit,
        )
        return [] if self._store is None else past_runs.select(self._store, wanted)

    def report(self, run_id: str) -> RunReport:
        """All that `state` has about one run: before and after, predicted and actual, the time of each stage. `run_id`
        may be the beginning of an id, or `latest`."""
        named = run_names.find(self._store, run_id)
        assert self._store is not None  # else there is no run of any name
        return report_run.report(self._store, named.run_id, wiring.now_ms())

    def cancel(self, run_id: str, *, wait: float | str = 30) -> Cancellation:
        """End a run that is at work in another process and has the same `state`. What it has finished is committed, and
        nothing half-done stays. `wait`: for its end, in seconds or as text such as "2m"."""
        named = run_names.find(self._store, run_id)
        assert self._store is not None  # else there is no run of any name
        seconds = durations.parse_seconds(wait) if wait else 0.0
        canceller = wiring.canceller(self._store, wait_s=seconds)
        return canceller.cancel(named.run_id, named.table, named.unfinished)

    def verify(self, run_id: str, table: str | None = None) -> Verification:
        """Check a past run: its files are read again and compared with the proof of the run and, where they still
        exist, with the files that it replaced. `table` may be left out if the run store has the run."""
        name, remembered = self._past_run(run_id, table)
        request = verify_run.VerifyRun(table=name, checked_run_id=run_id, remembered=remembered)
        loaded = load_tables.load_table(self.catalog, name)
        return self._attended(lambda run: verify_run.verify(request, loaded, run, self._engine_for_one))

    def plan_undo(self, run_id: str, table: str | None = None) -> UndoPlan:
        """What `undo` would do, and why, or why it would be refused; writes nothing."""
        return operate.plan_only(self._undo(run_id, table), self._house(), self._run())

    def undo(self, run_id: str, table: str | None = None, *, despite_differences: bool = False) -> Outcome:
        """Bring back the files that a run replaced, all or none, if nothing was deleted or rewritten since. The rows of
        the table stay the same, unless `despite_differences` is set and the run's files are damaged."""
        return self._operate(self._undo(run_id, table, despite_differences))

    def list_tables(self, pattern: str = "*") -> list[str]:
        """The catalog's tables whose name matches a pattern such as `shop.*`. Names are Spark's, with the catalog, if
        it is one of a Spark session."""
        names = load_tables.list_tables(self.catalog, self._own_name(pattern))
        return names if self._session is None else [self._session.spark_name(name) for name in names]

    def _run(self) -> Run:
        token = cancel.CancelToken(seconds=self._deadline)
        return wiring.new_run(on_event=self._on_event, store=self._store, cancel=token)

    def _attended(self, work: Callable[[Run], T]) -> T:
        """Work that a person may watch and stop."""
        token = cancel.CancelToken(seconds=self._deadline)
        with cell_progress.drawn(self._on_event, token, wanted=self._progress) as on_event:
            run = wiring.new_run(on_event=on_event, store=self._store, cancel=token)
            return stopped_call.stoppable(lambda: work(run), token)

    def _operate(self, operation: Operation[Any], loaded: Any = None) -> Outcome:
        house = self._house(loaded)
        return self._attended(lambda run: operate.operate(operation, house, run))

    def _house(self, loaded: Any = None) -> operate.House:
        return operate.House(catalog=self.catalog, engines=self._engine_for_one, loaded=loaded)

    def _own_name(self, name: str) -> str:
        return name if self._session is None else self._session.own_name(name)

    def _full_name(self, name: str) -> str:
        return load_tables.full_name(self.catalog, self._own_name(name), self._namespace)

    def _rewrite(self, name: str) -> RewriteFiles:
        return RewriteFiles(table=self._full_name(name), policy=self._followed, branch=self._branch)

    def _explained(self, name: str) -> explain_table.ExplainRequest:
        return explain_table.ExplainRequest(table=self._full_name(name), source=self._followed, branch=self._branch)

    def _manifests(self, name: str, target_size: int | str | None, spec_id: int | None) -> RewriteManifests:
        target = None if target_size is None else byte_size.parse_size(target_size)
        goal = ManifestGoal(target_size_bytes=target, spec_id=spec_id)
        return RewriteManifests(table=self._full_name(name), goal=goal, branch=self._branch)

    def _ttl(self, name: str, goal: Mapping[str, Any]) -> ExpireRows:
        made = call_arguments.made(upkeep_goals.ttl_goal, "expire_rows", goal)
        return ExpireRows(table=self._full_name(name), goal=made, branch=self._branch)

    def _expire(self, name: str, options: dict[str, Any], *, count_files: bool = False) -> ExpireSnapshots:
        per_second = options.pop("deletes_per_second", None)
        also = ["deletes_per_second"]
        goal = call_arguments.made(upkeep_operations.retention_goal, "expire_snapshots", options, also=also)
        return upkeep_operations.expire(self._full_name(name), goal, per_second=per_second, count_files=count_files)

    def _tags(self, name: str, options: dict[str, Any]) -> MakeTags:
        only_changed = options.pop("only_changed", False)
        own = {"name": options.pop("name_pattern", None)}
        also = ["name_pattern", "only_changed"]
        goal = call_arguments.made(upkeep_operations.tag_goal, "make_tags", options, also=also, **own)
        return upkeep_operations.tags(self._full_name(name), goal, branch=self._branch, only_changed=only_changed)

    def _deletes(self, name: str, *, verify: str = "counts", **wanted: Any) -> CleanDeletes:
        goal = call_arguments.made(choose_deletes.goal_of, "clean_deletes", wanted, also=["verify"])
        return CleanDeletes(
            table=self._full_name(name),
            goal=goal,
            branch=self._branch,
            deep=_member(policies.ProofLevel, verify).value == "deep",
        )

    def _undo(self, run_id: str, table: str | None, despite_differences: bool = False) -> UndoRun:
        name, remembered = self._past_run(run_id, table)
        branch = None if self._branch == "main" else self._branch
        request = UndoRequest(
            table=name,
            undone_run_id=run_id,
            branch=branch,
            remembered=remembered,
            undone_by=wiring.undone_by(self._store, name, run_id),
        )
        return UndoRun(request=request, despite_differences=despite_differences)

    def _past_run(self, run_id: str, table: str | None) -> tuple[str, tuple[int, ...]]:
        """The table of a run, and the snapshots that the store has of it."""
        record = wiring.past_run(self._store, run_id)
        if table is not None:
            return self._full_name(table), () if record is None else record.outcome.snapshot_ids
        if record is None:
            raise errors.ConfigError(f"The run store does not have run {run_id}; name its table.")
        return record.table, record.outcome.snapshot_ids

    def _engine_for_one(self) -> AbstractContextManager[Engine]:
        if not self._keep:
            return self._engines()
        if self._engine is None:
            self._engine = self._open.enter_context(self._engines())
        return nullcontext(self._engine)


class _NoSuchArgumentError(errors.ConfigError, AttributeError):
    """Python, too, asks objects for attributes, and takes no other error for an answer."""


class CompactorBuilder:
    """Has one method for each argument of Compactor, and `build`."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Callable[[Any], CompactorBuilder]:
        known = list(inspect.signature(Compactor).parameters)
        if name not in known:
            raise _NoSuchArgumentError(f"Compactor has no argument {name}; the arguments are {', '.join(known)}.")
        return lambda value: CompactorBuilder(**{**self._given, name: value})

    def build(self) -> Compactor:
        """The Compactor with the arguments so far."""
        if "catalog" not in self._given:
            raise errors.ConfigError("A Compactor needs a catalog: call catalog(...) before build().")
        return Compactor(**self._given)


def tasks(plan: Plan | EmptyPlan, catalog: Any, *, cores: int = 1) -> list[PortableTask]:
    """The tasks of a plan, see `Compactor.tasks`."""
    return Compactor(catalog, engine="inline").tasks(plan, cores=cores)


def commit_tasks(plan: Plan | EmptyPlan, results: Sequence[PortableResult], catalog: Any) -> Outcome:
    """Commit the results of a plan's tasks, see `Compactor.commit`."""
    return Compactor(catalog, engine="inline").commit(plan, results)


def _a_plan(given: Plan | EmptyPlan) -> Plan | EmptyPlan:
    if not isinstance(given, Plan | EmptyPlan):
        kind = type(given).__name__
        raise errors.ConfigError(f"A plan of plan_table or load_plan is needed, not a value of type {kind}.")
    return given


def _member(kind: type[E], value: Any) -> E:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(str(each.value) for each in kind)
        raise errors.ConfigError(f"{value!r} is not one of {names}.") from None
