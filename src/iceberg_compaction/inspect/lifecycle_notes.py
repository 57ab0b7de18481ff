"""What the rules of a bucket do to the files of a table. They know nothing of snapshots: a file that is deleted by its
age is missing, and one that is archived cannot be read. Rules and the folders of a table come in; notes go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model.bucket_lifecycle import LifecycleNote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iceberg_compaction.model.bucket_lifecycle import LifecycleDeed, LifecycleRule

_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})


def notes(folders: Sequence[str], rules: Mapping[str, Sequence[LifecycleRule]]) -> tuple[LifecycleNote, ...]:
    """The notes of a table with these folders. `rules` by bucket. What may lose data comes first."""
    order = ("deletes", "archives", "cools", "aborts-uploads")
    every = {(note.kind, note.rule, note.bucket): note for folder in folders for note in _of_folder(folder, rules)}
    return tuple(sorted(every.values(), key=lambda note: (order.index(note.kind), note.bucket, note.rule)))


def _of_folder(folder: str, rules: Mapping[str, Sequence[LifecycleRule]]) -> Iterator[LifecycleNote]:
    scheme, _, rest = folder.partition("://")
    bucket, _, path = rest.partition("/")
    key = f"{path.rstrip('/')}/"
    for rule in rules.get(bucket, ()):
        if not (key.startswith(rule.prefix) or rule.prefix.startswith(key)):
            continue
        inner = rule.prefix if len(rule.prefix) > len(key) else key
        for deed in rule.deeds:
            note = _note(rule, deed, bucket, f"{scheme}://{bucket}/{inner.rstrip('/')}")
            if note is not None:
                yield note


def _note(rule: LifecycleRule, deed: LifecycleDeed, bucket: str, folder: str) -> LifecycleNote | None:
    who = f'The lifecycle rule "{rule.name}" of the bucket {bucket}'
    when = f" after {deed.when}" if deed.when.endswith("days") else f" on {deed.when}" if deed.when else ""
    what = "objects with certain tags or sizes" if rule.limited else "objects"
    given = {"rule": rule.name, "bucket": bucket, "folder": folder}
    if deed.name == "Expiration":
        sentence = (
            f"{who} deletes {what} below {folder}{when}, also files that the table needs; limit the rule to other "
            "prefixes, and have `expire` and `orphans` remove what nobody needs."
        )
        return LifecycleNote(kind="deletes", sentence=sentence, **given)
    if deed.name == "Transition" and deed.to in _ARCHIVES:
        sentence = (
            f"{who} moves {what} below {folder} to {deed.to}{when}, where nobody can read them before they are "
            "restored; limit the rule to other prefixes, or make sure that nobody reads such old rows."
        )
        return LifecycleNote(kind="archives", sentence=sentence, **given)
    if deed.name == "Transition":
        sentence = (
            f"{who} moves {what} below {folder} to {deed.to}{when}, where reading and early removal may cost extra; "
            "let it begin later than files are compacted, and leave metadata out of it."
        )
        return LifecycleNote(kind="cools", sentence=sentence, **given)
    if deed.name == "AbortIncompleteMultipartUpload":
        sentence = f"{who} ends unfinished uploads below {folder}{when}, so that `orphans --uploads` need not."
        return LifecycleNote(kind="aborts-uploads", sentence=sentence, **given)
    return None
