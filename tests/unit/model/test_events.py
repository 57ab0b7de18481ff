"""Events: a closed union that goes to JSON and back, told apart by `kind`."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from iceberg_compaction.model import events
from iceberg_compaction.model.outcome import Healthy

RUN = {"table": "db.t", "run_id": "r"}
ALL = [
    events.Planning(**RUN),
    events.Planned(**RUN, sentence="4 files in 1 group become about 1.", files=4, bytes=400, groups=1),
    events.Recovering(**RUN, runs=2),
    events.EngineChosen(**RUN, engine="inline", sentence="Engine inline: it is small."),
    events.Starting(**RUN, engine="Spark"),
    events.Rewriting(**RUN, files_done=2, files_total=4, bytes_done=200, bytes_total=400, groups_total=1),
    events.Comparing(**RUN, files_done=2, files_total=4, bytes_done=200, bytes_total=400),
    events.TaskEnded(**RUN, task_id=0, group_id=1, seconds=0.5, bytes_read=200, bytes_written=90, file_sizes=(90,)),
    events.Committing(**RUN, groups=1),
    events.Committed(**RUN, snapshot_id=7, groups=1),
    events.GroupFailed(**RUN, group_id=3, sentence="The file cannot be read."),
    events.Finished(**RUN, outcome=Healthy(sentence="Nothing to do.", **RUN)),
]


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.kind)
def test_an_event_goes_to_json_and_back(event: events.Event) -> None:
    assert events.from_json(event.model_dump_json()) == event


def test_each_kind_of_event_is_tried_here_and_has_a_name_of_its_own() -> None:
    union = get_args(get_args(events.Event)[0])
    assert {type(event) for event in ALL} == set(union)
    assert len({event.kind for event in ALL}) == len(union)


def test_an_event_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="does not match any of the expected tags"):
        events.from_json('{"kind": "resting", "table": "db.t", "run_id": "r"}')
