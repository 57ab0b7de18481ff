"""The page of rules is complete and true: it states every rule that code, tests and pages name, and every test that it
gives for a rule exists and names that rule."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
PAGE = ROOT / "docs" / "rules.md"
FOLDERS = ("src", "tests", "bench", "scripts", "docs")
CASES = {"test_interop_scenarios": "scenarios"}  # modules whose cases are in a folder beside them

_RULE = re.compile(r"^### R(\d+): .+$", re.MULTILINE)
_NAMED = re.compile(r"(?<![A-Za-z0-9])R(\d+)(?:-R(\d+))?(?![A-Za-z0-9])")
_IN_TEST_NAME = re.compile(r"(?<=_)r(\d+)(?=_|$)")
_REFERENCE = re.compile(r"`(test_\w+)(?:::(test_\w+))?`")


def rules_in(text: str) -> set[int]:
    """Rules that a text names, those inside a range too."""
    return {number for first, last in _NAMED.findall(text) for number in range(int(first), int(last or first) + 1)}


def rules_in_names(tests: Iterable[str]) -> set[int]:
    return {int(number) for test in tests for number in _IN_TEST_NAME.findall(test)}


@cache
def sections() -> dict[int, str]:
    """The text of every rule."""
    parts = _RULE.split(PAGE.read_text())
    return {int(number): text.split("\n## ")[0] for number, text in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def modules() -> dict[str, list[Path]]:
    """Test modules by name: folders may change."""
    found = defaultdict(list)
    for path in (ROOT / "tests").rglob("test_*.py"):
        found[path.stem].append(path)
    return found


@cache
def functions_of(path: Path) -> dict[str, str]:
    """The source of every test of a module."""
    source = path.read_text()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(source, node) or "" for node in functions if node.name.startswith("test")}


def rules_of_module(path: Path) -> set[int]:
    cases = (path.parent / CASES[path.stem]).glob("*.py") if path.stem in CASES else ()
    return rules_in("\n".join(file.read_text() for file in (path, *cases))) | rules_in_names(functions_of(path))


def rules_of_test(path: Path, test: str) -> set[int]:
    """Rules in the name or the source of a test, or in the docstring of its module."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return rules_in(docstring) | rules_in(functions_of(path)[test]) | rules_in_names([test])


def test_every_rule_that_is_named_anywhere_is_stated() -> None:
    files = [path for folder in FOLDERS for end in ("py", "md") for path in sorted((ROOT / folder).rglob(f"*.{end}"))]
    missing = [
        f"{path.relative_to(ROOT)}:{number} names R{rule}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for rule in sorted((rules_in(line) | rules_in_names(re.findall(r"def (test_\w+)", line))) - sections().keys())
    ]
    assert len(files) > 100
    assert missing == []


def test_every_rule_is_stated_once_and_listed_under_its_subject() -> None:
    page = PAGE.read_text()
    assert [rule for rule, count in Counter(_RULE.findall(page)).items() if count > 1] == []
    subjects = {part.partition("\n")[0]: _RULE.findall(part) for part in page.split("\n## ")[1:]}
    listed = re.findall(r"^\| \[(.+?)\]\(#.+?\) \| (.+?) \|$", page, re.MULTILINE)
    assert {subject: re.findall(r"\d+", rules) for subject, rules in listed} == subjects


@pytest.mark.parametrize("rule", sections())
def test_every_rule_has_tests_that_exist_and_name_it(rule: int) -> None:
    references = _REFERENCE.findall(sections()[rule].partition("- Tests: ")[2])
    assert references
    for module, test in references:
        assert len(modules()[module]) == 1, f"{module} is no module of tests, or several are called so"
        (path,) = modules()[module]
        assert not test or test in functions_of(path), f"{module} has no test {test}"
        names = rules_of_test(path, test) if test else rules_of_module(path)
        assert rule in names, f"{module}::{test} does not name R{rule}"
