"""The flags that verbs share, as groups: catalog, tables, policy, engine, console. No heavy import here: this module is
loaded for `--help`. Values stay text where the policy itself checks them, so that a rule is written once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from iceberg_compaction.interfaces.cli.flags import completed_values
from iceberg_compaction.interfaces.cli.flags.trigger_options import TriggerOptions

_CATALOG, _POLICY, _CONSOLE, _METRICS = "Catalog", "What to rewrite", "Console", "Metrics"
_SHORT = {  # flags that work as well, though no help names them; --target-file-size is one, too
    "copy": "copy-row-groups",
    "min-row-group-size": "min-row-group-size-bytes",
}


class LogFormat(str, Enum):
    """How logs are written."""

    TEXT = "text"
    JSON = "json"


class Format(str, Enum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """Which catalog; CATALOG_NAME, _URI, _TYPE, _WAREHOUSE, _CREDENTIAL and _TOKEN of the environment count too."""

    catalog_name: Annotated[
        str | None,
        typer.Option(
            help="Name in PyIceberg's configuration, or the catalog's own; default: default.", rich_help_panel=_CATALOG
        ),
    ] = None
    catalog_uri: Annotated[
        str | None,
        typer.Option(help="http(s)://, sqlite:///, postgresql://, thrift:// or glue://.", rich_help_panel=_CATALOG),
    ] = field(default=None, repr=False)
    catalog_type: Annotated[
        str | None, typer.Option(help="rest, sql, hive, glue; by default the URI says.", rich_help_panel=_CATALOG)
    ] = None
    warehouse: Annotated[str | None, typer.Option(help="Warehouse location or name.", rich_help_panel=_CATALOG)] = None
    catalog_property: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="A further catalog property; repeatable.", rich_help_panel=_CATALOG),
    ] = field(default=None, repr=False)
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="CATALOG_NAMESPACE",
            help="Where tables lie that are named without a namespace.",
            rich_help_panel=_CATALOG,
        ),
    ] = None
    spark_catalog: Annotated[
        str | None,
        typer.Option(help="Take the catalog from spark.sql.catalog.NAME.*", metavar="NAME", rich_help_panel=_CATALOG),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="A Spark setting; repeatable.", rich_help_panel=_CATALOG),
    ] = field(default=None, repr=False)


# Where the policy of a table comes from, beside its own properties. Flags win over it, value by value.
PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        envvar="POLICY_FILE",
        help="What is wanted for which table (YAML or JSON); see `iceberg-compact policy`.",
        rich_help_panel=_POLICY,
    ),
]
Environment = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="POLICY_ENVIRONMENT",
        help="The environment of the policy file that counts, such as production.",
        rich_help_panel=_POLICY,
    ),
]
_SOURCES = ("option", "trigger", "policy_file", "environment")  # that say where options come from, and are none


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions(TriggerOptions):
    """What to rewrite, under the names of Iceberg's rewrite_data_files."""

    policy_file: PolicyFile = None
    environment: Environment = None
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="small-files, full, delete-files, sort, time-series, dimensional, cost-optimized, adaptive, or that "
            "of an installed package; default: as the policy says, else small-files.",
            rich_help_panel=_POLICY,
            autocompletion=completed_values.strategies,
        ),
    ] = None
    target_file_size_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size of new files, such as 512MB; default: the table's own setting. Also --target-file-size.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    target_file_size: Annotated[str | None, typer.Option(hidden=True)] = None
    min_file_size_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Smaller files are candidates; default 0.75 x target.", rich_help_panel=_POLICY
        ),
    ] = None
    max_file_size_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Larger files are split; default 1.8 x target.", rich_help_panel=_POLICY),
    ] = None
    min_input_files: Annotated[
        str | None,
        typer.Option(metavar="N", help="Files that make a group worth rewriting; default 5.", rich_help_panel=_POLICY),
    ] = None
    max_file_group_size_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Bytes that one group may hold; default 100GiB.", rich_help_panel=_POLICY),
    ] = None
    max_file_group_input_files: Annotated[
        str | None, typer.Option(metavar="N", help="Files that one group may hold.", rich_help_panel=_POLICY)
    ] = None
    max_files_to_rewrite: Annotated[
        str | None, typer.Option(metavar="N", help="Stop adding groups after N input files.", rich_help_panel=_POLICY)
    ] = None
    max_bytes_to_rewrite: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Stop adding groups after so many input bytes.", rich_help_panel=_POLICY),
    ] = None
    rewrite_all: Annotated[
        bool | None,
        typer.Option("--rewrite-all", help="Rewrite every file, whatever its size.", rich_help_panel=_POLICY),
    ] = None
    delete_file_threshold: Annotated[
        str | None,
        typer.Option(metavar="N", help="Data files with so many delete files are candidates.", rich_help_panel=_POLICY),
    ] = None
    delete_ratio_threshold: Annotated[
        str | None,
        typer.Option(
            metavar="X", help="Data files with this share of rows deleted, too; default 0.3.", rich_help_panel=_POLICY
        ),
    ] = None
    delete_action: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION",
            help="delete-files: apply, merge or convert deletes, or the cheapest in each partition; default cheapest.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    keep_spec: Annotated[
        bool | None,
        typer.Option(
            "--keep-spec",
            help="New files keep the partition spec of their inputs; default: the table's current one.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    output_spec_id: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Partition spec of new files; only the current one is possible.", rich_help_panel=_POLICY
        ),
    ] = None
    copy_row_groups: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Row groups that need no change as bytes: auto, always or never; default auto.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    min_row_group_size_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Smaller row groups are merged, not copied; default 8MiB.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    copy: Annotated[str | None, typer.Option(hidden=True)] = None
    min_row_group_size: Annotated[str | None, typer.Option(hidden=True)] = None
    rewrite_job_order: Annotated[
        str | None,
        typer.Option(
            metavar="ORDER", help="none, bytes-asc, bytes-desc, files-asc or files-desc.", rich_help_panel=_POLICY
        ),
    ] = None
    partial_progress: Annotated[
        bool | None,
        typer.Option(
            help="Commit groups in batches as they are done; default: only in long runs.", rich_help_panel=_POLICY
        ),
    ] = None
    partial_progress_max_commits: Annotated[
        str | None, typer.Option(metavar="N", help="Batches at most; default 10.", rich_help_panel=_POLICY)
    ] = None
    replan_conflicts: Annotated[
        bool | None,
        typer.Option(help="Plan groups again that conflict with other commits; default: yes.", rich_help_panel=_POLICY),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Only files that may hold matching rows.", rich_help_panel=_POLICY),
    ] = None
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help="Only these partitions, such as day=2026-01-*; repeatable.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    min_file_age: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only files that were added so long ago.", rich_help_panel=_POLICY),
    ] = None
    changed_since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only partitions that got files after this snapshot id, date, or duration ago.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    only_old_spec: Annotated[
        bool | None,
        typer.Option("--only-old-spec", help="Only files of older partition specs.", rich_help_panel=_POLICY),
    ] = None
    rewrite_cold_tiers: Annotated[
        bool | None,
        typer.Option(
            "--rewrite-cold-tiers",
            "--cold-tiers",
            help="Also files in cold tiers of S3, such as GLACIER; default: they are left alone.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    max_file_sequence_number: Annotated[
        str | None,
        typer.Option(metavar="N", help="Only files up to this file sequence number.", rich_help_panel=_POLICY),
    ] = None
    sort_order: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="For sort, such as 'day DESC NULLS LAST, id'; default: the table's own.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    cluster_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="For dimensional, such as 'city, day'.", rich_help_panel=_POLICY),
    ] = None
    max_sort_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Bytes that one task sorts; default 8GiB.", rich_help_panel=_POLICY),
    ] = None
    max_overlap_depth: Annotated[
        str | None,
        typer.Option(metavar="N", help="Sorted files may overlap so deep; default 1.", rich_help_panel=_POLICY),
    ] = None
    time_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For time-series: the date or timestamp.", rich_help_panel=_POLICY),
    ] = None
    hot_window: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="time-series leaves rows of this last while alone; default 1d.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    cold_after: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Older partitions are cold; default 30d.", rich_help_panel=_POLICY),
    ] = None
    cold_target_file_size_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of new files in cold partitions.", rich_help_panel=_POLICY),
    ] = None
    others: Annotated[
        str | None,
        typer.Option(
            metavar="WAY",
            help="Other tools that rewrite the table: report, yield or refuse; default report.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL", help="Proof: counts, checksum or deep; default checksum.", rich_help_panel=_POLICY
        ),
    ] = None
    write_options: Annotated[
        list[str] | None,
        typer.Option(
            "--write-option",
            metavar="K=V",
            help="A parameter of the writer for this run, such as write.parquet.compression-codec=zstd; repeatable.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    snapshot_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot-property",
            metavar="K=V",
            help="An entry for the summary of new snapshots; repeatable.",
            rich_help_panel=_POLICY,
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Any of the above by its name; repeatable.", rich_help_panel=_POLICY),
    ] = None

    def given(self) -> dict[str, Any]:
        """The flags that were used, by option name."""
        found = {f.name.replace("_", "-"): getattr(self, f.name) for f in fields(self) if f.name not in _SOURCES}
        given = {name: value for name, value in found.items() if value is not None}
        short = {_SHORT[name]: given.pop(name) for name in _SHORT if name in given}
        return short | given


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """What is shown: data goes to standard output, everything else to standard error."""

    output: Annotated[
        Format, typer.Option("--output", "-o", help="Print a table or JSON.", rich_help_panel=_CONSOLE)
    ] = Format.TABLE
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Log what is read and done, with times; -vv also tracebacks.",
            rich_help_panel=_CONSOLE,
        ),
    ] = 0
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.", rich_help_panel=_CONSOLE)
    ] = None
    log_format: Annotated[
        LogFormat,
        typer.Option(
            metavar="text|json",
            envvar="ICEBERG_COMPACTION_LOG_FORMAT",
            help="Logs as text, or a JSON object in each line.",
            rich_help_panel=_CONSOLE,
        ),
    ] = LogFormat.TEXT
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors and results only.", rich_help_panel=_CONSOLE)] = (
        False
    )
    progress: Annotated[bool, typer.Option(help="Show progress on standard error.", rich_help_panel=_CONSOLE)] = True


_TABLE = typer.Option("--table", "-t", metavar="NAME", help="A table, or a pattern such as 'shop.*'; repeatable.")
Tables = Annotated[list[str], _TABLE]
AnyTables = Annotated[list[str] | None, _TABLE]
BareTables = Annotated[
    list[str] | None, typer.Argument(metavar="TABLE", help="The same as --table.", show_default=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTables:
    """Tables by name, with or without the flag."""

    bare: BareTables = None
    table: AnyTables = None

    @property
    def names(self) -> list[str]:
        """All names and patterns that were given."""
        return [*(self.bare or ()), *(self.table or ())]

    def check(self) -> None:
        """Raises ConfigError if no table is meant. It needs no catalog, so it comes first."""
        from iceberg_compaction import errors

        if not self.names:
            raise errors.ConfigError("Name tables, as in --table shop.events.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(NamedTables):
    """Which tables."""

    all_tables: Annotated[bool, typer.Option("--all", help="Every table of the catalog, or of --namespace.")] = False
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="But not this table, or tables of this pattern; repeatable."),
    ] = None

    def check(self) -> None:
        """Also raises ConfigError if more than all tables are meant."""
        from iceberg_compaction import errors

        if self.all_tables and self.names:
            raise errors.ConfigError("--all means every table; give either --all or --table, not both.")
        if not self.all_tables and not self.names:
            raise errors.ConfigError("Name tables with --table, or give --all for every table of the catalog.")


# Flags that stand alone in several verbs.
Branch = Annotated[str, typer.Option(help="The branch to work on.")]
Engine = Annotated[
    str,
    typer.Option(
        metavar="spark|inline|auto|NAME",
        help="Where files are rewritten: on Spark, in this process, or for each plan where it is worth it; also the "
        "engine of an installed package.",
        autocompletion=completed_values.engines,
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the plan to this file: .json, or .json.gz to pack it.")
]
PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="A plan that `plan --out` wrote.", show_default=False)]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run id, the beginning of one (4 characters or more), or latest.",
        show_default=False,
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--state",
        metavar="URL",
        help="Where runs are remembered: a file, or a server such as postgresql://, redis:// or etcd://; default: "
        "STORE_URL, else REDIS_URL, else a file of your own.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also write a report for a browser (HTML) on the tables as they are afterwards, and run_results.json "
        "beside it.",
    ),
]


class FailOn(str, Enum):
    """Outcomes that are no failure by themselves."""

    UNSUPPORTED = "unsupported"


FailsOn = Annotated[
    list[FailOn] | None,
    typer.Option("--fail-on", metavar="unsupported", help="Exit with 1 for tables that cannot be rewritten yet, too."),
]
Deadline = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Cancel the work after this time, such as 15m or 2h; commits so far stay."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Where metrics go; by default nowhere. Verbs have them among their own options."""

    metrics_port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            envvar="ICEBERG_COMPACTION_METRICS_PORT",
            help="Let Prometheus scrape metrics here; also ADDRESS:PORT.",
            rich_help_panel=_METRICS,
        ),
    ] = None
    metrics_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            envvar="ICEBERG_COMPACTION_METRICS_FILE",
            help="Write metrics for node_exporter's textfile collector (*.prom).",
            rich_help_panel=_METRICS,
        ),
    ] = None
    metrics_push: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="ICEBERG_COMPACTION_METRICS_PUSH",
            help="Push metrics to this push gateway.",
            rich_help_panel=_METRICS,
        ),
    ] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(MetricsOptions):
    """What a plan is made on and from, and where it goes."""

    branch: Branch = "main"
    out: Out = None
    diff: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD",
            help="Show what has changed since this plan, which `plan --out` wrote: files, bytes, groups, and why.",
        ),
    ] = None
    state: State = None
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when there is something to do.")] = False
    fail_on: FailsOn = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(MetricsOptions):
    """How a plan is performed and remembered; all else is in the plan."""

    engine: Engine = "spark"
    state: State = None
    deadline: Deadline = None
    report: Report = None
    fail_on: FailsOn = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(MetricsOptions):
    """How a run is performed and remembered."""

    branch: Branch = "main"
    engine: Engine = "spark"
    state: State = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plans, and do nothing.")] = False
    parallel: Annotated[int, typer.Option(min=1, metavar="N", help="Tables to compact side by side.")] = 1
    deadline: Deadline = None
    report: Report = None
    fail_on: FailsOn = None
