"""Advice for people, the most useful first. Figures of a table come in, sentences go out, each with a command, a
property or a number; none for a healthy table."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from iceberg_compaction.inspect import health_request, score
from iceberg_compaction.model import byte_size, plurals, policies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.inspect.health_request import Checkup, RunWork
    from iceberg_compaction.inspect.score import HealthFigures
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_view import TableView

TARGET_PROPERTY = "write.target-file-size-bytes"
CROWDED = 4  # files per value, on average, from which on the advice is to sort
HEAVY_METADATA_FILE = 8 * 2**20


def advice(view: TableView, checkup: Checkup, health: TableHealth, figures: HealthFigures) -> tuple[str, ...]:
    """Advice about the state of the table; `causes` explains how it came about."""
    sentences = [f"Not supported yet: {reason.rstrip('.')}." for reason in view.unsupported]
    sentences += _commands(view, checkup, figures)
    sentences += _cheaper(view, checkup)
    if (figures.small_files - figures.lone_small_files) * 2 > figures.data_files:
        sentences.append(_sizes(view, checkup, health))
    sentences += _deletes(health, dropped=checkup.work.useless_deletes)
    sentences += _layout(health, checkup, view)
    sentences += _past(view, health, checkup)
    return tuple(sentences)


def _commands(view: TableView, checkup: Checkup, figures: HealthFigures) -> Iterator[str]:
    """Commands that have something to do, each with what it would change."""
    if checkup.sick:
        yield f"Run: {_command(view, 'run', '--strategy', policies.name_of(checkup.policy.strategy))}"
        yield _rewrites(checkup.work, figures)
    if checkup.delete_heavy:
        threshold = ("--delete-file-threshold", str(health_request.MANY_DELETES))
        yield f"Run: {_command(view, 'run', '--strategy', 'delete-files', *threshold)}"
        yield _rewrites(checkup.delete_work, figures)
    plan = checkup.manifest_plan
    if plan is not None and not plan.empty:
        yield f"Run: {_command(view, 'manifests')}"
        why = "; ".join(group.sentence for group in plan.groups)
        replaced = plurals.count(plan.replaced, "manifest")
        yield f"This replaces {replaced} of {figures.manifests:,} by about {plan.outputs:,}: {why}."


def _cheaper(view: TableView, checkup: Checkup) -> Iterator[str]:
    """Where a plan would rewrite no data file for the sake of deletes, because other ways cost less, the verb for
    delete files does the same."""
    work = checkup.delete_work
    if not work.exchanged_deletes or work.files:
        return
    files = plurals.count(work.exchanged_deletes, "delete file")
    yield (
        f"It costs least to merge or convert {files} and to leave all data files as they are; the same does "
        f"{_command(view, 'deletes')}"
    )


def _command(view: TableView, verb: str, *options: str) -> str:
    branch = () if view.pin is None or view.pin.branch == "main" else ("--branch", view.pin.branch)
    return shlex.join(("iceberg-compact", verb, "--table", view.table, *options, *branch))


def _rewrites(work: RunWork, figures: HealthFigures) -> str:
    files = f"{work.files:,} of {plurals.count(figures.data_files, 'data file')} ({byte_size.format_size(work.bytes)})"
    parts = [f"rewrites {files}"] if work.files else []
    if work.exchanged_deletes:
        parts.append(f"merges or converts {plurals.count(work.exchanged_deletes, 'delete file')}")
    if work.useless_deletes:
        parts.append(f"drops {plurals.count(work.useless_deletes, 'delete file')} that no row needs")
    if not work.files:
        return f"This {plurals.listed(parts)}, and rewrites no data file."
    return f"This {plurals.listed(parts)}."


def _sizes(view: TableView, checkup: Checkup, health: TableHealth) -> str:
    target = byte_size.format_size(checkup.sizes.target)
    if checkup.policy.target_file_size_bytes is not None:
        origin = f"The requested target is {target}"
    elif TARGET_PROPERTY in view.properties:
        origin = f"{TARGET_PROPERTY} is {target}"
    else:
        origin = f"{TARGET_PROPERTY} is not set, so the target is {target}"
    mean = byte_size.format_size(health.mean_file_bytes)
    return f"{origin}, but files have {mean} on average: let the writer commit less often."


def _deletes(health: TableHealth, *, dropped: int) -> Iterator[str]:
    deletes = health.deletes
    if not deletes.files:
        return
    kinds = {
        "position": deletes.position_files,
        "equality": deletes.equality_files,
        plurals.form(deletes.vectors, "deletion vector"): deletes.vectors,
    }
    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    each = ""
    if deletes.per_data_file_mean is not None:
        each = f", {deletes.per_data_file_mean:.1f} per data file on average and {deletes.per_data_file_max:,} at most"
    if deletes.files > (deletes.dangling_files or 0):
        form = plurals.form(deletes.files, "file", "files"), plurals.form(deletes.files, "is", "are")
        yield f"{deletes.files:,} delete {form[0]} ({listed}) {form[1]} applied whenever the table is read{each}."
    if deletes.dangling_files:
        useless = plurals.count(deletes.dangling_files, "delete file no longer applies", "delete files no longer apply")
        remedy = f": a run drops {plurals.form(deletes.dangling_files, 'it', 'them')}" if dropped else ""
        yield f"{useless} to any data file{remedy}."
    if deletes.deleted_row_ratio >= 0.1:
        yield f"{deletes.deleted_row_ratio:.0%} of the rows are deleted, but still stored and read."


def _layout(health: TableHealth, checkup: Checkup, view: TableView) -> Iterator[str]:
    if health.stale_spec_ratio:
        old = sum(spec.files for spec in health.specs if not spec.current)
        yield (
            f"{old:,} of {health.data_files:,} data files are of an older partition spec, so filters on the current "
            "partition fields skip fewer of them."
        )
        if checkup.full_work.files and not checkup.sick:  # a run for another reason moves the files that it rewrites
            files = (
                f"{plurals.count(checkup.full_work.files, 'file')} ({byte_size.format_size(checkup.full_work.bytes)})"
            )
            yield f"To move them, rewrite all {files}: {_command(view, 'run', '--rewrite-all')}"
    clustering = health.clustering
    # Many small files overlap anyway; compaction comes first.
    if clustering is None or clustering.column is None or checkup.sick or health.small_ratio >= 0.5:
        return
    if clustering.depth >= CROWDED:
        yield (
            f"A value of {clustering.column} lies in the range of {clustering.depth:.1f} files of its partition on "
            f"average; if queries filter on it, sort by it: ALTER TABLE {health.table} WRITE ORDERED BY "
            f"{clustering.column}, then rewrite."
        )


def _past(view: TableView, health: TableHealth, checkup: Checkup) -> Iterator[str]:
    if health.snapshots > score.MANY_SNAPSHOTS:
        yield (
            f"{health.snapshots:,} snapshots and all their files are kept. This shows which of them may go: "
            f"{_command(view, 'expire', '--dry-run')}. history.expire.max-snapshot-age-ms and "
            "history.expire.min-snapshots-to-keep set the limits."
        )
    heavy = checkup.history.metadata_file_bytes if checkup.history else None
    if heavy is not None and heavy > HEAVY_METADATA_FILE:
        yield (
            f"The metadata file has {byte_size.format_size(heavy)}, and every commit rewrites it; fewer snapshots make "
            "it smaller."
        )
