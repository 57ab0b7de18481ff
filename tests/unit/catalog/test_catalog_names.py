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
        ("events", ("events",)),
        ("`a.b`", ("a.b",)),
        ("db.my table:1", ("db", "my table:1")),
        ("db.`say ``hi```", ("db", "say `hi`")),
    ],
)
def test_names_with_and_without_quotes(text: str, parts: tuple[str, ...]) -> None:
    assert table_names.parse(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a..b", ".a.b", "a.b.", 'db."t', 'db.""', 'db."t"x', "db.`t"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigError, match="write it like namespace"):
        table_names.parse(text)


@given(st.lists(st.text(alphabet="ab.\"`' \n", min_size=1, max_size=4), min_size=2, max_size=3))
def test_every_name_is_read_back(parts: list[str]) -> None:
    assert table_names.parse(table_names.text(parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("shop.*", ["shop.a", 'shop."a.b"', "shop.a*b"]),
        ("shop.`a.b`", ['shop."a.b"']),
        ("shop.`a*b`", ["shop.a*b"]),
        ("shop.a*b", ['shop."a.b"', "shop.a*b"]),
        ("`my db`.*", ["my db.t"]),
        ("*.t", ["my db.t"]),
        ("shop.[x]", ["shop.[x]", "shop.x"]),
        ("shop.`[x]`", ["shop.[x]"]),
    ],
)
def test_wildcards_count_outside_of_quotes(pattern: str, names: list[str]) -> None:
    every_name = ["shop.a", 'shop."a.b"', "shop.a*b", "my db.t", "shop.[x]", "shop.x"]
    in_shop = {"shop.*": ["shop.[x]", "shop.x"]}.get(pattern, [])
    assert [name for name in every_name if table_names.matches(name, pattern)] == [*names, *in_shop]


def test_a_wildcard_in_quotes_makes_no_pattern() -> None:
    assert [table_names.is_pattern(text) for text in ("db.*", "db.`*`", '"a?".t', "db.t", "`a.b`.[xy]")] == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_patterns_without_a_namespace_lie_in_the_given_one() -> None:
    assert table_names.within("my db", "ev*") == "my db.ev*"
    assert table_names.within("shop", "other.*") == "other.*"
    assert table_names.matches("a*b.t", table_names.within("`a*b`", "*"))
    assert not table_names.matches("axb.t", table_names.within("`a*b`", "*"))
