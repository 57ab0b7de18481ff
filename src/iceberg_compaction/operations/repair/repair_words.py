"""Findings in words: the lines of a plan, and what a person can do about those that no command mends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals, upkeep_plan
from iceberg_compaction.model.repair_plan import MOST_FINDINGS, Damage, Remedy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.repair_plan import Finding

_SHOWN = 20  # of one kind; all are in the plan
_TITLES = {
    Damage.SIZE: ("wrong size", "wrong sizes"),
    Damage.RECORDS: ("wrong count of rows", "wrong counts of rows"),
    Damage.TWICE: ("entry too many", "entries too many"),
    Damage.MISSING: ("missing file", "missing files"),
    Damage.UNREADABLE: ("damaged file", "damaged files"),
    Damage.COUNTS: (
        "manifest with other counts than its list says",
        "manifests with other counts than their list says",
    ),
    Damage.LOST_MANIFEST: ("lost manifest", "lost manifests"),
}
_MENDED = {
    Damage.SIZE: "--fix writes the true size",
    Damage.RECORDS: "--fix writes the true count and leaves out the metrics of its columns",
    Damage.TWICE: "--fix keeps one entry",
    Damage.MISSING: "--drop-missing takes it out of the table",
    Damage.COUNTS: "--fix writes the true counts",
}
_HELP = {
    Remedy.DROP_MISSING: "restore the file; or give up its rows with --fix --drop-missing",
    Remedy.RESTORE: "restore it from a version or a copy that the store has; or roll back to a snapshot without it",
    Remedy.CHOOSE: "not mended, because deletes may apply to one entry and not to the other: remove the entry that is "
    "wrong with the engine that wrote it",
}


def lines(findings: Sequence[Finding], *, mended: bool) -> tuple[upkeep_plan.UpkeepStep, ...]:
    """A line for each finding; of one kind, only the first ones have lines of their own."""
    shown: Counter[Damage] = Counter()
    made = []
    for finding in findings:
        shown[finding.damage] += 1
        if shown[finding.damage] <= _SHOWN:
            made.append(upkeep_plan.UpkeepStep(name=finding.path, count=1, sentence=_line(finding, mended=mended)))
    for damage, count in shown.items():
        if count > _SHOWN:
            title = _TITLES[damage][1]
            made.append(
                upkeep_plan.UpkeepStep(name=f"more {title}", count=count - _SHOWN, sentence="as above; JSON has all")
            )
    return tuple(made)


def sentence(findings: Sequence[Finding], *, deep: bool) -> str:
    """All of them in one sentence."""
    if not findings:
        unread = "" if deep else " Rows were not counted; --deep does."
        return f"Nothing is wrong: metadata fits the files in storage.{unread}"
    counts = Counter(finding.damage for finding in findings)
    words = [f"{count:,} {_TITLES[damage][count != 1]}" for damage, count in counts.items()]
    mended = sum(finding.remedy is Remedy.FIX for finding in findings)
    return f"Found: {plurals.listed(words)}. {_can_be_mended(mended, len(findings))}"


def notes(findings: Sequence[Finding], *, more: bool) -> tuple[str, ...]:
    """What else a person should know."""
    made = []
    lost = [finding for finding in findings if finding.remedy is Remedy.DROP_MISSING]
    if lost:
        rows = sum(finding.records for finding in lost)
        files = plurals.count(len({finding.path for finding in lost}), "missing data file")
        made.append(
            f"{plurals.count(rows, 'row')} of {files} cannot be read. They are lost unless the files come back."
        )
    if more:
        made.append(f"There is more than the {MOST_FINDINGS:,} findings that one plan holds; run it again afterwards.")
    return tuple(made)


def _line(finding: Finding, *, mended: bool) -> str:
    what = f"metadata says {finding.stated}; in truth {finding.actual}"
    help_ = _MENDED[finding.damage] if mended else _HELP[finding.remedy]
    where = "" if finding.path == finding.manifest else f" (in {finding.manifest.rpartition('/')[2]})"
    return f"{what}{where}. {help_[0].upper()}{help_[1:]}."


def _can_be_mended(mended: int, count: int) -> str:
    if mended == count:
        return "--fix mends all of it."
    return f"--fix mends {mended:,} of {count:,}." if mended else "--fix mends none of it."
