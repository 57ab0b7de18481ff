"""Numbers and the form of their noun."""

from __future__ import annotations

import ast
from pathlib import Path

import iceberg_compaction
from iceberg_compaction.model import plurals


def test_a_count_has_the_form_of_its_noun() -> None:
    assert [plurals.count(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert plurals.count(2, "entry", "entries") == "2 entries"
    assert plurals.form(1, "is", "are") == "is"


def test_no_module_makes_plurals_by_hand() -> None:
    """`"file" if number == 1 else "files"` and the like."""
    package = Path(iceberg_compaction.__file__).parent
    handmade = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.IfExp) and is_equal_to_one(node.test) and isinstance(node.body, ast.Constant)
        if isinstance(node.body.value, str)
    ]
    assert handmade == []


def is_equal_to_one(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == 1
    )
