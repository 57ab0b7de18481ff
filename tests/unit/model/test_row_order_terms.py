"""Row orders as people write them."""

from __future__ import annotations

import pytest

from iceberg_compaction.model import row_order_terms


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("id", "id ASC NULLS FIRST"),
        ("day DESC NULLS LAST,id", "day DESC NULLS LAST, id ASC NULLS FIRST"),
        ("id desc", "id DESC NULLS LAST"),
        (" id  asc  nulls  last ", "id ASC NULLS LAST"),
        ("bucket(16, id), a.b", "bucket(16, id) ASC NULLS FIRST, a.b ASC NULLS FIRST"),
        ("truncate(name, 4) desc nulls first", "truncate(4, name) DESC NULLS FIRST"),
        ("days(at), hour(`at`)", "day(at) ASC NULLS FIRST, hour(at) ASC NULLS FIRST"),
        ("`odd name, really` desc", "odd name, really DESC NULLS LAST"),
        ("desc", "desc ASC NULLS FIRST"),
        ("größe", "größe ASC NULLS FIRST"),
    ],
)
def test_texts_become_terms(given: str, text: str) -> None:
    assert row_order_terms.text(row_order_terms.parse(given)) == text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "column is missing"),
        ("id,", "column is missing"),
        ("zorder(a, b)", "zorder is not available yet"),
        ("bucket(id)", "is not a column"),
        ("lower(id)", "is not a column"),
        ("id, id desc", "named twice"),
        ("bucket(16, id", "open parenthesis"),
        ("two words", "put odd names into"),
    ],
)
def test_other_texts_get_a_sentence(given: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        row_order_terms.parse(given)


def test_keys_name_columns_by_id() -> None:
    (term,) = row_order_terms.parse("bucket(4, id) DESC")
    assert term.model_copy(update={"field_id": 7}).key == "bucket(4, #7) DESC NULLS LAST"
