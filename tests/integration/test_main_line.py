"""However a run ends, and whoever listens, its commits are remembered as what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import runs, work

from iceberg_compaction import Policy
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.workflow import recover

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.events import Event

POLICY = Policy.model_validate({"min-input-files": 2})


def test_a_listener_that_breaks_at_the_end_does_not_turn_a_commit_into_a_failure(
    local_lake: lakes.Lake, tmp_path: Path
) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 4)
    finished = []

    def on_event(event: Event) -> None:
        if event.kind == "finished":
            finished.append(event)
            raise BrokenPipeError

    run = wiring.new_run(on_event=on_event, store=wiring.run_store(tmp_path / "runs.db"))
    with pytest.raises(BrokenPipeError):
        work.compact_table(local_lake.catalog, "db.t", POLICY, wiring.engine_factory("inline"), run)
    assert run.store is not None
    (record,) = run.store.history("db.t")
    assert record.outcome.kind is Kind.COMPACTED
    assert len(finished) == 1


def test_a_catalog_that_is_silent_after_a_commit_does_not_turn_it_into_a_failure(
    local_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead run waits for a commit of this run, and that is looked up once it is made."""
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 12)
    load, committed = local_lake.catalog.load_table, []

    def silent(name: Any) -> Any:
        if committed:
            raise ConnectionError("no answer")
        return load(name)

    def on_event(event: Event) -> None:
        if event.kind == "committed":
            committed.append(event)

    monkeypatch.setattr(recover, "recover", lambda table, run: recover.Recovered(waiting=("a",)))
    monkeypatch.setattr(local_lake.catalog, "load_table", silent)
    ended = work.rewrite_manifests(local_lake.catalog, "db.t", runs.make_run(on_event=on_event))
    assert ended.kind is Kind.COMPACTED, ended.sentence
    assert "if there are any, could not be removed" in ended.sentence
