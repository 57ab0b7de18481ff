"""Policy files from disk: the one that is named, and those that it extends, weaker than itself. In: a path. Out: one
document of all of them; ConfigError: a file is missing, too large, no text, or extends itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plurals
from iceberg_compaction.policy import spelling
from iceberg_compaction.policy.policy_sections import PolicyDocument
from iceberg_compaction.policy.sources import read_sections, yaml_nodes
from iceberg_compaction.policy.sources.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.policy.policy_sections import PolicySection
    from iceberg_compaction.policy.sources.yaml_nodes import Node
    from iceberg_compaction.policy.spelling import PolicySpellings

_MOST_FILES = 20


def load(path: str | Path, spellings: PolicySpellings) -> PolicyDocument:
    """The document of a file and of those that it extends; a name that is not known is an error."""
    return _without_problems(examine(path, spellings))


def examine(path: str | Path, spellings: PolicySpellings) -> PolicyDocument:
    """The same with all names that are not known, for whoever lists them."""
    return _join(str(path), list(_load(Path(path), str(path), (), spellings)))


def parse(text: str, name: str, spellings: PolicySpellings) -> PolicyDocument:
    """The document of a text, which may not extend files."""
    return _without_problems(examine_text(text, name, spellings))


def examine_text(text: str, name: str, spellings: PolicySpellings) -> PolicyDocument:
    """The same with all names that are not known."""
    tree = yaml_nodes.parse(text, name)
    for base, line in _bases(tree, name):
        raise errors.ConfigError(f"{name}, line {line}: a text cannot extend the file {base}.")
    return read_sections.read(tree, name, spellings)


def _without_problems(document: PolicyDocument) -> PolicyDocument:
    if document.problems:
        more = len(document.problems) - 1
        many = plurals.count(more, "more name like that", "more names like that")
        rest = (
            f" There {plurals.form(more, 'is', 'are')} {many}; `iceberg-compact policy check` lists all."
            if more
            else ""
        )
        raise errors.ConfigError(document.problems[0] + rest)
    return document


def _join(file: str, documents: list[PolicyDocument]) -> PolicyDocument:
    names = dict.fromkeys(name for document in documents for name in document.environments)
    return PolicyDocument(
        file=file,
        sections=tuple(section for document in documents for section in document.sections),
        environments=tuple(names),
        problems=tuple(each for document in documents for each in document.problems),
        environment=next((each.environment for each in documents if each.environment is not None), None),
    )


def _load(path: Path, shown: str, above: tuple[Path, ...], spellings: PolicySpellings) -> Iterator[PolicyDocument]:
    """The document of a file, and then those that it extends."""
    tree = yaml_nodes.parse(_text(path, shown), shown)
    yield _deeper(read_sections.read(tree, shown, spellings), len(above))
    chain = (*above, path.resolve())
    for base, line in _bases(tree, shown):
        other = path.parent / base
        if other.resolve() in chain:
            words = " extends ".join(each.name for each in (*chain, other))
            raise errors.ConfigError(f"{shown}, line {line}: the files extend each other in a circle: {words}.")
        if len(chain) > _MOST_FILES:
            raise errors.ConfigError(f"{shown}, line {line}: more than {_MOST_FILES} files extend each other.")
        named = base if Path(base).is_absolute() else str(Path(shown).parent / base)
        yield from _load(other, named, chain, spellings)


def _deeper(document: PolicyDocument, depth: int) -> PolicyDocument:
    sections: tuple[PolicySection, ...] = tuple(replace(section, depth=depth) for section in document.sections)
    return replace(document, sections=sections)


def _bases(tree: Node, file: str) -> Iterator[tuple[str, int]]:
    if not isinstance(tree, MappingNode):
        return
    for name, item in tree.items.items():
        if spelling.fold(name) not in ("extends", "extend"):
            continue
        for each in item.items if isinstance(item, ListNode) else [item]:
            if not isinstance(each, ScalarNode) or not isinstance(each.value, str):
                raise errors.ConfigError(f"{file}, line {each.line}: extends must be the path of a file, or a list.")
            yield each.value, each.line


def _text(path: Path, shown: str) -> str:
    try:
        if not path.exists():
            raise errors.ConfigError(f"There is no policy file {shown}.")
        if not path.is_file():
            raise errors.ConfigError(f"{shown} is not a file, so it cannot be a policy.")
        with path.open("rb") as stream:
            content = stream.read(yaml_nodes.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise errors.ConfigError(f"The policy file {shown} cannot be read: {words}.") from None
    if len(content) > yaml_nodes.MOST_BYTES:
        most, line = yaml_nodes.MOST_BYTES // 2**20, content.count(b"\n") + 1
        raise errors.ConfigError(
            f"{shown}, line {line}: the file goes on beyond {most} MiB, which is the most that a policy file may have; "
            "use patterns, or several files."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise errors.ConfigError(f"{shown}, line {line}: it is not text in UTF-8.") from None
