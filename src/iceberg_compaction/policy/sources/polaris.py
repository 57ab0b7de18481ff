"""Policies as Apache Polaris has them: `{version, enable, config}`, alone, with their type and name, or as the answer
of `applicable-policies`. Trees come in, and trees in our own form go out; other trees stay as they are."""

from __future__ import annotations

from iceberg_compaction import errors
from iceberg_compaction.policy import spelling
from iceberg_compaction.policy.sources import yaml_nodes
from iceberg_compaction.policy.sources.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

_CONTENT = frozenset({"version", "enable", "config", "locations", "max-orphan-file-age-in-days"})
_STEPS = {
    "data-compaction": "",
    "metadata-compaction": "maintenance.manifests.",
    "orphan-file-removal": "maintenance.orphans.",
    "snapshot-expiry": "maintenance.expire.",
}
_SIGNS = {  # of contents that do not say their type
    "max-orphan-file-age-in-days": "orphan-file-removal",
    "min-snapshot-to-keep": "snapshot-expiry",
    "max-snapshot-age-days": "snapshot-expiry",
    "max-ref-age-days": "snapshot-expiry",
    "spec-id": "metadata-compaction",
}


def unfold(tree: Node, file: str) -> Node:
    """A tree of Polaris in our own form; any other tree as it is."""
    policies = _policies(tree)
    if policies is None:
        return tree
    merged = MappingNode(line=tree.line)
    for policy in policies:
        kind, content = _content(policy, file)
        _merge(merged, kind, content, file)
    return merged


def _policies(tree: Node) -> list[MappingNode] | None:
    if not isinstance(tree, MappingNode):
        return None
    names = {spelling.fold(name) for name in tree.items}
    if "enable" in names and names <= _CONTENT:
        return [tree]
    if "content" in names and names & {"policy-type", "type"}:
        return [tree]
    listed = tree.items.get("applicable-policies") or tree.items.get("applicablePolicies")
    if isinstance(listed, ListNode) and all(isinstance(item, MappingNode) for item in listed.items):
        return [item for item in listed.items if isinstance(item, MappingNode)]
    return None


def _content(policy: MappingNode, file: str) -> tuple[str, MappingNode]:
    """The type of a policy and its content, which the API has as text."""
    fields = {spelling.fold(name): item for name, item in policy.items.items()}
    stated = fields.get("policy-type") or fields.get("type")
    content = fields.get("content", policy)
    if isinstance(content, ScalarNode) and isinstance(content.value, str):
        inner = yaml_nodes.parse(content.value, f"{file}, line {content.line}, content")
        content = _on_line(inner, content.line)
    if not isinstance(content, MappingNode):
        raise errors.ConfigError(f"{file}, line {content.line}: the content of a policy must be an object.")
    kind = None if stated is None else str(yaml_nodes.plain(stated)).removeprefix("system.")
    kind = kind or _guess(content)
    if kind not in _STEPS:
        raise errors.ConfigError(
            f"{file}, line {policy.line}: {kind!r} is no type of policy; those are {', '.join(_STEPS)}."
        )
    return kind, content


def _guess(content: MappingNode) -> str:
    config = content.items.get("config")
    names = [*content.items, *(config.items if isinstance(config, MappingNode) else ())]
    return next((_SIGNS[fold] for name in names if (fold := spelling.fold(name)) in _SIGNS), "data-compaction")


def _merge(merged: MappingNode, kind: str, content: MappingNode, file: str) -> None:
    for name, item in content.items.items():
        line, folded = content.lines[name], spelling.fold(name)
        if folded == "enable":
            _put(merged, f"{_STEPS[kind]}enabled", item, line, file)
        elif folded == "config" and isinstance(item, MappingNode):
            for inner, value in item.items.items():
                _put(merged, inner, value, item.lines[inner], file)
        elif folded not in ("version", "locations"):
            _put(merged, name, item, line, file)


def _put(merged: MappingNode, name: str, item: Node, line: int, file: str) -> None:
    if name in merged.lines:
        raise errors.ConfigError(f"{file}, line {line}: {name} is there twice, first in line {merged.lines[name]}.")
    merged.items[name], merged.lines[name] = item, line


def _on_line(node: Node, line: int) -> Node:
    """The same, with the line of the file that it stands in."""
    match node:
        case ScalarNode():
            return ScalarNode(line=line, value=node.value)
        case ListNode():
            return ListNode(line=line, items=[_on_line(item, line) for item in node.items])
        case MappingNode():
            items = {name: _on_line(item, line) for name, item in node.items.items()}
            return MappingNode(line=line, items=items, lines=dict.fromkeys(items, line))
