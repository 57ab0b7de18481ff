"""The trend since an earlier look at the same tables. The JSON of `doctor --output json` comes in, of this version or
of another one; differences go out. Fields that this module does not use may have any value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction.interfaces.html import states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iceberg_compaction.workflow.fleet import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One table at one time. Tables that could not be read have a state alone."""

    state: str
    score: int | None = None
    data_files: int | None = None
    small_files: int | None = None
    delete_files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierLook:
    """All tables at one time."""

    label: str  # for people: the file, and when it was written
    tables: Mapping[str, Figures]


def parse(text: str, label: str) -> EarlierLook:
    """ValueError: the text is not what `doctor --output json` prints."""
    parsed = json.loads(text)
    entries = parsed if isinstance(parsed, list) else [parsed]
    if not all(isinstance(entry, dict) and isinstance(entry.get("table"), str) for entry in entries):
        raise ValueError("it has entries without the name of a table")
    return EarlierLook(label=label, tables={entry["table"]: _figures(entry) for entry in entries})


def figures(diagnosis: Diagnosis) -> Figures:
    """The figures of a table now."""
    return _figures(diagnosis.model_dump(include={*Figures.__slots__, "error", "sick", "unsupported"}))


def gone(earlier: EarlierLook, diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Tables of the earlier look that are not among those of now."""
    return sorted(earlier.tables.keys() - {diagnosis.table for diagnosis in diagnoses})


def moved(earlier: EarlierLook, diagnoses: Sequence[Diagnosis]) -> Iterator[tuple[str, str, str]]:
    """Tables whose state is another one: name, state before, state now."""
    for diagnosis in diagnoses:
        before = earlier.tables.get(diagnosis.table)
        now = states.state_of(diagnosis)
        if before is not None and before.state != now:
            yield diagnosis.table, before.state, now


def difference(before: int | None, now: int | None) -> int | None:
    """None: one of the two is not known."""
    return None if before is None or now is None else now - before


def signed(number: int) -> str:
    """A difference with its sign; the minus is as wide as the plus."""
    return f"{number:+,}".replace("-", "\N{MINUS SIGN}")


def _figures(entry: Mapping[str, Any]) -> Figures:
    names = (name for name in Figures.__slots__ if name != "state")
    numbers = {name: entry[name] for name in names if type(entry.get(name)) is int}
    return Figures(state=states.state_of_entry(entry), **numbers)
