"""Values of a store that this version can read. The others, written by a newer version or damaged, are left out of
answers with one warning, and stay where they are."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readable:
    """The reader of one store object."""

    store: str  # for the warning
    _reported: set[str] = field(default_factory=set)  # run ids that there was a warning for

    def parse(self, run_id: str, parse: Callable[[], T]) -> T | None:
        """The value of a run; None: it cannot be read."""
        try:
            return parse()
        except ValueError:  # pydantic's among them
            if run_id not in self._reported:
                self._reported.add(run_id)
                _log.warning(
                    "Run %s in the run store %s is unreadable and ignored; a newer version may have written it.",
                    run_id,
                    self.store,
                )
            return None
