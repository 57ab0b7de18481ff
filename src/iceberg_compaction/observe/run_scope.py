"""The run that a thread works for, so that a log line can name it. Helping threads have no scope of their own; while a
single run is at work, they work for it."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Scope(NamedTuple):
    """A run and its table."""

    run_id: str
    table: str


_scope: ContextVar[Scope | None] = ContextVar("run_scope", default=None)
_at_work: list[Scope] = []


@contextlib.contextmanager
def working(table: str, run_id: str) -> Iterator[None]:
    """Lines inside belong to this run."""
    scope = Scope(run_id, table)
    token = _scope.set(scope)
    _at_work.append(scope)
    try:
        yield
    finally:
        _at_work.remove(scope)
        _scope.reset(token)


def current() -> Scope | None:
    """The run of this thread."""
    scope = _scope.get()
    if scope is None and len(_at_work) == 1:
        return _at_work[0]
    return scope
