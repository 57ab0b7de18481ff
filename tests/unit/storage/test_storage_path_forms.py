"""One form for all spellings of a path."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.storage.tree import path_forms
from iceberg_compaction.storage.tree.path_forms import Spellings

PIECES = st.sampled_from(
    ["/", "//", "a", "b c", "%20", "%2520", "%25", "..", ".", ".x", "ä", "data", "=", "+", "?", "#", ":"]
)
PREFIXES = st.sampled_from(
    ["", "file:", "file://", "s3://b", "s3a://b", "S3://b", "s3n://c", "hdfs://nn:8020", "abfss://c@a.x"]
)
LOCATIONS = st.builds(lambda prefix, parts: f"{prefix}/{''.join(parts)}", PREFIXES, st.lists(PIECES, max_size=8))


# Most often all of them begin alike, which is a way of its own.
ALIKE = PREFIXES.flatmap(
    lambda prefix: st.lists(
        st.builds(lambda parts: f"{prefix}/{''.join(parts)}", st.lists(PIECES, max_size=8)), min_size=1, max_size=5
    )
)


@examples(500)
@given(st.one_of(st.lists(LOCATIONS, min_size=1, max_size=5), ALIKE))
def test_many_paths_have_the_forms_of_single_ones(locations: list[str]) -> None:
    spellings = Spellings(authorities={"c": "b"})
    prefixes, paths = spellings.split_all(pa.array(locations, pa.string()))
    assert list(zip(prefixes.to_pylist(), paths.to_pylist(), strict=True)) == [
        spellings.split(each) for each in locations
    ]


@examples(100)
@given(LOCATIONS)
def test_the_form_of_a_form_is_the_same(location: str) -> None:
    prefix, path = Spellings().split(location)
    assert Spellings().split(f"{prefix}{path}") == (prefix, path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/t/f", "s3a://b/t/f"),
        ("s3n://b/t/f", "s3a://b//t/f"),
        ("file:/t/f", "file:///t/f"),
        ("/t/f", "file:///t/f"),
        ("file://localhost/t/f", "/t/f"),
        ("s3://b/a b/f", "s3://b/a%20b/f"),
        ("s3://b/a b/f", "s3://b/a%2520b/f"),
        ("s3://b/t/", "s3://b/t"),
        ("gs://b/t", "gcs://b/t"),
        ("/t/./f", "/t/x/../f"),
    ],
)
def test_spellings_of_one_file(one: str, other: str) -> None:
    assert Spellings().split(one) == Spellings().split(other)


@pytest.mark.parametrize(
    ("one", "other"), [("s3://a/f", "s3://b/f"), ("s3://a/f", "gs://a/f"), ("hdfs://n1/f", "hdfs://n2/f"), ("/F", "/f")]
)
def test_other_files(one: str, other: str) -> None:
    assert Spellings().split(one) != Spellings().split(other)


def test_equal_names_as_iceberg_writes_them() -> None:
    assert path_forms.parse_equal(["s3n, s3a=s3", "x=y"], option="--o") == {"s3n": "s3", "s3a": "s3", "x": "y"}
    for text in ("a", "a=", "=b", "a,,b=c"):
        with pytest.raises(errors.ConfigError, match="--o"):
            path_forms.parse_equal([text], option="--o")
