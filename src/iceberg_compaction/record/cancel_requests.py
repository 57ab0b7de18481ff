"""Requests to cancel a run, from any process that has the run's store. The run looks for one about once a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.cancel_request import CancelRequest
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from iceberg_compaction.record.entries.door import StoreEntries


def add(entries: StoreEntries, run_id: str, request: CancelRequest) -> CancelRequest:
    """Ask for the end of a run. The request that counts is returned: the first."""
    key = _key(run_id)
    if entries.change({key: request.model_dump_json()}, {key: None}):
        return request
    return find(entries, run_id) or request


def find(entries: StoreEntries, run_id: str) -> CancelRequest | None:
    """The request to cancel this run, if there is one."""
    entry = entries.get([_key(run_id)]).get(_key(run_id))
    if entry is None:
        return None
    try:
        return CancelRequest.model_validate_json(entry.value)
    except pydantic.ValidationError:  # a newer version wrote it; that somebody wants the end is sure
        return CancelRequest(by="somebody", machine="an unknown machine", at_ms=0)


def remove(entries: StoreEntries, run_id: str) -> None:
    """Forget the request: the run has ended."""
    entries.change({_key(run_id): None})


def _key(run_id: str) -> str:
    return keys.key("cancel", run_id)
