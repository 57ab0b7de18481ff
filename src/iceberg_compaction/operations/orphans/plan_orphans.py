"""Makes the plan of orphans: refuses tables whose folders are not their own, lists the folders, compares, and says for
everything why it goes or stays. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import known_paths, linked_folders
from iceberg_compaction.model import orphan_plan, table_names
from iceberg_compaction.operations.neighbourhood import shared_files
from iceberg_compaction.operations.orphans import (
    orphan_uploads,
    orphan_words,
    own_folders,
    quarantine,
    references,
    scan_folders,
)
from iceberg_compaction.operations.orphans.scan_folders import Standing
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.storage import exact_paths
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.orphan_plan import OrphanFiles, OrphanGoal, OrphanPlan
    from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhood, Neighbourhoods
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.runs import Run

MANY_FILES = 1_000_000  # that a table refers to: a thousand requests for one process, a minute or more


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRequest:
    """What a plan is made of."""

    table: str
    goal: OrphanGoal
    quarantine: str | None
    neighbourhoods: Neighbourhoods
    to_quarantine: bool = True
    given: OrphanPlan | None = None  # nothing goes that it does not name
    engines: EngineFactory | None = None
    spread_from: int = MANY_FILES


def spellings_of(table: Table, goal: OrphanGoal) -> path_forms.Spellings:
    """The ways in which paths of the table may be written."""
    return path_forms.Spellings(
        schemes={**path_forms.EQUAL_SCHEMES, **goal.equal_schemes},
        authorities=goal.equal_authorities,
        default_scheme=table.io.properties.get("DEFAULT_SCHEME", "file"),
        default_authority=table.io.properties.get("DEFAULT_NETLOC", ""),
    )


def unfinished_runs(table: Table, run: Run) -> tuple[str, ...]:
    """The runs on the table whose files must stay: those in the journal, alive or dead, and all that have written for a
    checkpoint. StoreError: nobody knows."""
    if run.store is None:
        return ()
    uuid = str(table.metadata.table_uuid)
    heads = checkpoints.Checkpoints(run.store.entries).heads(uuid)
    ids = [
        *run.store.unfinished_ids(uuid),
        *(each for held in heads for each in (*held.head.writers, held.head.run_id)),
    ]
    return tuple(sorted({each for each in ids if each} - {run.run_id}))


def build(request: OrphanRequest, table: Table, run: Run) -> OrphanPlan:
    """The plan. UnsupportedError: orphans of this table cannot be told from files that somebody needs."""
    goal, spellings = request.goal, spellings_of(table, request.goal)
    _check_age(goal)
    _check_collected(table)
    _check_locations(goal.locations)
    roots = _outermost(goal.locations or table_folders.roots(table), spellings)
    _check_roots(roots, spellings)
    others = request.neighbourhoods.of(table, run)
    own_folders.check(table, roots, others, spellings, allow_unlisted=goal.allow_unlisted)
    quarantine.check_folder(quarantine.folder_of(table, request.quarantine), roots, spellings)
    referred = references.read(table, spellings, roots)
    _check_links(roots, referred.file_folders, spellings)
    scan = _scan(request, table, roots, referred, run)
    scan_folders.check_mismatches(scan, keep=goal.keep_mismatches)
    files = files_of(scan.table())
    current = publish.reload(table)
    if current.metadata_location != table.metadata_location:  # files that were committed during the scan
        files = unneeded(files, references.read(current, spellings))
    files, taken = _without_shared(table, files, others, spellings)
    uploads, silent = orphan_uploads.find(table.io, roots, scan.cutoff_ms) if goal.uploads else ([], [])
    left = scan.counts[Standing.ORPHAN] - scan.kept_orphans
    if request.given is not None:
        files, left = _given_only(files, request.given.files), 0
        uploads = [each for each in uploads if each in request.given.uploads]
    refusal = orphan_words.refusal(scan, referred, goal)
    return orphan_plan.OrphanPlan(
        id=f"plan-{run.run_id}",
        table=request.table,
        table_uuid=str(table.metadata.table_uuid),
        created_ms=run.clock(),
        sentence=orphan_words.sentence(files, left, uploads),
        steps=(
            *orphan_words.steps(files, table, spellings, to_quarantine=request.to_quarantine),
            *orphan_words.upload_steps(uploads),
        ),
        kept=(*orphan_words.kept(scan), *orphan_words.shared(taken)),
        notes=(
            *([f"Removal is refused: {refusal}"] if refusal else ()),
            *orphan_words.notes(scan, referred, roots, left),
            *orphan_words.warnings(silent, others.doubt, has_store=run.store is not None),
        ),
        goal=goal,
        locations=roots,
        cutoff_ms=scan.cutoff_ms,
        listed=scan.listed,
        listed_bytes=scan.listed_bytes,
        files=files,
        left=left,
        uploads=tuple(uploads),
        to_quarantine=request.to_quarantine,
        quarantine=request.quarantine,
        metadata_location=current.metadata_location,
        refusal=refusal,
    )


def _scan(
    request: OrphanRequest, table: Table, roots: Sequence[str], referred: references.References, run: Run
) -> scan_folders.Scan:
    """By an engine if that is asked for, or if the table is large and lies in an object store, which takes its time for
    every page: a local disk is listed faster than tasks begin. An engine of one core would bring nothing."""
    rules = _rules(request, table, run, referred.hashes.spellings)
    is_far = all(exact_paths.has_objects(exact_paths.split(root)[0]) for root in roots)
    is_large = len(referred.hashes.whole) >= request.spread_from and (is_far or not request.spread_from)
    if request.engines is not None and is_large:
        from iceberg_compaction.operations.orphans import spread_scan  # what performs tasks is seldom needed

        with request.engines() as engine:
            if engine.cores() > 1:
                return spread_scan.scan(table, roots, referred, rules, engine, run)
    return scan_folders.scan(table.io, roots, referred, rules)


def _rules(request: OrphanRequest, table: Table, run: Run, spellings: path_forms.Spellings) -> scan_folders.ScanRules:
    folders = {quarantine.folder_of(table, None), quarantine.folder_of(table, request.quarantine)}
    return scan_folders.ScanRules(
        older_than_ms=request.goal.older_than_ms,
        clock=run.clock,
        unfinished=unfinished_runs(table, run),
        quarantines=tuple(spellings.split(folder) for folder in sorted(folders)),
        partition_names=_hidden_partitions(table),
        most_files=request.goal.most_files,
    )


def _outermost(folders: Sequence[str], spellings: path_forms.Spellings) -> tuple[str, ...]:
    """The folders, without those that lie in another one in whatever spelling: no file is listed twice."""
    kept: dict[tuple[str, str], str] = {}
    for folder in sorted(folders, key=lambda each: len(spellings.split(each)[1])):
        prefix, path = spellings.split(folder)
        if not any(store == prefix and path_forms.is_below(path, outer) for store, outer in kept):
            kept[prefix, path] = folder.rstrip("/") or folder
    return tuple(sorted(kept.values()))


def files_of(table: pa.Table) -> OrphanFiles:
    """Listed files (walk_files.PAGE) as they stand in a plan."""
    return orphan_plan.OrphanFiles(
        paths=tuple(table["path"].to_pylist()),
        sizes=tuple(table["size"].to_pylist()),
        modified_ms=tuple(table["modified_ms"].to_pylist()),
    )


def unneeded(files: OrphanFiles, referred: references.References) -> OrphanFiles:
    """Those of the files to which the table does not refer."""
    needed = referred.needs(files.paths)
    return files if not needed.any() else files.select([int(number) for number in (~needed).nonzero()[0]])


def _without_shared(
    table: Table, files: OrphanFiles, others: Neighbourhood, spellings: path_forms.Spellings
) -> tuple[OrphanFiles, dict[str, int]]:
    """The files to which no other table refers, and how many each of the others refers to."""
    taken: dict[str, int] = {}
    if not files.paths:
        return files, taken
    file_folders = linked_folders.of_locations(pa.array(files.paths, pa.string()))
    for other in shared_files.needed(table, file_folders, others, spellings):
        plain, _, _ = known_paths.hashes(spellings, pa.array(files.paths, pa.string()))
        free = ~known_paths.among(plain, other.paths)
        taken[other.table] = len(free) - int(free.sum())
        files = files.select([int(number) for number in free.nonzero()[0]])
    return files, taken


def _given_only(files: OrphanFiles, given: OrphanFiles) -> OrphanFiles:
    """The files that a given plan names, too. One that was written anew since is another file."""
    named = dict(zip(given.paths, zip(given.sizes, given.modified_ms, strict=True), strict=True))
    rows = zip(files.paths, files.sizes, files.modified_ms, strict=True)
    return files.select([number for number, (path, *facts) in enumerate(rows) if named.get(path) == tuple(facts)])


def _check_age(goal: OrphanGoal) -> None:
    if goal.older_than_ms < orphan_plan.LEAST_AGE_MS and not goal.allow_recent:
        raise errors.ConfigError(
            "Files younger than 3 days may belong to a writer that has not committed yet; choose a larger age, or, if "
            "no writer takes that long, run `iceberg-compact orphans` with --allow-recent."
        )


def _check_collected(table: Table) -> None:
    if str(table.properties.get("gc.enabled", "true")).lower() == "false":
        raise errors.UnsupportedError(
            f"{table_names.text(table.name())} has gc.enabled=false, which says that other tables may use its files; "
            "its orphans are nobody's to remove."
        )


def _check_locations(locations: Sequence[str]) -> None:
    """Of the folders that somebody has named. Without this the one for links would answer, because links are resolved
    from the folder in which this process happens to be."""
    for location in locations:
        scheme, _, path = exact_paths.split(location)
        if scheme in ("", "file") and not path.startswith("/"):
            raise errors.ConfigError(
                f"The location {location!r} is relative; write an absolute path such as /folder, or one with a scheme "
                "such as s3://bucket/folder."
            )


def _check_roots(roots: Sequence[str], spellings: path_forms.Spellings) -> None:
    for root in roots:
        if not spellings.split(root)[1].strip("/"):
            raise errors.UnsupportedError(
                f"{root} is the root of a file store, where files of others are; a table must have a folder of its own "
                "for its orphans to be told."
            )


def _check_links(
    roots: Sequence[str], file_folders: linked_folders.FileFolders, spellings: path_forms.Spellings
) -> None:
    """Files that the table refers to by another way through links would be listed as orphans."""
    ways = [*sorted(file_folders.links), *((folder, folder) for folder in sorted(file_folders.folders))]
    for root in roots:
        own = spellings.split(root)[1], spellings.real(root)[1]
        folder = next((written for written, real in ways if linked_folders.meet(written, real, *own)), None)
        if folder is not None:
            raise errors.UnsupportedError(
                f"The table refers to files below {folder}, which links make a folder of {root} or one around it; such "
                "files would be taken for orphans."
            )


def _hidden_partitions(table: Table) -> tuple[str, ...]:
    names = {field.name for spec in table.specs().values() for field in spec.fields}
    return tuple(sorted(name for name in names if name.startswith(("_", "."))))
