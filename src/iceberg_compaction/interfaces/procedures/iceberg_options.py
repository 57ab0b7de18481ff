"""Every option of Iceberg's rewrite procedures, and what becomes of it here: it has the same name, another one, asks
for what happens anyway, has no effect on the result, or is refused with the reason. One list for the library, the
command line, `from-procedure` and the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Mapping


class OptionAnswer(str, Enum):
    """What becomes of an option."""

    MAPPED = "mapped"  # to an option of ours
    ANYWAY = "anyway"  # values that ask for what happens anyway are accepted, others refused
    NOTED = "noted"  # it cannot change the result; accepted, and told
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRule:
    """The answer to one option. `ours`: our option; `values`: those that ask for what happens anyway."""

    answer: OptionAnswer
    words: str = ""
    ours: str = ""
    values: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer for the documentation."""
        match self.answer:
            case OptionAnswer.MAPPED:
                return f"`{self.ours}`" + (f"; {self.words}" if self.words else "")
            case OptionAnswer.ANYWAY:
                return f"{' or '.join(f'`{value}`' for value in self.values)} is accepted: {self.words}"
            case OptionAnswer.NOTED:
                return f"accepted, without effect: {self.words}"
            case OptionAnswer.REFUSED:
                return f"refused: {self.words}"


def _same(*names: str) -> dict[str, OptionRule]:
    return {name: OptionRule(answer=OptionAnswer.MAPPED, ours=name) for name in names}


def _noted(words: str) -> OptionRule:
    return OptionRule(answer=OptionAnswer.NOTED, words=words)


def _refused(words: str) -> OptionRule:
    return OptionRule(answer=OptionAnswer.REFUSED, words=words)


def _anyway(*values: str, words: str) -> OptionRule:
    return OptionRule(answer=OptionAnswer.ANYWAY, values=values, words=words)


_CONCURRENT = _noted("the engine performs as many tasks at a time as it has cores; see `--conf spark.cores.max`")
_ORDER = "delete files of all partitions are committed together"

REWRITE_DATA_FILES: Final[dict[str, OptionRule]] = {
    **_same(
        "target-file-size-bytes",
        "min-file-size-bytes",
        "max-file-size-bytes",
        "min-input-files",
        "rewrite-all",
        "max-file-group-size-bytes",
        "max-file-group-input-files",
        "max-files-to-rewrite",
        "delete-file-threshold",
        "delete-ratio-threshold",
        "rewrite-job-order",
    ),
    "output-spec-id": OptionRule(
        answer=OptionAnswer.MAPPED,
        ours="output-spec-id",
        words="only the table's current spec; see `keep-spec` for older ones",
    ),
    "partial-progress.enabled": OptionRule(answer=OptionAnswer.MAPPED, ours="partial-progress"),
    "partial-progress.max-commits": OptionRule(answer=OptionAnswer.MAPPED, ours="partial-progress-max-commits"),
    "partial-progress.max-failed-commits": _noted(
        "a commit that fails never stops the others; ten failures in a row end the run"
    ),
    "max-concurrent-file-group-rewrites": _CONCURRENT,
    "use-starting-sequence-number": _anyway(
        "true",
        words="new files always have the sequence number of the planned snapshot; else later deletes would miss them",
    ),
    "remove-dangling-deletes": _anyway(
        "true", words="delete files that apply to nothing always leave with the first commit"
    ),
    "compression-factor": _anyway("1.0", "1", words="sizes of outputs are estimated from the files themselves"),
    "shuffle-partitions-per-file": _noted("rows are sorted without a shuffle"),
    "var-length-contribution": _noted("columns of a z-order are compared in full"),
    "max-output-size": _noted("columns of a z-order are compared in full"),
    "cache-delete-files": _noted("small delete files travel with the tasks, others are read once for each task"),
}
REWRITE_POSITION_DELETE_FILES: Final[dict[str, OptionRule]] = {
    "min-input-files": _anyway("2", words="position deletes are merged where a data file has several files of them"),
    "rewrite-all": _anyway("false", words="delete files that need no merging stay as they are"),
    "partial-progress.enabled": _noted("groups that fail never stop the others, and the rest is one commit"),
    "partial-progress.max-commits": _noted("all groups are one commit"),
    "max-concurrent-file-group-rewrites": _CONCURRENT,
    "rewrite-job-order": _noted(_ORDER),
    "target-file-size-bytes": _refused(
        "a new delete file is for one data file, or with `--granularity partition` for one partition"
    ),
    "min-file-size-bytes": _refused("the size of delete files does not decide, but how many apply to a data file"),
    "max-file-size-bytes": _refused("the size of delete files does not decide, but how many apply to a data file"),
    "max-file-group-size-bytes": _refused(
        "delete files are grouped by the data files that they apply to; see `--where`"
    ),
    "max-file-group-input-files": _refused(
        "delete files are grouped by the data files that they apply to; see `--where`"
    ),
    "max-files-to-rewrite": _refused("the number of delete files cannot be limited; see `--where`"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Options in our names, and sentences about those that have no effect."""

    options: dict[str, Any]
    notes: tuple[str, ...] = ()


def translate(given: Mapping[str, Any], rules: Mapping[str, OptionRule] = REWRITE_DATA_FILES) -> Translated:
    """Options by Iceberg's names in ours; names that Iceberg does not have stay. ConfigError: one is refused."""
    by_name = {_folded(name): (name, rule) for name, rule in rules.items()}
    options: dict[str, Any] = {}
    notes = []
    for name, value in given.items():
        iceberg, rule = by_name.get(_folded(name), (name, None))
        if rule is None:
            options[name] = value
        elif rule.answer is OptionAnswer.MAPPED:
            options[rule.ours] = value
        elif rule.answer is OptionAnswer.NOTED:
            notes.append(f"{iceberg} has no effect: {rule.words}.")
        elif rule.answer is OptionAnswer.REFUSED or _text(value) not in rule.values:
            raise errors.ConfigError(f"The option {iceberg}={_text(value)[:40]} cannot be followed: {rule.words}.")
    return Translated(options=options, notes=tuple(notes))


def _folded(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(".", "-")


def _text(value: Any) -> str:
    return str(value).strip().lower()
