"""`--server URL` among the words of a command: with it, a service does the work, and other verbs are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAG = "--server"


def take(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The URL that was given, and the other words. ConfigError: there is no URL after the flag."""
    rest, url = list[str](), None
    left = iter(words)
    for word in left:
        if word == "--":
            return url, [*rest, word, *left]
        if word == FLAG:
            url = next(left, "")
        elif word.startswith(f"{FLAG}="):
            url = word.partition("=")[2]
        else:
            rest.append(word)
            continue
        if not url or url.startswith("-"):
            raise errors.ConfigError("--server needs the URL of a service, such as http://localhost:8080.")
    return url, rest
