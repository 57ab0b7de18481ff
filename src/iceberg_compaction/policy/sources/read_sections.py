"""From the tree of a document to sections. The same walk reads our own files, the guide's config.json, the custom
resource and Polaris' policies, because nested names and dotted names are one: `iceberg: {compaction: {enabled: true}}`
is `iceberg.compaction.enabled`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from iceberg_compaction import errors
from iceberg_compaction.model import table_names
from iceberg_compaction.model.policy_origin import IgnoredSetting, OriginKind, PolicyOrigin
from iceberg_compaction.policy import policy_keys, profiles, spelling
from iceberg_compaction.policy.policy_sections import Level, PolicyDocument, PolicySection, Setting
from iceberg_compaction.policy.sources import polaris, yaml_nodes
from iceberg_compaction.policy.sources.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.policy.sources.yaml_nodes import Node
    from iceberg_compaction.policy.spelling import PolicySpellings

ENVIRONMENTS = ("development", "staging", "production", "dev", "prod", "test")
_KIND = "CompactionPolicy"
_NAMESPACE = ("namespace", "database")  # of tables that are named without one
_INLINE = frozenset({"defaults", "policy", "rewrite", "spec"})  # their settings count as if they stood one level higher
_MAPPINGS = frozenset({"quiet-hours", "write-options", "snapshot-properties"})  # their values may be mappings
# Whoever loads files has read `extends`; the rest is for people and other programs.
_NOTES = frozenset(
    {"extends", "extend", "version", "description", "$schema", "api-version", "kind", "metadata", "comment", "status"}
)


def read(tree: Node, file: str, spellings: PolicySpellings) -> PolicyDocument:
    """The sections of a document; ConfigError: with file and line."""
    return _Reader(file, spellings).read(tree)


class _Reader:
    def __init__(self, file: str, spellings: PolicySpellings) -> None:
        self._file = file
        self._spellings = spellings
        self._sections: list[PolicySection] = []
        self._environments: dict[str, None] = {}
        self._chosen: str | None = None
        self._problems: list[str] = []
        self._first_lines: dict[tuple[Level, str, str | None], int] = {}

    def read(self, tree: Node) -> PolicyDocument:
        if isinstance(tree, ScalarNode) and tree.value is None:
            return PolicyDocument(file=self._file)
        tree = polaris.unfold(tree, self._file)
        if not isinstance(tree, MappingNode):
            self._refuse(tree.line, "a policy file is a mapping of names to values")
        self._check_kind(tree)
        self._read_level(tree, Level.CATALOG, "*", None)
        return PolicyDocument(
            file=self._file,
            sections=tuple(self._sections),
            environments=tuple(self._environments),
            environment=self._chosen,
            problems=tuple(self._problems),
        )

    def _check_kind(self, tree: MappingNode) -> None:
        kind = tree.items.get("kind")
        if kind is not None and yaml_nodes.plain(kind) != _KIND:
            self._refuse(kind.line, f"its kind is {yaml_nodes.plain(kind)!r}, not {_KIND}")

    def _read_level(self, node: MappingNode, level: Level, pattern: str, environment: str | None) -> None:
        """The settings of a mapping as one section, and the sections within it."""
        section = _Gathered(level=level, pattern=pattern, environment=environment)
        position = len(self._sections)  # in front of the sections within it
        self._walk(node, section)
        self._add(section, node.line, position)

    def _walk(self, node: MappingNode, section: _Gathered) -> None:
        namespace = _default_namespace(node)
        for name, item in node.items.items():
            line, folded = node.lines[name], spelling.fold(name)
            if folded in _NOTES or self._structure(folded, item, line, section, namespace):
                continue
            if folded in _INLINE and isinstance(item, MappingNode):
                self._walk(item, section)
            else:
                self._leaf_or_deeper(name, item, line, section)

    def _structure(self, name: str, item: Node, line: int, section: _Gathered, namespace: str | None) -> bool:
        """Whether the name holds sections, a profile or a choice, which are read here."""
        if name == "profile":
            section.profile = self._profile(item, line, section)
            return True
        if name == "tables" and section.level in (Level.CATALOG, Level.NAMESPACE):
            self._read_tables(item, section, namespace)
            return True
        return section.level is Level.CATALOG and self._of_catalog(name, item, section)

    def _read_tables(self, item: Node, section: _Gathered, namespace: str | None) -> None:
        inside = section.pattern if section.level is Level.NAMESPACE else namespace
        for pattern, part in self._entries(item, "tables"):
            whole = table_names.within(inside, pattern) if inside else pattern
            level = Level.PATTERN if table_names.is_pattern(whole) else Level.TABLE
            self._read_level(part, level, whole, section.environment)

    def _of_catalog(self, name: str, item: Node, section: _Gathered) -> bool:
        """The same for names that stand at the top only."""
        in_environment = section.environment is not None
        if name in ("namespaces", "databases"):
            for pattern, part in self._entries(item, name):
                self._read_level(part, Level.NAMESPACE, pattern, section.environment)
        elif name == "environments" and not in_environment:
            for environment, part in self._entries(item, name):
                self._read_environment(environment, part)
        elif isinstance(item, MappingNode) and name in ENVIRONMENTS and not in_environment:
            self._read_environment(name, item)
        elif isinstance(item, MappingNode) and name == "catalog":
            self._read_catalog(item, section)
        elif isinstance(item, ScalarNode) and name in ("environment", "env"):
            self._chosen = None if item.value is None else str(item.value)
        else:  # the namespace of tables that are named without one was read before
            return isinstance(item, ScalarNode) and name in _NAMESPACE
        return True

    def _read_catalog(self, node: MappingNode, section: _Gathered) -> None:
        for name, item in node.items.items():
            if name not in _NAMESPACE:
                self._leaf_or_deeper(f"catalog.{name}", item, node.lines[name], section)

    def _read_environment(self, name: str, part: MappingNode) -> None:
        self._environments[name] = None
        self._read_level(part, Level.CATALOG, "*", name)

    def _entries(self, node: Node, name: str) -> Iterator[tuple[str, MappingNode]]:
        """`{NAME: settings}`, or a list of settings that have a `name` or a `pattern`."""
        if isinstance(node, MappingNode):
            for key, item in node.items.items():
                yield self._pattern(key, node.lines[key]), self._mapping(item, key, node.lines[key])
        elif isinstance(node, ListNode):
            for item in node.items:
                yield self._listed(item, name)
        elif node.value is not None:
            self._refuse(node.line, f"{name} must be a mapping of names to settings, or a list")

    def _listed(self, item: Node, name: str) -> tuple[str, MappingNode]:
        if isinstance(item, ScalarNode) and isinstance(item.value, str):
            return self._pattern(item.value, item.line), MappingNode(line=item.line)
        if not isinstance(item, MappingNode):
            self._refuse(item.line, f"each of {name} must be a mapping with a name")
        names = [key for key in item.items if spelling.fold(key) in ("name", "pattern", "table", "namespace")]
        named = yaml_nodes.plain(item.items[names[0]]) if names else None
        if not isinstance(named, str) or not named.strip():
            self._refuse(item.line, f"each of {name} needs a name, such as `name: events`")
        rest = {key: each for key, each in item.items.items() if key != names[0]}
        lines = {key: line for key, line in item.lines.items() if key != names[0]}
        return self._pattern(named, item.line), MappingNode(line=item.line, items=rest, lines=lines)

    def _pattern(self, name: str, line: int) -> str:
        text = name.strip()
        if not table_names.is_pattern(text):
            try:
                table_names.parse(text)
            except errors.ConfigError as error:
                self._refuse(line, str(error).rstrip("."))
        return text

    def _mapping(self, item: Node, name: str, line: int) -> MappingNode:
        if isinstance(item, ScalarNode) and item.value is None:
            return MappingNode(line=line)
        if not isinstance(item, MappingNode):
            self._refuse(item.line, f"{name} must be a mapping of settings")
        return item

    def _profile(self, item: Node, line: int, section: _Gathered) -> Setting | None:
        value = yaml_nodes.plain(item)
        if value is None:
            return None
        name = profiles.name_of(value)
        if name is None:
            self._refuse(line, f"{value!r} is no profile; choose one of {', '.join(profiles.NAMES)}")
        key = policy_keys.PolicyKey(name="profile", path=("profile",))
        return Setting(key=key, value=name, origin=self._origin(line, section), spelling="profile")

    def _leaf_or_deeper(self, path: str, item: Node, line: int, section: _Gathered) -> None:
        meaning = self._spellings.meaning(path)
        if isinstance(item, MappingNode) and (meaning is None or meaning.key.name not in _MAPPINGS):
            for name, part in item.items.items():
                self._leaf_or_deeper(f"{path}.{name}", part, item.lines[name], section)
            return
        if meaning is None:
            self._unknown(path, item, line, section)
            return
        value = yaml_nodes.plain(item)
        if value is None:
            return  # nothing is said
        made = spelling.convert(meaning, value)
        origin = self._origin(line, section)
        double = section.settings.get(meaning.key.name)
        if double is not None:
            words = f"{path} says the same as {double.spelling} in line {double.origin.line}; keep one of them"
            self._refuse(line, words)
        section.settings[meaning.key.name] = Setting(key=meaning.key, value=made, origin=origin, spelling=path)

    def _unknown(self, path: str, item: Node, line: int, section: _Gathered) -> None:
        reason = self._spellings.reason_to_ignore(path)
        value = yaml_nodes.plain(item)
        if reason is None:
            near = self._spellings.nearest(path)
            hint = f"; did you mean {near}?" if near else "; `iceberg-compact policy schema` lists the names."
            self._problems.append(f"{self._file}, line {line}: {path[:100]} is not known{hint}")
            return
        section.ignored.append(
            IgnoredSetting(name=path, value=value, origin=self._origin(line, section), reason=reason)
        )

    def _add(self, section: _Gathered, line: int, position: int) -> None:
        identity = (section.level, section.pattern, section.environment)
        before = self._first_lines.get(identity)
        if before is not None:
            self._refuse(line, f"{section.title()} is there twice, first in line {before}; keep one of them")
        if section.level is not Level.CATALOG or section.environment is not None:
            self._first_lines[identity] = line
        self._sections.insert(
            position,
            PolicySection(
                level=section.level,
                pattern=section.pattern,
                environment=section.environment,
                settings=tuple(section.settings.values()),
                profile=section.profile,
                ignored=tuple(section.ignored),
                line=line,
            ),
        )

    def _origin(self, line: int, section: _Gathered) -> PolicyOrigin:
        return PolicyOrigin(kind=OriginKind.FILE, source=self._file, line=line, section=section.title())

    def _refuse(self, line: int, words: str) -> NoReturn:
        raise errors.ConfigError(f"{self._file}, line {line}: {words}.")


class _Gathered:
    """A section while it is read."""

    def __init__(self, *, level: Level, pattern: str, environment: str | None) -> None:
        self.level = level
        self.pattern = pattern
        self.environment = environment
        self.settings: dict[str, Setting] = {}
        self.profile: Setting | None = None
        self.ignored: list[IgnoredSetting] = []

    def title(self) -> str:
        return PolicySection(level=self.level, pattern=self.pattern, environment=self.environment).title


def _default_namespace(node: MappingNode) -> str | None:
    """The namespace of tables that are named without one: `namespace`, or `catalog.database` of the custom resource."""
    catalog = node.items.get("catalog")
    parts = [node, catalog] if isinstance(catalog, MappingNode) else [node]
    for part in parts:
        for name in _NAMESPACE:
            item = part.items.get(name)
            if isinstance(item, ScalarNode) and isinstance(item.value, str):
                return item.value
    return None
