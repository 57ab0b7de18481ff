"""What becomes of a piece of work after an attempt: it has ended, or it is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.record.rules.work_book import WorkEnd

if TYPE_CHECKING:
    from iceberg_compaction.model.maintenance import TableMaintenance
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.verification import Verification

STOPPING = "The service ends, and another worker goes on."  # the reason of a cancel
BUSY_S = 30.0  # until a table is tried again that another run is at work on
_GROUPS = 50  # of an outcome that are kept with the work; the history of runs has more
_FAILED = (Kind.FAILED, Kind.CONFLICT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkVerdict:
    """The result of an attempt. `end`: how the work ends, unless it is tried again: after `wait_s`, which counts as no
    failure, or, if the trouble `may_pass`, after a wait that grows, and not for ever."""

    end: WorkEnd
    sentence: str = ""
    wait_s: float | None = None
    may_pass: bool = False
    catalog_away: bool = False  # it was the catalog that did not answer


def of_outcome(outcome: Outcome, *, may_pass: bool = True) -> WorkVerdict:
    """The verdict of a run. Others may have been faster: that is tried again, if it `may_pass`."""
    end = WorkEnd(
        state=WorkState.FAILED if outcome.kind in _FAILED else WorkState.DONE,
        outcome=outcome.kind,
        sentence=outcome.sentence,
        result=_json(outcome.brief(_GROUPS)),
    )
    return WorkVerdict(end=end, sentence=outcome.sentence, may_pass=may_pass and outcome.kind is Kind.CONFLICT)


def of_maintenance(result: TableMaintenance) -> WorkVerdict:
    """The verdict of all upkeep of a table: that of its worst step."""
    outcomes = [step.outcome for step in result.steps]
    kinds = [outcome.kind for outcome in outcomes]
    bad = [outcome for outcome in outcomes if not outcome.ok and outcome.kind is not Kind.UNSUPPORTED]
    changed = [kind for kind in kinds if kind in (Kind.COMPACTED, Kind.MAINTAINED)]
    kind = Kind.FAILED if bad else changed[-1] if changed else Kind.SKIPPED if Kind.SKIPPED in kinds else Kind.HEALTHY
    sentences = [f"{step.step.value}: {step.outcome.sentence}" for step in result.steps]
    brief = result.model_copy(
        update={
            "steps": tuple(step.model_copy(update={"outcome": step.outcome.brief(_GROUPS)}) for step in result.steps)
        }
    )
    end = WorkEnd(
        state=WorkState.FAILED if bad else WorkState.DONE,
        outcome=kind,
        sentence=" ".join(sentences) or "There is no step to do.",
        result=_json(brief),
    )
    return WorkVerdict(end=end, sentence=end.sentence)


def of_verification(result: Verification) -> WorkVerdict:
    """The verdict of a check. What differs is a result, not a failure of the check."""
    return WorkVerdict(end=WorkEnd(sentence=result.sentence, result=_json(result)), sentence=result.sentence)


def failed(sentence: str) -> WorkVerdict:
    """It cannot be done."""
    return WorkVerdict(end=WorkEnd(state=WorkState.FAILED, outcome=Kind.FAILED, sentence=sentence), sentence=sentence)


def later(sentence: str, wait_s: float = BUSY_S, *, catalog_away: bool = False) -> WorkVerdict:
    """It is tried again, and that is nobody's fault."""
    end = WorkEnd(state=WorkState.FAILED, sentence=sentence)
    return WorkVerdict(end=end, sentence=sentence, wait_s=wait_s, catalog_away=catalog_away)


def again(sentence: str) -> WorkVerdict:
    """It failed for a reason that may pass."""
    end = WorkEnd(state=WorkState.FAILED, outcome=Kind.FAILED, sentence=sentence)
    return WorkVerdict(end=end, sentence=sentence, may_pass=True)


def cancelled(sentence: str, outcome: Outcome | None) -> WorkVerdict:
    """Somebody has cancelled it; what was committed by then stays."""
    kind, result = (None, None) if outcome is None else (outcome.kind, _json(outcome.brief(_GROUPS)))
    end = WorkEnd(state=WorkState.CANCELLED, outcome=kind, sentence=sentence, result=result)
    return WorkVerdict(end=end, sentence=sentence)


def _json(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = value.model_dump(mode="json")
    return fields
