"""The words of a plan of orphans: what goes, what stays, what a person should know, and why the plan must not be
performed without another look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model import byte_size, orphan_plan, plurals
from iceberg_compaction.model.upkeep_plan import UpkeepStep
from iceberg_compaction.operations.orphans.scan_folders import Standing
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.orphan_plan import OrphanFiles, OrphanGoal
    from iceberg_compaction.operations.orphans.references import References
    from iceberg_compaction.operations.orphans.scan_folders import Scan

_STAYS = (
    (Standing.REFERENCED, "files of the table", "A snapshot or the table's metadata refers to them."),
    (Standing.YOUNG, "young files", "They are not old enough: a writer may still be about to commit them."),
    (
        Standing.UNFINISHED,
        "unfinished runs",
        "A run that has not finished wrote them, or a later one may go on with them.",
    ),
    (Standing.UNTIMED, "files without a time", "The store does not say when they were written."),
    (Standing.HIDDEN, "hidden files", "Their name, or that of a folder of theirs, begins with a dot or an underscore."),
    (Standing.MISMATCHED, "mismatched files", "The table refers to their path with another scheme or authority."),
    (Standing.OPAQUE, "links and odd names", "They are links, or their names are no text."),
    (Standing.QUARANTINED, "quarantine", "They are in quarantine already; `iceberg-compact orphans purge` ends that."),
)


def sentence(files: OrphanFiles, left: int, uploads: Sequence[object]) -> str:
    """The plan in one sentence."""
    if not files.paths and not uploads:
        return "There are no orphan files."
    words = []
    if files.paths:
        total = len(files.paths) + left
        size = f" of {byte_size.format_size(files.bytes)}" if not left else ""
        words.append(f"{plurals.count(total, 'orphan file')}{size}")
    if uploads:
        words.append(plurals.count(len(uploads), "unfinished upload"))
    only = f"; this plan takes the first {len(files.paths):,}" if left else ""
    return f"{plurals.listed(words)}{only}."


def steps(
    files: OrphanFiles, table: Table, spellings: path_forms.Spellings, *, to_quarantine: bool
) -> tuple[UpkeepStep, ...]:
    """Data and metadata files, each with an example."""
    folder = spellings.split(table_folders.folders(table)[1])[1]
    groups: dict[str, list[int]] = {"data files": [], "metadata files": []}
    for number, path in enumerate(files.paths):
        is_metadata = path_forms.is_below(spellings.split(path)[1], folder)
        groups["metadata files" if is_metadata else "data files"].append(number)
    deed = "They go to quarantine" if to_quarantine else "They are deleted"
    return tuple(
        UpkeepStep(
            name=name,
            count=len(numbers),
            bytes=sum(files.sizes[number] for number in numbers),
            sentence=f"{deed}: nothing of the table refers to them, such as {files.paths[numbers[0]]}.",
        )
        for name, numbers in groups.items()
        if numbers
    )


def upload_steps(uploads: Sequence[object]) -> tuple[UpkeepStep, ...]:
    """Uploads that nobody has finished."""
    if not uploads:
        return ()
    return (UpkeepStep(name="uploads", count=len(uploads), sentence="Nobody has finished them; they are aborted."),)


def kept(scan: Scan) -> tuple[UpkeepStep, ...]:
    """Why all other files stay."""
    return tuple(
        UpkeepStep(name=name, count=scan.counts[standing], bytes=scan.bytes[standing], sentence=reason)
        for standing, name, reason in _STAYS
        if scan.counts[standing]
    )


def notes(scan: Scan, referred: References, roots: Sequence[str], left: int) -> list[str]:
    """What else a person should know."""
    lines = [f"Listed: {', '.join(roots)}."]
    for folder, count in referred.outside.most_common(5):
        files = plurals.count(count, "file")
        lines.append(f"The table also has {files} below {folder}, which was not listed; --location lists it.")
    missing = len(referred.content) - scan.content_listed
    if missing:
        verb = plurals.form(missing, "is", "are")
        lines.append(f"{plurals.count(missing, 'file')} that the table refers to {verb} missing.")
    if left:
        lines.append(f"{plurals.count(left, 'more orphan')} are left for the next run.")
    return lines


def shared(taken: Mapping[str, int]) -> tuple[UpkeepStep, ...]:
    """Files in the table's folders that other tables need, by table."""
    count = sum(taken.values())
    names = [name for name, files in taken.items() if files]
    if not count:
        return ()
    return (UpkeepStep(name="files of other tables", count=count, sentence=f"needed by {plurals.listed(names[:3])}"),)


def warnings(silent: Sequence[str], doubt: str | None, *, has_store: bool) -> list[str]:
    """What could not be looked at."""
    lines = [] if doubt is None else [f"{doubt} It was not looked at, which --allow-unlisted accepts."]
    if silent:
        lines.append(f"Unfinished uploads can be looked for in S3 only, not in {', '.join(silent)}.")
    if not has_store:
        lines.append("There is no run store, so that files of unfinished runs are known by their age only.")
    return lines


def refusal(scan: Scan, referred: References, goal: OrphanGoal) -> str | None:
    """Why a person must look at the plan first; None: nothing is odd."""
    count, size = scan.counts[Standing.ORPHAN], scan.bytes[Standing.ORPHAN]
    if goal.force_share or not count:
        return None
    look = "look at the plan of `iceberg-compact orphans`, which takes --force-share if it is right."
    if scan.unclaimed:
        return f"No file that was listed below {scan.unclaimed[0]} is one of the table; {look}"
    missing, total = len(referred.content) - scan.content_listed, len(referred.content)
    if missing > orphan_plan.MOST_SHARE * total:
        return (
            f"{missing:,} of the {total:,} data and delete files that the table refers to were not listed, as if their "
            f"paths were written in another way than they are listed; {look}"
        )
    share = max(count / max(1, scan.listed), size / max(1, scan.listed_bytes))
    if share > orphan_plan.MOST_SHARE:
        return f"{share:.0%} of the files or bytes would go, more than {orphan_plan.MOST_SHARE:.0%}; {look}"
    return None
