"""No text means two tables, and every table has one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_compaction import errors
from iceberg_compaction.model import table_names


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ("db", "t")),
        (" a . b.c ", ("a", "b", "c")),
        ('db."x.y"', ("db", "x.y")),
        ("db.`x.y`", ("db", "x.y")),
        ('"a.b".t', ("a.b", "t")),
        ('db."say ""hi"""', ("db", 'say "hi"')),
        ("db.o'hara's \"t\"", ("db", "o'hara's \"t\"")),
        ('db." t "', ("db", " t ")),
    ],
)
def test_names_with_and_without_quotes(text: str, parts: tuple[str, ...]) -> None:
    assert table_names.parse(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a..b", ".a.b", "a.b.", 'db."t', 'db.""', 'db."t"x', "db.`t", '"a.b"', "t"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigError, match="write it like namespace"):
        table_names.parse(text)


@given(st.lists(st.text(alphabet="ab.\"`' \n", min_size=1, max_size=4), min_size=2, max_size=3))
def test_every_name_is_read_back(parts: list[str]) -> None:
    assert table_names.parse(table_names.text(parts)) == tuple(parts)
