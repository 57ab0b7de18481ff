"""YAML and JSON as trees that know their lines. Text that others wrote comes in; values, lists and mappings with line
numbers go out, or one sentence with the line. Nothing is constructed but text, numbers and truth values; anchors,
aliases and tags are refused, so that no file can grow while it is read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 2 * 2**20
_MOST_DEPTH = 24
_MOST_NODES = 200_000
_MOST_DIGITS = 30
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TRUTH = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
_NOTHING = frozenset({"", "~", "null"})
_INT = re.compile(r"[-+]?\d[\d_]*", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d[\d_]*)?\.?\d+([eE][-+]?\d{1,3})?", re.ASCII)
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|\t', re.DOTALL)
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_JSON_START = re.compile(r'\s*(?://[^\n]*\s*|/\*.*?\*/\s*)*(?:[{\[]|"(?:[^"\\\n]|\\.)*"\s*:)', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarNode:
    """Text, a number, a truth value, or nothing."""

    line: int
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    """Nodes in their order."""

    line: int
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingNode:
    """Nodes by name, in their order; `lines`: of the names."""

    line: int
    items: dict[str, Node] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


Node: TypeAlias = ScalarNode | ListNode | MappingNode


def parse(text: str, file: str) -> Node:
    """The tree of a document; ConfigError: it is none, with file and line."""
    if "\0" in text:
        raise _wrong(file, text.count("\n", 0, text.index("\0")) + 1, "it is not text")
    if _JSON_START.match(text):
        text = _COMMENT.sub(_blank, text)
    try:
        return _Tree(file).build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(str(error.problem or error.context or "it is not YAML").split())
        raise _wrong(file, 1 if mark is None else mark.line + 1, f"it is neither YAML nor JSON: {words}") from None
    except yaml.YAMLError as error:  # of the reader, which knows no line
        words = " ".join(str(error).split())[:120]
        raise _wrong(file, 1, f"it is not text that YAML allows: {words}") from None
    except RecursionError:
        raise _wrong(file, 1, f"it is nested deeper than {_MOST_DEPTH} levels") from None


def _blank(match: re.Match[str]) -> str:
    """Comments and tabs outside of text become blanks; the lines stay where they are. JSON writes characters beyond
    16 bits as two escapes, which YAML does not know."""
    given = match[0]
    if not given.startswith('"'):
        return re.sub(r"[^\n]", " ", given)
    whole = _PAIR.sub(lambda pair: pair[1] + bytes.fromhex(pair[2] + pair[3]).decode("utf-16-be"), given)
    return escape(whole)


def escape(quoted: str) -> str:
    """A text in double quotes without characters that YAML would refuse, or take for the end of a line."""
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def plain(node: Node) -> Any:
    """The values of a node, without lines."""
    match node:
        case ScalarNode():
            return node.value
        case ListNode():
            return [plain(item) for item in node.items]
        case MappingNode():
            return {name: plain(item) for name, item in node.items.items()}


def _wrong(file: str, line: int, words: str) -> errors.ConfigError:
    return errors.ConfigError(f"{file}, line {line}: {words}.")


class _Tree:
    """Builds nodes of events, with a stack of its own: no nesting can exhaust the interpreter's."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[ListNode | MappingNode] = []
        self._names: list[tuple[str, int] | None] = []  # the name that waits for its value, for each open mapping
        self._count = 0

    def build(self, events: Iterator[Any]) -> Node:
        root: Node | None = None
        for event in events:
            line = event.start_mark.line + 1
            self._check(event, line)
            if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                is_list = isinstance(event, yaml.SequenceStartEvent)
                node: Node = ListNode(line=line) if is_list else MappingNode(line=line)
                self._attach(node, line)
                self._open.append(node)  # type: ignore[arg-type]
                self._names.append(None)
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                node = self._open.pop()
                self._names.pop()
            elif isinstance(event, yaml.ScalarEvent):
                node = ScalarNode(line=line, value=self._value(event, line))
                self._attach(node, line)
            elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise _wrong(self._file, line, "a second document begins here; a policy file has one")
            else:
                continue
            if root is None:
                root = node
        return ScalarNode(line=1, value=None) if root is None else root

    def _check(self, event: Any, line: int) -> None:
        self._count += 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _wrong(self._file, line, "anchors and aliases are not read; write the values out, or use `extends`")
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise _wrong(self._file, line, f"the tag {str(tag)[:60]} is not read; write plain values")
        if len(self._open) > _MOST_DEPTH:
            raise _wrong(self._file, line, f"it is nested deeper than {_MOST_DEPTH} levels")
        if self._count > _MOST_NODES:
            raise _wrong(self._file, line, f"it has more than {_MOST_NODES:,} values")

    def _attach(self, node: Node, line: int) -> None:
        if not self._open:
            return
        parent = self._open[-1]
        if isinstance(parent, ListNode):
            parent.items.append(node)
            return
        waiting = self._names[-1]
        if waiting is None:
            self._names[-1] = self._name(node, parent)
            return
        parent.items[waiting[0]], parent.lines[waiting[0]] = node, waiting[1]
        self._names[-1] = None

    def _name(self, node: Node, parent: MappingNode) -> tuple[str, int]:
        if not isinstance(node, ScalarNode):
            raise _wrong(self._file, node.line, "the name of a setting must be text, not a list or a mapping")
        name = "" if node.value is None else str(node.value)
        if name in parent.lines:
            words = f"{name[:80]!r} is there twice, first in line {parent.lines[name]}; keep one of them"
            raise _wrong(self._file, node.line, words)
        return name, node.line

    def _value(self, event: Any, line: int) -> Any:
        text: str = event.value
        waiting = not self._open or isinstance(self._open[-1], ListNode) or self._names[-1] is not None
        if not event.implicit[0] or not waiting:  # in quotes, or a name
            return text
        if text.lower() in _NOTHING:
            return None
        if text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        if len(text) > _MOST_DIGITS:
            return text
        digits = text.replace("_", "")
        if _INT.fullmatch(text):
            return int(digits)
        number = float(digits) if _FLOAT.fullmatch(text) else math.inf
        return number if math.isfinite(number) else text
