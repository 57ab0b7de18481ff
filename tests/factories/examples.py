"""How many examples a property is tried on. `make test` tries the same ones each time, `make quick` a few of them;
`make explore` tries others, and many times as many."""

from __future__ import annotations

import os
from typing import Any

import hypothesis

QUICK = "ICEBERG_COMPACTION_QUICK" in os.environ
TIMES = int(os.environ.get("ICEBERG_COMPACTION_EXPLORE", "0"))  # 0: the same examples each time
_EXAMPLES = 100
# How long an example takes is no property of the code: on a busy machine any of them may take long. A database would
# replay the failures of earlier runs, which depend on the machine.
_REPEATABLE = hypothesis.settings(deadline=None, derandomize=True, database=None)
_EXPLORING = hypothesis.settings(deadline=None, derandomize=False, database=None, print_blob=True)


def load_profile() -> None:
    """The settings of all property tests."""
    profile = _EXPLORING if TIMES else _REPEATABLE
    hypothesis.settings.register_profile("iceberg-compaction", profile, max_examples=_number(_EXAMPLES))
    hypothesis.settings.load_profile("iceberg-compaction")


def examples(count: int = _EXAMPLES, **more: Any) -> hypothesis.settings:
    """Try a property on so many examples, or many times as many."""
    return hypothesis.settings(max_examples=_number(count), **more)


def _number(count: int) -> int:
    return max(5, count // 10) if QUICK else count * max(1, TIMES)
