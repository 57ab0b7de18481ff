"""Checks a policy file without any table, and compares two. Each value is checked by itself, and then each section with
all that it inherits, in every environment, because values may contradict each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import extensions, table_names
from iceberg_compaction.model.policies import Strategy
from iceberg_compaction.model.policy_review import PolicyComparison, PolicyDifference, PolicyReview
from iceberg_compaction.policy import due_times, policy_book
from iceberg_compaction.policy.policy_book import PolicyBook
from iceberg_compaction.policy.policy_sections import Level, PolicyDocument, PolicySection
from iceberg_compaction.policy.sources import load_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.policy.policy_sections import Setting
    from iceberg_compaction.policy.spelling import PolicySpellings

_SOME_TABLE = "table"
_LINE = re.compile(r", line (\d+): ")


def check(path: str | Path, spellings: PolicySpellings) -> PolicyReview:
    """All problems of a file, each a sentence with its line."""
    try:
        document = load_file.examine(path, spellings)
    except errors.ConfigError as error:
        return PolicyReview(file=str(path), ok=False, problems=(str(error),))
    return _review(str(path), document, spellings)


def check_text(text: str, name: str, spellings: PolicySpellings) -> PolicyReview:
    """The same for a text, which may not extend files."""
    try:
        document = load_file.examine_text(text, name, spellings)
    except errors.ConfigError as error:
        return PolicyReview(file=name, ok=False, problems=(str(error),))
    return _review(name, document, spellings)


def _review(name: str, document: PolicyDocument, spellings: PolicySpellings) -> PolicyReview:
    problems = list(dict.fromkeys([*document.problems, *_wrong_values(document, spellings)]))
    if not problems:
        problems = list(dict.fromkeys(_contradictions(document, spellings)))
    problems.sort(key=_line)
    levels = [section.level for section in document.sections]
    return PolicyReview(
        file=name,
        ok=not problems,
        problems=tuple(problems),
        ignored=document.ignored,
        values=sum(len(section.settings) for section in document.sections),
        namespaces=levels.count(Level.NAMESPACE),
        tables=levels.count(Level.TABLE) + levels.count(Level.PATTERN),
        environments=document.environments,
    )


def _line(problem: str) -> int:
    """The line that a sentence begins with; sentences without one come last."""
    match = _LINE.search(problem)
    return 10**9 if match is None else int(match[1])


def _wrong_values(document: PolicyDocument, spellings: PolicySpellings) -> Iterator[str]:
    """Values that cannot be meant, each by itself."""
    for section in document.sections:
        for setting in section.settings:
            alone = PolicySection(level=Level.CATALOG, settings=(setting,))
            yield from _problem(PolicyDocument(file=document.file, sections=(alone,)), spellings, _SOME_TABLE, None)


def _contradictions(document: PolicyDocument, spellings: PolicySpellings) -> Iterator[str]:
    for environment in (None, *document.environments):
        for section in document.sections:
            yield from _problem(document, spellings, _table_of(section), environment)


def _problem(
    document: PolicyDocument, spellings: PolicySpellings, table: str, environment: str | None
) -> Iterator[str]:
    book = PolicyBook(document=document, environment=environment, spellings=spellings)
    try:
        effective = book.for_table(table, {})
    except errors.CompactionError as error:
        yield str(error)
        return
    try:
        due_times.check(effective.policy)
    except errors.ConfigError as error:
        blamed = next((each for each in effective.settings if each.name in ("schedule.cron", "quiet-hours")), None)
        start = "" if blamed is None else f"{policy_book.at(blamed.origin)}: "
        yield f"{start}{error}"
    yield from _unknown_strategy(effective)


def _unknown_strategy(effective: EffectivePolicy) -> Iterator[str]:
    """A strategy that is neither ours nor of an installed package. Its package is not loaded."""
    name = effective.policy.rewrite.strategy
    if isinstance(name, Strategy) or name in extensions.names(extensions.STRATEGIES):
        return
    try:
        extensions.load(extensions.STRATEGIES, name, kind="a strategy", ours=[each.value for each in Strategy])
    except errors.ConfigError as error:
        yield f"{policy_book.at(effective.origin('strategy'))}: {error}"


def _table_of(section: PolicySection) -> str:
    """A table that the section is about."""
    if section.level is Level.CATALOG:
        return _SOME_TABLE
    plain = section.pattern
    for wildcard in "*?[]":
        plain = plain.replace(wildcard, "x")
    name = table_names.text(table_names.parse(plain))
    return f"{name}.{_SOME_TABLE}" if section.level is Level.NAMESPACE else name


def compare(old: str | Path, new: str | Path, spellings: PolicySpellings) -> PolicyComparison:
    """The values that two files do not have in common, whatever their order and spelling."""
    before, after = (_by_name(load_file.load(each, spellings)) for each in (old, new))
    names = [*before, *(name for name in after if name not in before)]
    differences = [
        _difference(name, before.get(name), after.get(name))
        for name in names
        if name not in before or name not in after or before[name].value != after[name].value
    ]
    return PolicyComparison(old=str(old), new=str(new), differences=tuple(differences))


def _by_name(document: PolicyDocument) -> dict[tuple[str, str], Setting]:
    """The values by section and name. Of files that extend each other the stronger one counts."""
    values: dict[tuple[str, str], Setting] = {}
    for section in sorted(document.sections, key=lambda each: -each.depth):
        profile = () if section.profile is None else (section.profile,)
        for setting in (*profile, *section.settings):
            values[section.title, setting.key.name] = setting
    return values


def _difference(name: tuple[str, str], old: Setting | None, new: Setting | None) -> PolicyDifference:
    return PolicyDifference(
        section=name[0],
        name=name[1],
        old=None if old is None else old.value,
        new=None if new is None else new.value,
        old_origin=None if old is None else old.origin,
        new_origin=None if new is None else new.origin,
    )
