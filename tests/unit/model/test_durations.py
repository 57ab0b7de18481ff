"""Durations as people write them."""

from __future__ import annotations

import pytest

from iceberg_compaction import errors
from iceberg_compaction.model import durations


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), (" 2H ", 7200), ("1d", 86_400), (2.5, 2.5)]
)
def test_a_duration_is_a_number_of_seconds(text: float | str, seconds: float) -> None:
    assert durations.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "0", "1w", "1h30m", 0, -2.0, float("inf"), float("nan")])
def test_anything_else_is_refused_in_one_sentence(text: float | str) -> None:
    with pytest.raises(errors.ConfigError, match="is not a duration; write it as 90s, 15m, 2h or 1d"):
        durations.parse_seconds(text)


def test_a_duration_longer_than_calendars_go_is_refused() -> None:
    assert durations.parse_seconds("365000d") == 365_000 * 86_400
    with pytest.raises(errors.ConfigError, match="'365001d' is too long for a duration; write 365000d at most"):
        durations.parse_seconds("365001d")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (7 * 86_400, "7 days"),
        (86_400, "1 day"),
        (90 * 60, "90 minutes"),
        (3600, "1 hour"),
        (1, "1 second"),
        (0.5, "0.5 seconds"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit_that_has_whole_numbers(seconds: float, words: str) -> None:
    assert durations.words(seconds) == words
