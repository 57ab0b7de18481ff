"""Checkpoints in the run store. A run stores its plan, and the result of each task. When it is dead, another run takes
the checkpoint up and goes on. Every write is fenced by the version of the head, so that a run which was only asleep can
neither add results nor remove files once its checkpoint has left its hands."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import checkpoint, portable_task, rewrite_plan
from iceberg_compaction.model.checkpoint import CheckpointContent, CheckpointHead
from iceberg_compaction.record.entries import blobs, door, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from iceberg_compaction.model.portable_task import PortableResult
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry

_HEAD, _BODY = "checkpoint-head", "checkpoint"
_PLAN, _RESULT, _GONE = "plan", "result", "gone"
_BATCH = door.MOST_KEYS // 2
_log = logging.getLogger(__name__)


class HeldHead(NamedTuple):
    """A head with the version of its entry."""

    head: CheckpointHead
    version: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """All checkpoints of a run store."""

    entries: StoreEntries

    def heads(self, table_uuid: str | None = None) -> list[HeldHead]:
        """The checkpoints of a table, or of all tables. Those that this version cannot read are left out."""
        prefix = keys.prefix(_HEAD) if table_uuid is None else keys.prefix(_HEAD, table_uuid)
        return [held for entry in self.entries.scan(prefix) if (held := _read_head(entry)) is not None]

    def create(self, head: CheckpointHead, plan: Plan) -> HeldHead:
        """Store a plan before its first task begins. The head comes last: without it the rest is nothing."""
        _write(self.entries, blobs.pieces(plan.model_dump_json().encode(), *_words(head), _PLAN))
        if not self.entries.change({_key(head): head.model_dump_json()}, {_key(head): None}):
            raise errors.StoreError(f"There is a checkpoint of plan {head.number} of run {head.run_id} already.")
        return self._again(head)

    def release(self, held: HeldHead) -> HeldHead | None:
        """Take a checkpoint out of the hands of a dead run. None: somebody else has changed it meanwhile."""
        if held.head.owner == checkpoint.NOBODY:
            return held
        return self._replace(held, held.head.model_copy(update={"owner": checkpoint.NOBODY}))

    def claim(self, held: HeldHead, run_id: str, now_ms: int) -> HeldHead | None:
        """Take up a checkpoint that nobody owns. None: somebody else was faster."""
        if held.head.owner != checkpoint.NOBODY:
            return None
        writers = tuple(dict.fromkeys((*held.head.writers, run_id)))
        changed = {"owner": run_id, "writers": writers, "saved_ms": now_ms}
        return self._replace(held, held.head.model_copy(update=changed))

    def content(self, head: CheckpointHead) -> CheckpointContent:
        """The plan, and all results with it."""
        prefix = keys.prefix(*_words(head))
        pieces: dict[str, list[StoreEntry]] = {}
        for base, entries in groupby(self.entries.scan(prefix), lambda entry: entry.key.rpartition("/")[0]):
            pieces[base.removeprefix(prefix)] = list(entries)
        results = [_read_result(blobs.join(each)) for base, each in pieces.items() if base.startswith(f"{_RESULT}/")]
        gone = [blobs.join(each) or b"[]" for base, each in pieces.items() if base.startswith(f"{_GONE}/")]
        return CheckpointContent(
            plan=_read_plan(blobs.join(pieces.get(_PLAN, ()))) if head.format == checkpoint.FORMAT else None,
            results=tuple(result for result in results if result is not None),
            gone=frozenset(path for paths in gone for path in json.loads(paths)),
        )

    def remove(self, held: HeldHead) -> bool:
        """Remove a checkpoint that is done or worth nothing. False: it is in other hands."""
        key = _key(held.head)
        if not self.entries.change({key: None}, {key: held.version}):
            return False
        self.remove_rest(held.head)
        return True

    def remove_rest(self, head: CheckpointHead) -> None:
        """Remove all that belongs to a head which is gone."""
        rest = [entry.key for entry in self.entries.scan(keys.prefix(*_words(head)))]
        _write(self.entries, dict.fromkeys(rest))

    def _replace(self, held: HeldHead, head: CheckpointHead) -> HeldHead | None:
        if not self.entries.change({_key(head): head.model_dump_json()}, {_key(head): held.version}):
            return None
        changed = self._again(head)
        return changed if changed.head == head else None

    def _again(self, head: CheckpointHead) -> HeldHead:
        entry = self.entries.get([_key(head)]).get(_key(head))
        held = None if entry is None else _read_head(entry)
        if held is None:
            raise errors.StoreError(f"The checkpoint of run {head.run_id} is gone.")
        return held


def remove_old(entries: StoreEntries, before_ms: int, is_entered: Callable[[str], bool]) -> None:
    """Remove checkpoints of before that no run in the journal owns, and what is left of heads that are gone.
    Recovery then removes the files of their runs, which stay in the journal until that is done."""
    kept = Checkpoints(entries)
    heads = kept.heads()
    for held in heads:
        if held.head.saved_ms <= before_ms and not is_entered(held.head.owner):
            kept.remove(held)
    names = {held.head.name for held in heads}
    after = ""
    while page := entries.scan(keys.prefix(_BODY), after=after, limit=1):
        _, run_id, number, *_ = keys.words(page[0].key)
        prefix = keys.prefix(_BODY, run_id, int(number))
        if (run_id, int(number)) not in names and not is_entered(run_id):
            _write(entries, dict.fromkeys(entry.key for entry in entries.scan(prefix)))
        after = prefix + "~"  # after all keys that begin so


@dataclass(frozen=True, slots=True)
class FencedEntries:
    """The entries of one checkpoint, for its owner. A StoreError says that it has become another's."""

    entries: StoreEntries
    held: HeldHead
    written: set[str] = field(default_factory=set)  # keys that are there, or may be

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        fence = {_key(self.held.head): self.held.version, **(expected or {})}
        for batch in _batches(values):
            try:
                is_owner = self.entries.change(batch, fence)
            except errors.StoreError:
                self.written.update(batch)
                raise
            if is_owner:
                self.written.update(batch)
            else:
                raise errors.StoreError(
                    f"Another run has taken up the checkpoint of run {self.held.head.run_id}; nothing is added to it."
                )
        return True

    def get(self, names: Sequence[str]) -> dict[str, StoreEntry]:
        return self.entries.get(names)

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        return self.entries.scan(prefix, after=after, limit=limit, reverse=reverse)

    def close(self) -> None:
        """The entries are not its own."""


def result_entries(head: CheckpointHead, result: PortableResult) -> dict[str, str]:
    """The entries of a task's result. Each run has its own, so that none replaces another's."""
    words = (*_words(head), _RESULT, head.owner, result.result.task_id)
    return blobs.pieces(result.model_dump_json().encode(), *words)


def gone_entries(head: CheckpointHead, number: int, paths: Sequence[str]) -> dict[str, str]:
    """The entries which say that these files are removed, or are about to be."""
    return blobs.pieces(json.dumps(list(paths)).encode(), *_words(head), _GONE, head.owner, number)


def _words(head: CheckpointHead) -> tuple[str | int, ...]:
    return _BODY, head.run_id, head.number


def _key(head: CheckpointHead) -> str:
    return keys.key(_HEAD, head.entry.table_uuid, head.run_id, head.number)


def _write(entries: StoreEntries, values: Mapping[str, str | None]) -> None:
    for batch in _batches(values):
        entries.change(batch)


def _batches(values: Mapping[str, str | None]) -> Iterator[dict[str, str | None]]:
    """The values in changes that a place takes."""
    batch: dict[str, str | None] = {}
    size = 0
    for name, value in values.items():
        size += len(value or "")  # base64 has one byte for each character
        if batch and (size > door.MOST_BYTES or len(batch) == _BATCH):
            yield batch
            batch, size = {}, len(value or "")
        batch[name] = value
    if batch:
        yield batch


def _read_head(entry: StoreEntry) -> HeldHead | None:
    try:
        return HeldHead(CheckpointHead.model_validate_json(entry.value), entry.version)
    except ValidationError:
        _log.warning("A checkpoint in the run store cannot be read and is left alone: %s", entry.key)
        return None


def _read_result(data: bytes | None) -> PortableResult | None:
    """None: it is damaged or not complete, so that its task counts as not done."""
    try:
        return None if data is None else portable_task.PortableResult.model_validate_json(data)
    except ValidationError:
        return None


def _read_plan(data: bytes | None) -> Plan | None:
    try:
        plan = None if data is None else rewrite_plan.from_json(data)
    except ValueError:
        return None
    return plan if isinstance(plan, rewrite_plan.Plan) else None
