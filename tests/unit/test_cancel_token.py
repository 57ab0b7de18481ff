"""The cancel token: one request ends a run where it can stop cleanly, and never in the middle of a commit."""

from __future__ import annotations

import threading

import pytest

from iceberg_compaction import errors
from iceberg_compaction.cancel import CancelToken


def test_a_token_that_nobody_cancels_lets_the_work_go_on() -> None:
    token = CancelToken()
    token.check()
    assert not token.cancelled


def test_the_first_reason_is_the_one_that_is_raised() -> None:
    token = CancelToken()
    token.cancel("Ctrl-C.")
    token.cancel("Too late.")
    assert token.cancelled
    with pytest.raises(errors.CancelledError, match=r"^Ctrl-C\.$"):
        token.check()


def test_a_cancel_inside_a_shield_takes_effect_when_the_outermost_shield_ends() -> None:
    token = CancelToken()
    with token.shield():
        with token.shield():
            token.cancel("Stop.")
        assert token.shielded
        assert not token.cancelled
        token.check()
    assert token.cancelled
    with pytest.raises(errors.CancelledError):
        token.check()


def test_a_shield_ends_also_if_the_work_inside_raises() -> None:
    token = CancelToken()
    with pytest.raises(ValueError, match="inside"), token.shield():
        raise ValueError("inside")
    assert not token.shielded


def test_a_shield_of_one_thread_holds_for_all() -> None:
    token, seen = CancelToken(), []
    token.cancel("Stop.")
    with token.shield():
        thread = threading.Thread(target=lambda: seen.append(token.cancelled))
        thread.start()
        thread.join()
    assert seen == [False]


def test_a_deadline_cancels_when_it_is_reached_and_waits_for_shields_too() -> None:
    now = [100.0]
    token = CancelToken(seconds=60, clock=lambda: now[0])
    now[0] = 159.9
    assert not token.cancelled
    now[0] = 160.0
    with token.shield():
        token.check()
    with pytest.raises(errors.CancelledError, match="deadline, after 60 seconds"):
        token.check()


def test_work_that_looks_often_says_so() -> None:
    token = CancelToken()
    assert not token.gentle
    with token.looking():
        assert token.gentle
    assert not token.gentle


def test_one_of_several_runs_hears_what_is_asked_of_all() -> None:
    command = CancelToken()
    one, other = command.child(), command.child()
    with one.shield():
        assert command.shielded
        command.cancel("Stop.")
        one.check()
        with pytest.raises(errors.CancelledError, match="Stop"):
            other.check()  # the commit of another run is nothing to it
    with pytest.raises(errors.CancelledError, match="Stop"):
        one.check()


def test_a_cancel_by_one_of_several_runs_counts_for_all() -> None:
    command = CancelToken()
    command.child().cancel("Stop.")
    assert command.child().cancelled


def test_a_commit_of_finished_work_has_some_time() -> None:
    now = [100.0]
    token = CancelToken(seconds=10, clock=lambda: now[0])
    now[0] = 120.0
    finishing = token.finishing(seconds=30)
    finishing.check()
    with finishing.shield():
        assert token.shielded
    now[0] = 149.9
    assert token.cancelled
    assert not finishing.cancelled
    now[0] = 150.0
    with pytest.raises(errors.CancelledError, match="deadline"):
        finishing.check()
