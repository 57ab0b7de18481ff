"""A call of one of Iceberg's procedures as a command of this program. A parsed call comes in; a verb with its words
goes out, and sentences about what differs. What this program does not do is refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.interfaces.procedures import call_syntax, iceberg_options
from iceberg_compaction.metadata.filter import filter_words, time_values, where_clause
from iceberg_compaction.model import moments, times

ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {  # in the order of the procedure
    "rewrite_data_files": ("table", "strategy", "sort_order", "options", "where", "branch"),
    "rewrite_manifests": ("table", "use_caching", "spec_id", "sort_by"),
    "rewrite_position_delete_files": ("table", "options", "where"),
    "expire_snapshots": (
        "table",
        "older_than",
        "retain_last",
        "max_concurrent_deletes",
        "stream_results",
        "snapshot_ids",
        "clean_expired_metadata",
    ),
    "remove_orphan_files": (
        "table",
        "older_than",
        "location",
        "dry_run",
        "max_concurrent_deletes",
        "file_list_view",
        "equal_schemes",
        "equal_authorities",
        "prefix_mismatch_mode",
        "prefix_listing",
        "stream_results",
    ),
    "compute_table_stats": ("table", "snapshot_id", "columns"),
    "compute_partition_stats": ("table", "snapshot_id"),
}
_ELSEWHERE = {
    "rollback_to_snapshot": "`iceberg-compact undo RUN` takes a run of this program back; call it in Spark for others",
    "rollback_to_timestamp": "`iceberg-compact undo RUN` takes a run of this program back; call it in Spark for others",
}
_DAY_MS = 86_400_000
_PROBES = (0, 31, 62, 93, 0.4)  # days from now: months differ in length, and days begin at midnight
_SNAPSHOT_PROPERTY = "snapshot-property."  # the beginning of options that name entries of summaries
_CURVE = re.compile(r"(?is)\s*(?:zorder|hilbert)\s*\((.*)\)\s*")
Arguments: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OurCommand:
    """A verb and its words, without options of the catalog; and what differs, in sentences."""

    verb: str
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Draft:
    words: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def flag(self, name: str, value: Any = None) -> None:
        self.words += [f"--{name}"] if value is None else [f"--{name}", str(value)]


def translate(call: call_syntax.ProcedureCall, now_ms: int) -> OurCommand:
    """Our command for a call. ConfigError: there is none, or an argument cannot be followed."""
    if call.procedure not in ARGUMENTS:
        hint = _ELSEWHERE.get(call.procedure, f"there are {', '.join(ARGUMENTS)}")
        raise errors.ConfigError(f"The procedure {call.procedure} has no command here; {hint}.")
    arguments = _arguments(call)
    table = _table(arguments, call)
    draft = _Draft(words=["--table", table])
    verb = _PROCEDURES[call.procedure](arguments, draft, now_ms)
    words = verb.split()
    return OurCommand(verb=words[0], words=(*words[1:], *draft.words), notes=tuple(draft.notes))


def _arguments(call: call_syntax.ProcedureCall) -> dict[str, Any]:
    """The arguments by name, without those that are NULL."""
    names = ARGUMENTS[call.procedure]
    if len(call.positional) > len(names):
        raise errors.ConfigError(f"{call.procedure} has {len(names)} arguments at most, not {len(call.positional)}.")
    by_name = dict(zip(names, call.positional, strict=False))
    for name, value in call.named.items():
        if name not in names:
            raise errors.ConfigError(f"{call.procedure} has no argument {name}; it has {', '.join(names)}.")
        if name in by_name:
            raise errors.ConfigError(f"{call.procedure} gets {name} twice, by position and by name.")
        by_name[name] = value
    return {name: value for name, value in by_name.items() if value is not None}


def _table(arguments: Arguments, call: call_syntax.ProcedureCall) -> str:
    table = arguments.get("table")
    if not isinstance(table, str) or not table.strip():
        raise errors.ConfigError(f"{call.procedure} needs a table, such as table => 'db.events'.")
    for prefix in (f"{call.catalog}.", f"`{call.catalog}`.") if call.catalog else ():
        if table.startswith(prefix) and table.count(".") > 1:
            return table.removeprefix(prefix)
    return table


def _rewrite_data_files(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    strategy, order = _text(arguments, "strategy"), _text(arguments, "sort_order")
    if strategy is not None and strategy.lower() not in ("binpack", "sort"):
        raise errors.ConfigError(f"rewrite_data_files has the strategies binpack and sort, not {strategy!r}.")
    if strategy is not None and strategy.lower() == "binpack" and order is not None:
        raise errors.ConfigError("rewrite_data_files takes no sort_order with the strategy binpack.")
    curve = None if order is None else _CURVE.fullmatch(order)
    if curve is not None:
        draft.words += ["--strategy", "dimensional", "--cluster-by", curve[1].strip()]
        draft.notes.append(
            "Rows are clustered by these columns one after the other, the first one first, not on a curve through all "
            "of them."
        )
    elif order is not None or (strategy or "").lower() == "sort":
        draft.flag("strategy", "sort")
        if order is not None:
            draft.flag("sort-order", re.sub(r"(?i)nulls_(first|last)", r"NULLS \1", order))
    if order is not None or (strategy or "").lower() == "sort":
        draft.notes.append("Files that are in order already are left alone; --rewrite-all sorts them again.")
    _options(arguments, draft)
    _where(arguments, draft)
    if (branch := _text(arguments, "branch")) is not None:
        draft.flag("branch", branch)
    return "run"


def _options(arguments: Arguments, draft: _Draft) -> None:
    given = _mapping(arguments, "options")
    entries = {name: value for name, value in given.items() if name.startswith(_SNAPSHOT_PROPERTY)}
    translated = iceberg_options.translate({name: value for name, value in given.items() if name not in entries})
    ours = {rule.ours for rule in iceberg_options.REWRITE_DATA_FILES.values()}
    for name, value in translated.options.items():
        if name not in ours:
            names = ", ".join(iceberg_options.REWRITE_DATA_FILES)
            raise errors.ConfigError(f"rewrite_data_files has no option {name}; it has {names}.")
        _policy_flag(name, str(value), draft)
    for name, value in entries.items():
        draft.flag("snapshot-property", f"{name.removeprefix(_SNAPSHOT_PROPERTY)}={value}")
    draft.notes += translated.notes


def _policy_flag(name: str, value: str, draft: _Draft) -> None:
    """An option of the policy as a flag; those that are true or false have no value."""
    if name not in ("rewrite-all", "partial-progress"):
        draft.flag(name, value.lower() if name == "rewrite-job-order" else value)
        return
    if value.lower() not in ("true", "false"):
        raise errors.ConfigError(f"The option {name} is true or false, not {value!r}.")
    if value.lower() == "true":
        draft.flag(name)
    elif name == "partial-progress":
        draft.flag(f"no-{name}")


def _where(arguments: Arguments, draft: _Draft) -> None:
    if (where := _text(arguments, "where")) is not None:
        where_clause.check(where)  # the command would fail later, and in a schedule at night
        draft.flag("where", where)


def _rewrite_manifests(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    if "sort_by" in arguments:
        raise errors.ConfigError(
            "The argument sort_by cannot be followed: manifests are clustered by all partition fields, in the order of "
            "the partition spec."
        )
    if "use_caching" in arguments:
        draft.notes.append("use_caching has no effect: manifests are rewritten without Spark.")
    if "spec_id" in arguments:
        draft.flag("spec-id", _integer(arguments, "spec_id"))
    else:
        draft.notes.append("Manifests of every partition spec are looked at, not only those of the current one.")
    draft.notes.append("Manifests that are clustered well already are left alone.")
    return "manifests"


def _rewrite_position_deletes(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    given = _mapping(arguments, "options")
    translated = iceberg_options.translate(given, iceberg_options.REWRITE_POSITION_DELETE_FILES)
    if translated.options:
        names = ", ".join(iceberg_options.REWRITE_POSITION_DELETE_FILES)
        raise errors.ConfigError(
            f"rewrite_position_delete_files has no option {next(iter(translated.options))}; it has {names}."
        )
    draft.words += ["--merge", "--dangling"]
    draft.notes += translated.notes
    _where(arguments, draft)
    return "deletes"


def _expire_snapshots(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    if "older_than" in arguments:
        draft.flag("older-than", _moment(arguments["older_than"], draft, now_ms))
    if "retain_last" in arguments:
        draft.flag("retain-last", _integer(arguments, "retain_last"))
    ids = arguments.get("snapshot_ids", [])
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids):
        raise errors.ConfigError("snapshot_ids must be an array of numbers, such as array(123, 456).")
    for each in ids:
        draft.flag("snapshot-id", each)
    if _flag(arguments, "clean_expired_metadata"):
        draft.flag("clean-metadata")
    _note_tuning(arguments, draft)
    return "expire"


def _remove_orphan_files(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    if "file_list_view" in arguments:
        raise errors.ConfigError(
            "The argument file_list_view cannot be followed: folders are listed here; see --location."
        )
    if "older_than" in arguments:
        moment = moments.parse_ms(_moment(arguments["older_than"], draft, now_ms), now_ms)
        draft.flag("older-than", f"{max(0, now_ms - moment) // 1000}s")
    if (location := _text(arguments, "location")) is not None:
        draft.flag("location", location)
    for name in ("equal_schemes", "equal_authorities"):
        for left, right in _mapping(arguments, name).items():
            draft.flag(name.replace("_", "-"), f"{left}={right}")
    _mismatches(arguments, draft)
    _note_tuning(arguments, draft)
    if _flag(arguments, "dry_run"):
        return "orphans list"
    draft.notes.append(
        "Files go into a quarantine first: `iceberg-compact orphans purge` deletes them for good, and --no-quarantine "
        "deletes at once."
    )
    return "orphans remove"


def _mismatches(arguments: Arguments, draft: _Draft) -> None:
    match (_text(arguments, "prefix_mismatch_mode") or "error").lower():
        case "error":
            pass
        case "ignore":
            draft.flag("keep-mismatches")
        case "delete":
            raise errors.ConfigError(
                "prefix_mismatch_mode => 'DELETE' cannot be followed: such files may belong to the table; say with "
                "equal_schemes or equal_authorities which prefixes mean the same."
            )
        case other:
            raise errors.ConfigError(f"prefix_mismatch_mode is error, ignore or delete, not {other!r}.")


def _note_tuning(arguments: Arguments, draft: _Draft) -> None:
    for name in ("max_concurrent_deletes", "stream_results", "prefix_listing"):
        if name in arguments:
            draft.notes.append(f"{name} has no effect: files are listed and deleted page by page.")


def _compute_table_stats(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    _of_current_snapshot(arguments)
    columns = arguments.get("columns", ["all"])
    if not isinstance(columns, list) or not all(isinstance(each, str) for each in columns):
        raise errors.ConfigError("columns must be an array of names, such as array('id', 'city').")
    draft.flag("columns", ",".join(columns) or "all")
    draft.flag("no-partitions")
    return "statistics"


def _compute_partition_stats(arguments: Arguments, draft: _Draft, now_ms: int) -> str:
    _of_current_snapshot(arguments)
    return "statistics"


def _of_current_snapshot(arguments: Arguments) -> None:
    if "snapshot_id" in arguments:
        raise errors.ConfigError(
            "The argument snapshot_id cannot be followed: statistics are made for the current snapshot."
        )


_Procedure: TypeAlias = Callable[[Arguments, _Draft, int], str]
_PROCEDURES: Final[dict[str, _Procedure]] = {
    "rewrite_data_files": _rewrite_data_files,
    "rewrite_manifests": _rewrite_manifests,
    "rewrite_position_delete_files": _rewrite_position_deletes,
    "expire_snapshots": _expire_snapshots,
    "remove_orphan_files": _remove_orphan_files,
    "compute_table_stats": _compute_table_stats,
    "compute_partition_stats": _compute_partition_stats,
}


def _moment(value: Any, draft: _Draft, now_ms: int) -> str:
    """A moment as commands take it; without a zone it is in UTC."""
    if isinstance(value, call_syntax.Moment) and value.computed:
        return _computed_moment(value.text, draft, now_ms)
    text = value.text if isinstance(value, call_syntax.Moment) else value
    if not isinstance(text, str):
        raise errors.ConfigError(f"older_than must be a moment such as TIMESTAMP '2026-01-31 00:00:00', not {value!r}.")
    written = text.strip().replace(" ", "T", 1)
    moments.parse_ms(written, now_ms)
    return written


def _computed_moment(words: str, draft: _Draft, now_ms: int) -> str:
    """How long ago it is, if that is the same at every time; else the moment that it is now."""
    try:
        times_then = [time_values.compute(words, now_ms + round(days * _DAY_MS)) for days in _PROBES]
    except filter_words.FilterError as error:
        raise errors.ConfigError(f"older_than cannot be computed: {error}.") from None
    value, *later = (each.micros // 1000 for each in times_then)
    if not times_then[0].from_clock:
        return times.timestamp(value * 1000)
    ago = now_ms - value
    if ago > 0 and all(each - round(days * _DAY_MS) == value for each, days in zip(later, _PROBES[1:], strict=True)):
        days, rest = divmod(ago, _DAY_MS)
        return f"{ago // 1000}s" if rest else f"{days}d"
    moment = times.timestamp(value * 1000)
    draft.notes.append(
        f"older_than is {moment} now, in UTC; a schedule that repeats the command should compute it anew."
    )
    return moment


def _text(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.ConfigError(f"The argument {name} must be text in quotes, not {value!r}.")
    return value


def _mapping(arguments: Arguments, name: str) -> dict[str, str]:
    value = arguments.get(name, {})
    if not isinstance(value, dict):
        raise errors.ConfigError(f"The argument {name} must be a map, such as map('rewrite-all', 'true').")
    for key, each in value.items():
        if not isinstance(each, str | int | float):
            raise errors.ConfigError(f"The argument {name} must be a map of text to text; {key[:40]} has no value.")
    return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}


def _integer(arguments: Arguments, name: str) -> int:
    value = arguments[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise errors.ConfigError(f"The argument {name} must be a whole number, not {value!r}.")
    return value


def _flag(arguments: Arguments, name: str) -> bool:
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise errors.ConfigError(f"The argument {name} must be true or false, not {value!r}.")
    return value
