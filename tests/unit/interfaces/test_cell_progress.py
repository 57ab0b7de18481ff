"""Progress in a notebook: one display for each run, drawn again now and then, and nothing where there is no kernel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.interfaces.test_cli_progress import COMMITTING, PLANNING, finished, rewriting

from iceberg_compaction import cancel
from iceberg_compaction.interfaces.notebook import cell_progress, kernel
from iceberg_compaction.model.outcome import Kind

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event


class Cell:
    """The output of a cell."""

    def __init__(self) -> None:
        self.shown: list[tuple[dict[str, str], str, bool]] = []

    def publish(self, shown: dict[str, str], display_id: str, update: bool) -> None:
        self.shown.append((shown, display_id, update))


def wait_for(cell: Cell, words: str) -> None:
    end = time.monotonic() + 20
    while not cell.shown or words not in cell.shown[-1][0]["text/html"]:
        assert time.monotonic() < end, cell.shown
        time.sleep(0.01)


def test_one_display_is_drawn_again() -> None:
    cell, token = Cell(), cancel.CancelToken()
    with cell_progress.CellProgress(cell.publish, token) as progress:
        for event in (PLANNING, *(rewriting(done) for done in range(5)), *(rewriting(3) for _ in range(500))):
            progress.on_event(event)
        wait_for(cell, "75%")
        token.cancel("Enough.")
        wait_for(cell, "stopping: what is finished is committed")
        progress.on_event(COMMITTING)
        progress.on_event(finished(Kind.COMPACTED))
    assert len(cell.shown) < 50
    assert len({display_id for _, display_id, _ in cell.shown}) == 1
    assert [update for _, _, update in cell.shown] == [False, *[True] * (len(cell.shown) - 1)]
    last = cell.shown[-1][0]
    assert last["text/plain"].startswith("db.t: compacted, 300 B of 400 B")
    assert "stopping" not in last["text/html"]


@pytest.mark.parametrize(("error", "words"), [(None, "done"), (KeyboardInterrupt, "stopped")])
def test_the_end_without_an_outcome_is_told(error: type[BaseException] | None, words: str) -> None:
    cell = Cell()
    progress = cell_progress.CellProgress(cell.publish, cancel.CancelToken())
    progress.__enter__()
    progress.on_event(rewriting(1))
    progress.__exit__(error)
    assert f"<b>db.t</b>: {words} " in cell.shown[-1][0]["text/html"]


def test_nothing_is_shown_of_a_run_without_events_or_in_a_notebook_that_is_gone() -> None:
    cell = Cell()
    with cell_progress.CellProgress(cell.publish, cancel.CancelToken()):
        pass
    assert cell.shown == []

    def gone(*given: object) -> None:
        raise ConnectionError

    with cell_progress.CellProgress(gone, cancel.CancelToken()) as progress:
        progress.on_event(PLANNING)


def test_a_process_without_a_kernel_draws_nothing() -> None:
    assert kernel.publisher() is None
    heard: list[Event] = []
    with cell_progress.drawn(heard.append, cancel.CancelToken(), wanted=True) as on_event:
        assert on_event == heard.append
    with cell_progress.drawn(None, cancel.CancelToken(), wanted=True) as on_event:
        assert on_event is None
