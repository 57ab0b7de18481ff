"""Outcomes: a union told apart by `kind`, whose JSON has a version; rows that older versions wrote still read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from iceberg_compaction.model import outcome, run_record

RUN = {"table": "db.t", "run_id": "r", "sentence": "It is so."}
# One line for each kind of row as stores have them from before outcomes had a version. The last but one has only the
# fields of the first version.
OLD_ROWS = (Path(__file__).parent / "old_run_records.jsonl").read_text().splitlines()
CLASSES = {
    outcome.Kind.COMPACTED: outcome.Compacted,
    outcome.Kind.HEALTHY: outcome.Healthy,
    outcome.Kind.SKIPPED: outcome.Skipped,
    outcome.Kind.UNSUPPORTED: outcome.Unsupported,
    outcome.Kind.CONFLICT: outcome.Conflict,
    outcome.Kind.FAILED: outcome.Failed,
    outcome.Kind.UNDONE: outcome.Undone,
    outcome.Kind.MAINTAINED: outcome.Maintained,
}
LATER_KINDS = {outcome.Kind.UNDONE, outcome.Kind.MAINTAINED}
OF_AN_UNDO = {"undone_run_id": "q", "way": "rollback", "head_snapshot_id": 6}
OF_HOUSEKEEPING = {"operation": "expire", "figures": {"snapshots": 3}, "notes": ("They are gone.",)}


def make(kind: outcome.Kind) -> outcome.Outcome:
    more: dict[str, Any] = {"snapshot_id": 7, "snapshot_ids": (7,)} if kind is outcome.Kind.COMPACTED else {}
    more |= OF_AN_UNDO if kind is outcome.Kind.UNDONE else {}
    more |= OF_HOUSEKEEPING if kind is outcome.Kind.MAINTAINED else {}
    return outcome.parse({"kind": kind, **RUN, **more})


@pytest.mark.parametrize("row", OLD_ROWS, ids=lambda row: json.loads(row)["outcome"]["kind"])
def test_a_row_without_a_version_reads_and_loses_nothing(row: str) -> None:
    written = json.loads(row)
    assert "version" not in written["outcome"]
    record = run_record.RunRecord.model_validate_json(row)
    again = json.loads(record.model_dump_json())
    effort = written["outcome"].pop("effort", {})  # of which new ones have more figures
    assert again["outcome"] == again["outcome"] | written["outcome"]
    assert again["outcome"]["effort"] == again["outcome"]["effort"] | effort
    assert again["outcome"]["version"] == 1
    assert type(record.outcome) is CLASSES[outcome.Kind(written["outcome"]["kind"])]


def test_the_old_rows_are_of_every_kind_of_that_time() -> None:
    kinds = {kind.value for kind in outcome.Kind} - {kind.value for kind in LATER_KINDS}
    assert {json.loads(row)["outcome"]["kind"] for row in OLD_ROWS} == kinds


@pytest.mark.parametrize("kind", outcome.Kind)
def test_an_outcome_goes_to_json_and_back(kind: outcome.Kind) -> None:
    result = make(kind)
    assert type(result) is CLASSES[kind]
    assert outcome.from_json(result.model_dump_json()) == result


def test_every_kind_has_the_same_fields_in_json() -> None:
    """A script that adds up figures of many tables need not ask for the kind."""
    own = set(OF_AN_UNDO) | set(OF_HOUSEKEEPING)
    names = {frozenset(set(json.loads(make(kind).model_dump_json())) - own) for kind in outcome.Kind}
    assert len(names) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "healthy", "files_removed": 3},
        {"kind": "conflict", "snapshot_id": 7},
        {"kind": "unsupported", "snapshot_ids": [7]},
        {"kind": "compacted"},  # in which snapshot?
        {"kind": "better"},
        {"kind": "healthy", "version": 2},
    ],
)
def test_an_outcome_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        outcome.parse({**RUN, **wrong})


def test_a_table_is_ok_unless_something_failed_or_was_left_undone() -> None:
    ok = {kind for kind in outcome.Kind if make(kind).ok}
    assert ok == {outcome.Kind.COMPACTED, outcome.Kind.HEALTHY, outcome.Kind.SKIPPED, *LATER_KINDS}
    assert not make(outcome.Kind.COMPACTED).model_copy(update={"groups_failed": 1}).ok
