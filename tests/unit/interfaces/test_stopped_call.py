"""Ctrl-C while the library works: the work ends by itself, and then the program stops."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction import cancel, errors
from iceberg_compaction.interfaces import stopped_call

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_work_that_looks_at_its_token_ends_by_itself() -> None:
    token, steps = cancel.CancelToken(), []

    def work() -> None:
        with token.looking():
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")
            try:
                token.check()
            except errors.CancelledError as error:
                error.outcome = "outcome"
                raise

    with pytest.raises(KeyboardInterrupt, match="what was committed before stays") as stopped:
        stopped_call.stoppable(work, token)
    assert steps == ["went on"]
    assert isinstance(stopped.value, stopped_call.RunStopped)
    assert stopped.value.outcome == "outcome"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_work_that_ends_before_it_looks_stops_the_program_all_the_same() -> None:
    token = cancel.CancelToken()

    def work() -> str:
        with token.shield():
            signal.raise_signal(signal.SIGINT)
        return "outcome"

    with pytest.raises(stopped_call.RunStopped) as stopped:
        stopped_call.stoppable(work, token)
    assert stopped.value.outcome == "outcome"


def test_a_deadline_is_no_keyboard() -> None:
    token = cancel.CancelToken(seconds=0)
    with pytest.raises(errors.CancelledError, match="deadline"):
        stopped_call.stoppable(token.check, token)


def test_a_handler_of_the_programs_own_stays() -> None:
    heard: list[int] = []

    def own(number: int, frame: Any) -> None:
        heard.append(number)

    signal.signal(signal.SIGINT, own)
    token = cancel.CancelToken()
    stopped_call.stoppable(lambda: signal.raise_signal(signal.SIGINT), token)
    assert heard == [signal.SIGINT]
    assert not token.cancelled


def test_threads_work_without_signals() -> None:
    results: list[str] = []
    thread = threading.Thread(
        target=lambda: results.append(stopped_call.stoppable(lambda: "done", cancel.CancelToken()))
    )
    thread.start()
    thread.join()
    assert results == ["done"]
