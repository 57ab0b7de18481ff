"""The grammar of filters, see docs/reference/filters.md. Text comes in; a tree of conditions goes out, with the place
of each part, so that an error can point at it. It knows no schema. No recursion: thousands of parentheses are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyiceberg.expressions import literals

from iceberg_compaction.metadata.filter import filter_words, time_values, transform_ranges, typed_literals
from iceberg_compaction.metadata.filter.filter_words import FilterError, Word
from iceberg_compaction.metadata.filter.word_cursor import WordCursor, unexpected

DEPTH = 100  # conditions inside conditions
_COMPARISONS = {mark: mark for mark in ("<", "<=", ">", ">=", "=", "<>", "<=>")} | {"==": "=", "!=": "<>"}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FLOATS = ("double", "float")
_CHECKS = {"isnan": "is-nan", "isnull": "is-null", "isnotnull": "not-null"}  # functions that are conditions
_PRECEDENCE = {"or": 1, "and": 2, "not": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTerm:
    """A column by its name."""

    name: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralTerm:
    """A value. `typed`: the word before it, such as date."""

    literal: Any  # of PyIceberg; None: it is NULL
    at: int
    typed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformTerm:
    """A function of a column, such as bucket(16, id)."""

    function: str  # as it was written, in lower case and without what stands before it
    column: ColumnTerm
    width: int | None
    at: int


Term: TypeAlias = ColumnTerm | LiteralTerm | TransformTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`term` compared with values. `operator`: < <= > >= = <> <=> not-<=> in not-in like not-like is-null not-null
    is-nan not-nan; is-true and is-false stand for a condition that does not depend on rows, and have no term."""

    operator: str
    at: int
    term: Term | None = None
    values: tuple[LiteralTerm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """Conditions joined by `and` or `or`."""

    operator: str
    parts: tuple[Node, ...]
    negated: bool = False
    closed: bool = False  # in parentheses
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Negated:
    """A condition with NOT before it."""

    part: Condition


Node: TypeAlias = "Condition | Negated | Combined"


def parse(text: str) -> Node:
    """The tree of a filter, which does not ask for the time any more. FilterError: it cannot be read. RecursionError:
    it is too deep."""
    return _Parser(WordCursor(text)).parse()


class _Parser:
    def __init__(self, words: WordCursor) -> None:
        self._words = words
        self._nodes: list[Node] = []
        self._operators: list[Word] = []

    def parse(self) -> Node:
        """By two stacks: of conditions, and of operators that wait for their right side."""
        wants_condition = True
        while True:
            before, word = self._words.at, self._words.next()
            if wants_condition and (word.keyword == "not" or word.is_mark("(")):
                self._operators.append(word)
            elif wants_condition:
                self._words.at = before
                self._nodes.append(self._condition())
                wants_condition = False
            elif word.keyword in ("and", "or"):
                self._reduce(_PRECEDENCE[word.keyword])
                self._operators.append(word)
                wants_condition = True
            elif word.is_mark(")"):
                self._close(word)
            elif word.kind == "end":
                break
            else:
                raise unexpected(word, "AND, OR or the end")
        self._reduce(0)
        if self._operators:
            raise FilterError("this parenthesis is not closed", self._operators[-1].at)
        return self._nodes[0]

    def _reduce(self, least: int) -> None:
        """Apply the operators on the stack that bind as strongly as this, or more strongly."""
        while self._operators and _PRECEDENCE.get(self._operators[-1].keyword, -1) >= max(1, least):
            operator = self._operators.pop().keyword
            right = self._nodes.pop()
            self._nodes.append(_not(right) if operator == "not" else _joined(operator, self._nodes.pop(), right))

    def _close(self, word: Word) -> None:
        self._reduce(0)
        if not self._operators:
            raise FilterError("this parenthesis closes none", word.at)
        self._operators.pop()
        node = self._nodes[-1]
        if isinstance(node, Combined):
            self._nodes[-1] = replace(node, closed=True)

    def _condition(self) -> Condition:
        start = self._words.peek().at
        left = self._term(of_value=False)
        if isinstance(left, TransformTerm) and left.function in _CHECKS and left.width is None:
            return Condition(operator=_CHECKS[left.function], at=start, term=left.column)
        before, word = self._words.at, self._words.next()
        if word.kind == "mark" and word.text in _COMPARISONS:
            return self._comparison(left, _COMPARISONS[word.text], start)
        negated = word.keyword == "not"
        operator = self._words.next() if negated else word
        prefix = "not-" if negated else ""
        match operator.keyword:
            case "in":
                return Condition(operator=f"{prefix}in", at=start, term=left, values=self._values())
            case "like":
                return Condition(operator=f"{prefix}like", at=start, term=left, values=(self._value(),))
            case "between":
                return Condition(operator=f"{prefix}between", at=start, term=left, values=self._range())
            case "is" if not negated:
                return self._check(left, start)
        if not negated and isinstance(left, ColumnTerm | LiteralTerm):
            self._words.at = before
            return _alone(left, word)
        raise unexpected(operator, "a comparison")

    def _comparison(self, left: Term, operator: str, start: int) -> Condition:
        right = self._term(of_value=not isinstance(left, LiteralTerm))
        if isinstance(left, LiteralTerm) and isinstance(right, LiteralTerm):
            return _constant(left, operator, right)
        if isinstance(left, LiteralTerm):
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
        if not isinstance(right, LiteralTerm):
            raise FilterError("two columns cannot be compared with one another; give a value", right.at)
        value = right if operator == "<=>" else _not_null(right)
        return Condition(operator=operator, at=start, term=left, values=(value,))

    def _check(self, left: Term, start: int) -> Condition:
        negated = self._words.peek().keyword == "not"
        if negated:
            self._words.next()
        word = self._words.next()
        if word.keyword in ("null", "nan"):
            return Condition(operator=f"{'not' if negated else 'is'}-{word.keyword}", at=start, term=left)
        if word.keyword in ("true", "false"):
            truth = LiteralTerm(literal=literals.BooleanLiteral(word.keyword == "true"), at=word.at)
            return Condition(operator="not-<=>" if negated else "<=>", at=start, term=left, values=(truth,))
        if word.plain == "distinct":
            self._words.expect_name(("from",), "FROM")
            value = self._value(null=True)
            return Condition(operator="<=>" if negated else "not-<=>", at=start, term=left, values=(value,))
        raise unexpected(word, "NULL, NAN, TRUE, FALSE or DISTINCT FROM")

    def _values(self) -> tuple[LiteralTerm, ...]:
        self._words.expect("(")
        values = [self._value(null=True)]
        while self._words.peek().is_mark(","):
            self._words.next()
            values.append(self._value(null=True))
        self._words.expect(")")
        return tuple(values)

    def _range(self) -> tuple[LiteralTerm, ...]:
        low = self._value()
        word = self._words.next()
        if word.keyword != "and":
            raise unexpected(word, "AND")
        return low, self._value()

    def _value(self, *, null: bool = False) -> LiteralTerm:
        """`null`: it may be NULL."""
        word = self._words.peek()
        term = self._term(of_value=True)
        if not isinstance(term, LiteralTerm):
            raise unexpected(word, "a value")
        return term if null else _not_null(term)

    def _term(self, *, of_value: bool) -> Term:
        """`of_value`: a text in double quotes is a value there, as in Spark, and elsewhere a name."""
        if time_values.is_next(self._words, lambda _: True):
            return self._time()
        word = self._words.next()
        if word.kind == "text" or (word.kind == "quoted" and of_value):
            return LiteralTerm(literal=literals.StringLiteral(filter_words.text_of(word)), at=word.at)
        if word.kind == "number":
            return LiteralTerm(literal=filter_words.number_of(word), at=word.at)
        if word.keyword in ("true", "false"):
            return LiteralTerm(literal=literals.BooleanLiteral(word.keyword == "true"), at=word.at)
        if word.keyword == "null":
            return LiteralTerm(literal=None, at=word.at)
        if word.plain in time_values.TYPED and self._words.peek().kind == "text":
            value = literals.StringLiteral(filter_words.text_of(self._words.next()))
            return LiteralTerm(literal=value, at=word.at, typed=word.plain)
        if word.plain in _FLOATS and self._words.peek().is_mark("(") and self._words.peek(1).kind in ("text", "number"):
            return self._float()
        if word.keyword or word.kind not in ("name", "quoted"):
            raise unexpected(word, "a column or a value")
        return self._column_or_call(word)

    def _float(self) -> LiteralTerm:
        """double('NaN'): the column says what numbers it has."""
        self._words.next()
        value = self._value()
        self._words.expect(")")
        return value

    def _time(self) -> LiteralTerm:
        """A time that is computed from others."""
        at = self._words.peek().at
        value = time_values.read(self._words, None)
        return LiteralTerm(literal=literals.StringLiteral(value.text), at=at, typed=value.kind)

    def _column_or_call(self, word: Word) -> ColumnTerm | TransformTerm:
        path, last = [filter_words.name_of(word)], word
        while self._words.peek().is_mark("."):
            self._words.next()
            last = self._words.next()
            if last.kind not in ("name", "quoted"):
                raise unexpected(last, "a name")
            path.append(filter_words.name_of(last))
        if not self._words.peek().is_mark("("):
            return ColumnTerm(name=".".join(path), at=word.at)
        if len(path) > 3 or (len(path) > 1 and path[-2].lower() != "system"):
            raise FilterError("a function is called as bucket(16, id) or system.bucket(16, id)", word.at)
        return self._call(path[-1].lower(), word.at)

    def _call(self, function: str, at: int) -> TransformTerm:
        if function not in (*transform_ranges.FUNCTIONS, *_CHECKS, "cast"):
            names = ", ".join(transform_ranges.FUNCTIONS)
            raise FilterError(f"there is no function {function}; there are {names}", at)
        self._words.expect("(")
        arguments = [self._term(of_value=False)]
        if function == "cast":
            return self._cast(arguments[0], at)
        while self._words.peek().is_mark(","):
            self._words.next()
            arguments.append(self._term(of_value=False))
        self._words.expect(")")
        columns = [each for each in arguments if isinstance(each, ColumnTerm)]
        widths = [
            each.literal.value
            for each in arguments
            if isinstance(each, LiteralTerm) and isinstance(each.literal, literals.LongLiteral)
        ]
        if len(columns) != 1 or len(widths) > 1 or len(columns) + len(widths) != len(arguments):
            raise FilterError(f"{function} takes a column, or a number and a column", at)
        return TransformTerm(function=function, column=columns[0], width=widths[0] if widths else None, at=at)

    def _cast(self, term: Term, at: int) -> TransformTerm:
        """The day of a column of moments: cast(ts as date)."""
        self._words.expect_name(("as",), "AS")
        kind = self._words.next()
        if kind.plain != "date" or not isinstance(term, ColumnTerm):
            raise FilterError("a column can be cast to a date only, as in cast(ts as date)", at)
        self._words.expect(")")
        return TransformTerm(function="date", column=term, width=None, at=at)


def _not_null(value: LiteralTerm) -> LiteralTerm:
    if value.literal is None:
        raise FilterError("nothing is equal to NULL; write IS NULL or IS NOT NULL", value.at)
    return value


def _alone(term: ColumnTerm | LiteralTerm, word: Word) -> Condition:
    """A truth value, or a column of them."""
    if isinstance(term, ColumnTerm):
        if word.kind != "end" and word.keyword not in ("and", "or") and not word.is_mark(")"):
            raise unexpected(word, "a comparison")
        true = LiteralTerm(literal=literals.BooleanLiteral(True), at=term.at)
        return Condition(operator="=", at=term.at, term=term, values=(true,))
    if isinstance(term.literal, literals.BooleanLiteral):
        return Condition(operator="is-true" if term.literal.value else "is-false", at=term.at)
    raise unexpected(word, "a comparison")


def _constant(left: LiteralTerm, operator: str, right: LiteralTerm) -> Condition:
    """A comparison of two values, such as 1 = 1."""
    if operator == "<=>" and (left.literal is None or right.literal is None):
        return Condition(operator="is-true" if left.literal is right.literal else "is-false", at=left.at)
    one, two = _not_null(left).literal, _not_null(right).literal
    texts = isinstance(one, literals.StringLiteral)
    truths = isinstance(one, literals.BooleanLiteral)
    if texts != isinstance(two, literals.StringLiteral) or truths != isinstance(two, literals.BooleanLiteral):
        raise FilterError("these two values cannot be compared", right.at)
    pair = (_micros(left), _micros(right)) if left.typed or right.typed else (one.value, two.value)
    low, same = pair[0] < pair[1], pair[0] == pair[1]
    holds = {"<": low, "<=": low or same, ">": not low and not same, ">=": not low, "<>": not same}
    return Condition(operator="is-true" if holds.get(operator, same) else "is-false", at=left.at)


def _micros(value: LiteralTerm) -> int:
    try:
        return typed_literals.moment_micros(value.literal.value)
    except ValueError:
        raise FilterError(f"{value.literal.value!r} is no time in UTC such as '2026-01-31'", value.at) from None


def _not(node: Node) -> Node:
    match node:
        case Negated():
            return node.part
        case Condition():
            return Negated(part=node)
        case Combined():
            return replace(node, negated=not node.negated, closed=True)


def _joined(operator: str, left: Node, right: Node) -> Combined:
    """Both sides in one node; a chain without parentheses stays one, however long."""
    parts: tuple[Node, ...] = (left,)
    if isinstance(left, Combined) and left.operator == operator and not left.closed:
        parts = left.parts
    depth = 1 + max(each.depth if isinstance(each, Combined) else 0 for each in (*parts[-1:], left, right))
    if isinstance(left, Combined) and parts is left.parts:
        depth = max(left.depth, 1 + (right.depth if isinstance(right, Combined) else 0))
    if depth > DEPTH:
        raise RecursionError
    return Combined(operator=operator, parts=(*parts, right), depth=depth)
